"""Template tags of the portal's face: icons, states, times, durations, sizes, money, fields, paging.

Every value that a person reads goes through here, so that the same thing looks the same on every page.
"""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from django import template
from django.conf import settings
from django.core.paginator import Page
from django.forms import BoundField, CheckboxInput, RadioSelect, Select
from django.http import QueryDict
from django.template import Context, TemplateSyntaxError
from django.template.loader_tags import BLOCK_CONTEXT_KEY
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language, gettext, ngettext, pgettext

from portal import money as money_rules
from portal.explanations import explained
from portal.moments import MomentInput
from portal.paging import has_more
from portal.states import appearance

register = template.Library()

UNKNOWN = "–"

# --- icons -----------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def _icon_markup(name: str) -> str:
    """The drawing inside a Tabler icon's <svg>. Raises TemplateSyntaxError for a name that Tabler lacks."""
    style, _, plain = name.rpartition("/")
    if not re.fullmatch(r"[a-z0-9-]+", plain) or style not in {"", "filled", "outline"}:
        raise TemplateSyntaxError(f"{name!r} is not the name of an icon")
    path = settings.NODE_MODULES / "@tabler" / "icons" / "icons" / (style or "outline") / f"{plain}.svg"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise TemplateSyntaxError(f"Tabler has no icon {name!r}") from None
    drawing = re.search(r"<svg[^>]*>(.*)</svg>", text, re.DOTALL)
    if drawing is None:
        raise TemplateSyntaxError(f"The icon {name!r} is not an SVG")
    # The first path is an invisible bounding box: bytes for nothing on pages with hundreds of icons.
    paths = re.sub(r'<path stroke="none"[^>]*/>', "", drawing.group(1))
    return re.sub(r"\s*\n\s*", "", paths)


@register.simple_tag
def icon(name: str, label: str = "", css: str = "") -> SafeString:
    """An inline Tabler icon. Decorative unless `label` names it for those who do not see it."""
    return _icon(name, str(label), css)


# `typed`, here and below: the same characters are escaped as a plain string, and not as safe markup.
@lru_cache(maxsize=512, typed=True)
def _icon(name: str, label: str, css: str) -> SafeString:
    paint = (
        'fill="currentColor"'
        if name.startswith("filled/")
        else 'fill="none" stroke="currentColor" stroke-linecap="round" stroke-linejoin="round"'
    )
    return format_html(
        '<svg class="icon{}" width="24" height="24" viewBox="0 0 24 24" {} {}>{}</svg>',
        f" {css}" if css else "",
        mark_safe(paint),  # noqa: S308 - one of the two constants above
        format_html('role="img" aria-label="{}"', label) if label else mark_safe('aria-hidden="true"'),
        mark_safe(_icon_markup(name)),  # noqa: S308 - a file of the pinned icon package
    )


# --- states ----------------------------------------------------------------------------------------


@register.simple_tag
def state_badge(state: str, text: str = "", title: str = "") -> SafeString:
    """A state as icon, colour and word. `text` is what people read (get_…_display); `title` explains it.

    A state that `portal.states` does not know is shown neutrally, never dropped.
    """
    return _state_badge(state, str(text), str(title))


@lru_cache(maxsize=512, typed=True)
def _state_badge(state: str, text: str, title: str) -> SafeString:
    look = appearance(state)
    return format_html(
        '<span class="cd-state cd-state-{}" data-state="{}"{}>{}<span>{}</span></span>',
        look.tone,
        state,
        format_html(' title="{}"', title) if title else "",
        icon(look.icon),
        text or state.replace("-", " "),
    )


# What a badge without an icon of its own bears: a colour alone says nothing to some.
_TONE_ICONS = {
    "good": "circle-check",
    "busy": "player-play",
    "wait": "clock",
    "bad": "alert-triangle",
    "off": "minus",
}


@register.simple_tag
def tone_badge(tone: str, text: str, icon_name: str = "") -> SafeString:
    """A badge that is no state of the data: `tone` is good, busy, wait, bad, off or plain."""
    icon_name = icon_name or _TONE_ICONS.get(tone, "")
    return format_html(
        '<span class="cd-state cd-state-{}">{}<span>{}</span></span>',
        tone,
        icon(icon_name) if icon_name else "",
        text,
    )


