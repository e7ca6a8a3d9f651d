"""Tags that draw what `portal.lists` says of a list: its search and facets, its header row, the choice of
columns, the links to other pages and to CSV."""

from collections.abc import Sequence
from typing import Any

from django import template
from django.core.paginator import Page
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from portal.lists import Facet, ListState, Value
from portal.templatetags.ui import number, page_links

register = template.Library()


@register.inclusion_tag("components/list_form.html")
def list_form(
    listed: ListState, facets: Sequence[Facet] = (), label: str = "", placeholder: str = ""
) -> dict[str, Any]:
    """The search and the facets above a list. `label` names the search for those who do not see it."""
    named = {"q", *(facet.name for facet in facets)}
    return {
        "list": listed,
        "facets": facets,
        "label": label or _("Search"),
        "placeholder": placeholder,
        "searches": bool(listed.listing.search),
        "kept": [(name, value) for name, value in listed.pairs() if name not in named],
    }


@register.simple_tag
def facet_values(name: str, values: Sequence[Value], form: str = "") -> SafeString:
    """The checkboxes of a facet's values; `form` names the form that they belong to when they stand outside
    of it. A tag rather than a template: a page has more than a hundred of them."""
    belongs = format_html(' form="{}"', form) if form else ""
    return format_html_join(
        "",
        '<label class="cd-facet-value{}"><input id="{}"{} class="form-check-input" type="checkbox" name="{}"'
        ' value="{}"{}><span>{}</span><span class="cd-facet-count">{}</span></label>',
        (
            (
                "" if value.count else " cd-facet-none",
                value.id,
                belongs,
                name,
                value.value,
                mark_safe(" checked") if value.chosen else "",
                value.label,
                number(value.count),
            )
            for value in values
        ),
    )


@register.inclusion_tag("components/list_facets.html")
def list_updates(facets: Sequence[Facet]) -> dict[str, Any]:
    """For the end of a partial: the facets' counts anew, in their places above the list."""
    return {"facets": facets}


@register.inclusion_tag("components/list_bar.html")
def list_bar(listed: ListState, page: "Page[Any]", facets: Sequence[Facet] = ()) -> dict[str, Any]:
    """Above a table: how many there are, the choices in force, the choice of columns, CSV."""
    chips = [
        {"label": value.label, "url": listed.toggled(facet.name, value.value)}
        for facet in facets
        for value in facet.values
        if value.chosen
    ]
    if listed.text:
        chips.insert(0, {"label": f"“{listed.text}”", "url": listed.href(q="")})
    return {
        "list": listed,
        "total": page.paginator.count,
        "chips": chips,
        "csv_url": listed.href(format="csv"),
        **list_columns(listed),
    }


@register.inclusion_tag("components/list_columns.html")
def list_columns(listed: ListState) -> dict[str, Any]:
    """The choice of columns, a menu with a form of its own."""
    return {
        "list": listed,
        "columns": [column for column in listed.listing.columns if not column.fixed],
        "columns_kept": [pair for pair in listed.pairs() if pair[0] != "columns"],
        "columns_default": listed.href(columns="", remember=1),
    }


@register.inclusion_tag("components/list_header.html")
def list_header(listed: ListState) -> dict[str, Any]:
    """The header row: the columns shown, those that can be sorted by as links."""
    heads = []
    for column in listed.visible:
        direction = ""
        if column.name == listed.sort:
            direction = "descending" if listed.descending else "ascending"
        heads.append(
            {
                "label": column.label,
                "css": column.css,
                "direction": direction,
                "url": listed.sorted_by(column.name) if column.order else "",
            }
        )
    return {"heads": heads}


@register.inclusion_tag("components/pagination.html")
def list_pages(listed: ListState, page: "Page[Any]") -> dict[str, Any]:
    """Links to the other pages, this view otherwise."""
    return page_links(page, lambda number: listed.href(page=number if number > 1 else ""))
