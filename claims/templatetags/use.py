"""How busy what a request holds is, on its page."""

from typing import Any

from django import template
from django.utils import timezone

from claims.models import Request
from claims.utilisation.told import uses_of

register = template.Library()


@register.inclusion_tag("claims/_use.html")
def use_of_request(request: Request) -> dict[str, Any]:
    """Nothing where the cluster's Prometheus is not asked."""
    return {"uses": uses_of(request, now=timezone.now())}