@register.inclusion_tag("components/usage_bar.html")
def usage_bar(
    free: int = 0, held: int = 0, unavailable: int = 0, partly: int = 0, unknown: int = 0
) -> dict[str, Any]:
    """A stacked bar of device counts, with the numbers in its label (never colour alone)."""
    counts = [
        ("held", gettext("held"), held),
        ("partly", gettext("partly held"), partly),
        ("free", gettext("free"), free),
        ("unavailable", gettext("unavailable"), unavailable),
        ("unknown", gettext("unknown"), unknown),
    ]
    total = sum(count for _, _, count in counts)
    parts, x = [], 0.0
    for tone, _label, count in counts:
        if count and total:
            width = 100 * count / total
            parts.append({"tone": tone, "x": f"{x:.3f}", "width": f"{width:.3f}"})
            x += width
    label = ", ".join(f"{count} {label}" for _, label, count in counts if count)
    return {"parts": parts, "label": label or gettext("no devices"), "total": total}


# --- times, durations, sizes, money ----------------------------------------------------------------


@register.filter
def local_time(value: datetime | None) -> SafeString | str:
    """A moment in the reader's time zone as <time>, with UTC in its title; unknown when there is none."""
    if value is None:
        return UNKNOWN
    return format_html(
        '<time datetime="{}" title="{} UTC">{}</time>', value.isoformat(), _in_utc(value), _local(value)
    )


def _local(value: datetime) -> str:
    """In the reader's time zone, to the minute. Digits alone, so that no language has a say in it."""
    return timezone.localtime(value).isoformat(" ", "minutes")[: len("2026-01-31 12:00")]


