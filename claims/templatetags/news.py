"""For how long a held device has lain idle, on the page of its request."""

from typing import Any

from django import template

from claims.models import Request
from claims.requests.idle import idle_of

register = template.Library()


@register.inclusion_tag("claims/_idle.html")
def idleness(request: Request) -> dict[str, Any]:
    """Nothing where nothing is counted."""
    return {"idle": idle_of(request)}
