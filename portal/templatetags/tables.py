"""Tags that draw what `portal.tables` says of a table."""

from typing import Any

from django import template

from portal.tables import TableState

register = template.Library()


@register.inclusion_tag("components/table_tools.html")
def table_tools(state: TableState, label: str = "") -> dict[str, Any]:
    """The choice of columns and the link to CSV; `label` names the table for those who do not see it."""
    return {"state": state, "label": label}


@register.inclusion_tag("components/list_header.html")
def table_header(state: TableState) -> dict[str, Any]:
    """The header row."""
    return {"heads": [{"label": column.label, "css": column.css, "url": ""} for column in state.visible]}