def _in_utc(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(" ", "seconds")[: len("2026-01-31 12:00:00")]


@register.filter
def ago(value: datetime | None) -> SafeString | str:
    """How long ago a moment was ("5 min ago", "in 2 h"), with the full times in the title."""
    if value is None:
        return UNKNOWN
    distance = _rounded(timezone.now() - value)
    if abs(distance) < timedelta(seconds=10):
        words = gettext("just now")
    elif distance > timedelta():
        words = gettext("%(duration)s ago") % {"duration": human_duration(distance, 1)}
    else:
        words = gettext("in %(duration)s") % {"duration": human_duration(-distance, 1)}
    return format_html(
        '<time datetime="{}" title="{} · {} UTC">{}</time>',
        value.isoformat(),
        _local(value),
        _in_utc(value),
        words,
    )


def _rounded(distance: timedelta) -> timedelta:
    """To whole days, hours or minutes, the largest that fit: what ends in 89 d 23 h 59 min ends in 90 d."""
    seconds = distance.total_seconds()
    unit = next((size for size in (86_400, 3_600, 60) if abs(seconds) >= size), 1)
    return timedelta(seconds=round(seconds / unit) * unit)


@register.filter
def human_duration(value: timedelta | float | None, parts: int = 2) -> str:
    """A duration (timedelta or seconds) in its `parts` largest units: "3 d 4 h", "12 min 5 s", "0 s"."""
    if value is None:
        return UNKNOWN
    seconds = int(value.total_seconds() if isinstance(value, timedelta) else value)
    sign, seconds = ("−" if seconds < 0 else ""), abs(seconds)
    units = [
        (86_400, pgettext("unit of time", "d")),
        (3_600, pgettext("unit of time", "h")),
        (60, pgettext("unit of time", "min")),
        (1, pgettext("unit of time", "s")),
    ]
    words: list[str] = []
    for size, unit in units:
        count, seconds = divmod(seconds, size)
        if count:
            words.append(f"{count} {unit}")
        elif words:
            # "1 d 5 s" would hide that the hours are zero; stop at the first gap.
            break
        if len(words) == parts:
            break
    return sign + (" ".join(words) or f"0 {units[-1][1]}")


@register.filter
def human_bytes(value: int | None) -> str:
    """Bytes in binary units with at most one decimal: "80 GiB", "1.5 TiB", "512 B"."""
    if value is None:
        return UNKNOWN
    size = Decimal(value)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(size) < 1024 or unit == "PiB":
            break
        size /= 1024
    rounded = size.quantize(Decimal(1)) if size == size.to_integral_value() else size.quantize(Decimal("0.1"))
    return f"{number_format(rounded, use_l10n=True)} {unit}"


@register.filter
def number(value: float | Decimal | None, decimals: int | None = None) -> str:
    """A number with the reader's digit grouping; unknown when there is none."""
    if value is None:
        return UNKNOWN
    return number_format(value, decimal_pos=decimals, use_l10n=True, force_grouping=True)


@register.filter
def money(value: Decimal | Fraction | None, currency: str) -> str:
    """An amount in a currency, rounded to its minor unit and written the reader's way."""
    if value is None:
        return UNKNOWN
    return money_rules.display(value, currency=currency, language=get_language() or "en")


# --- links and lists -------------------------------------------------------------------------------


def _query(context: Context) -> QueryDict:
    request = context.get("request")
    return request.GET.copy() if request is not None else QueryDict(mutable=True)


@register.simple_tag(takes_context=True)
def query_with(context: Context, **changes: Any) -> str:
    """The present query string with some parameters replaced; None or "" removes one.

    Changing anything but the page goes back to the first page.
    """
    query = _query(context)
    if "page" not in changes and "cursor" not in changes:
        query.pop("page", None)
        query.pop("cursor", None)
    for name, value in changes.items():
        if value is None or value == "":
            query.pop(name, None)
        elif isinstance(value, (list, tuple)):
            query.setlist(name, [str(item) for item in value])
        else:
            query[name] = str(value)
    return f"?{query.urlencode()}"


@register.simple_tag(takes_context=True)
def query_toggle(context: Context, name: str, value: Any) -> str:
    """The present query string with `value` added to a multiple parameter, or taken out if it is there."""
    query = _query(context)
    query.pop("page", None)
    values = query.getlist(name)
    text = str(value)
    query.setlist(name, [v for v in values if v != text] if text in values else [*values, text])
    return f"?{query.urlencode()}"


@register.inclusion_tag("components/sort_header.html", takes_context=True)
def sort_header(context: Context, name: str, label: str, css: str = "") -> dict[str, Any]:
    """A sortable column's <th>: links to ?sort=name, or ?sort=-name when it is sorted so already."""
    sort = _query(context).get("sort", "")
    direction = {name: "ascending", f"-{name}": "descending"}.get(sort, "")
    return {
        "label": label,
        "css": css,
        "direction": direction,
        "url": query_with(context, sort=f"-{name}" if direction == "ascending" else name),
    }


@register.inclusion_tag("components/pagination.html", takes_context=True)
def paginate(context: Context, page: "Page[Any]") -> dict[str, Any]:
    """Links to the other pages of a Django `Page`, keeping the query; nothing for a single page."""
    return page_links(page, lambda number: query_with(context, page=number))


def page_links(page: "Page[Any]", url: Callable[[int], str]) -> dict[str, Any]:
    """What `components/pagination.html` draws; `url` makes the address of a page."""
    pages: list[dict[str, Any]] = [
        {"number": n, "url": url(n) if isinstance(n, int) else "", "gap": not isinstance(n, int)}
        for n in page.paginator.get_elided_page_range(page.number, on_each_side=1, on_ends=1)
    ]
    more = has_more(page)
    if more:
        pages.append({"number": "", "url": "", "gap": True})
        summary = gettext("%(first)s–%(last)s of more than %(total)s entries")
    else:
        summary = ngettext(
            "%(first)s–%(last)s of %(total)s entry",
            "%(first)s–%(last)s of %(total)s entries",
            page.paginator.count,
        )
    return {
        "page": page,
        "pages": pages,
        "previous": url(page.number - 1) if page.has_previous() else "",
        "next": url(page.number + 1) if page.has_next() else "",
        "ends_early": more and not page.has_next(),
        "summary": summary
        % {
            "first": number(page.start_index()),
            "last": number(page.end_index()),
            "total": number(page.paginator.count),
        },
    }


@register.simple_tag(takes_context=True)
def block_again(context: Context, name: str) -> str:
    """What a block of this page renders, a second time: the title stands in <title> and in the <h1>."""
    blocks = context.render_context.get(BLOCK_CONTEXT_KEY)
    block = blocks.get_block(name) if blocks else None
    return str(block.render(context)) if block else ""


@register.inclusion_tag("components/nav_item.html", takes_context=True)
def nav_item(context: Context, url_name: str, icon_name: str, label: str, *also: str) -> dict[str, Any]:
    """An entry of the navigation. It is current on its own page and on those named in `also` ("device-*")."""
    match = getattr(context.get("request"), "resolver_match", None)
    here = (match.url_name if match else "") or ""
    names = (url_name, *also)
    try:
        url = reverse(url_name)
    except NoReverseMatch:
        url = ""
    return {
        "url": url,
        "icon_name": icon_name,
        "label": label,
        "current": any(here == name or (name.endswith("*") and here.startswith(name[:-1])) for name in names),
    }


@register.filter
def initials(user: Any) -> str:
    """One or two letters that stand for a person."""
    words = str(user).split()
    return "".join(word[0] for word in (words[:1] + words[1:][-1:])).upper()


# --- forms -----------------------------------------------------------------------------------------


def _control_class(field: BoundField) -> str:
    widget = field.field.widget
    if isinstance(widget, CheckboxInput):
        return "form-check-input"
    if isinstance(widget, RadioSelect):
        # They give their class to the group too; the style sheet knows them by the fieldset.
        return ""
    return "form-select" if isinstance(widget, Select) else "form-control"


@register.inclusion_tag("components/field.html")
def form_field(
    field: BoundField,
    label: str = "",
    help_text: str = "",
    css: str = "",
    no_help: bool = False,  # noqa: FBT001, FBT002 - a template tag's flag
) -> dict[str, Any]:
    """A form field with label, control, help and its errors, joined for screen readers.

    `label` and `help_text` replace the field's own; `no_help` leaves its help out; `css` adds classes to the
    wrapper.
    """
    widget = field.field.widget
    attrs: dict[str, Any] = {"class": f"{widget.attrs.get('class', '')} {_control_class(field)}".strip()}
    helped = "" if no_help else help_text or field.help_text
    if isinstance(widget, MomentInput) and not no_help:
        zone = gettext("In your time zone, %(zone)s.") % {"zone": timezone.get_current_timezone()}
        helped = f"{helped} {zone}".strip()
    # Django joins the help and the errors by aria-describedby only when it renders the help itself.
    described = [f"{field.auto_id}_helptext"] if helped else []
    if any(of.__module__.startswith("allauth.") for of in type(field.form).__mro__):
        # It puts the label into the field again.
        attrs["placeholder"] = False
    if field.errors:
        attrs["class"] += " is-invalid"
        attrs["aria-invalid"] = "true"
        described.append(f"{field.auto_id}_error")
    if described:
        attrs["aria-describedby"] = " ".join(described)
    return {
        "field": field,
        "label": label or field.label,
        "control": field.as_widget(attrs=attrs),
        "help": helped,
        "css": css,
        "is_checkbox": isinstance(widget, CheckboxInput),
        "is_group": bool(getattr(widget, "use_fieldset", False)),
        "is_hidden": field.is_hidden,
    }


@register.inclusion_tag("components/form_errors.html")
def form_errors(form: Any) -> dict[str, Any]:
    """What is wrong with a form as a whole, above its fields."""
    return {"form": form, "errors": form.non_field_errors()}


@register.filter
def get_item(mapping: Any, key: Any) -> Any:
    """mapping[key], or None."""
    return mapping.get(key) if hasattr(mapping, "get") else None


@register.filter
def join_text(values: Iterable[Any]) -> str:
    """Values joined the way lists are written in running text."""
    return gettext(", ").join(str(value) for value in values)


@register.inclusion_tag("components/cluster_says.html")
def cluster_says(text: str) -> dict[str, Any]:
    """A message of a cluster, explained where it is known, with the original beneath."""
    return {"text": text, "sentences": explained(text or "")}
