"""The desk that only looks (CLAIMDESK_READ_ONLY), on its pages."""

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from portal import access

register = template.Library()


@register.inclusion_tag("components/looking.html")
def looking_banner() -> dict[str, object]:
    """What every page of such a desk says."""
    return {"looking": access.only_looks()}


@register.simple_tag
def only_looks() -> bool:
    """Whether this is such a desk, for what is no button otherwise (a link to the page before a change)."""
    return access.only_looks()


@register.simple_tag
def writes() -> SafeString | str:
    """For the tag of a button that makes the desk write: disabled where it only looks, and why."""
    if not access.only_looks():
        return ""
    return format_html('disabled title="{}" aria-describedby="cd-looking"', access.why_only_looks())
