"""Which ways to sign in there are."""

from django import template
from django.conf import settings

from portal.accounts.oidc.provider import configured
from portal.identity import IdentityProvider

register = template.Library()


@register.simple_tag
def sign_in_provider() -> IdentityProvider | None:
    """The organisation's identity provider, if this desk has one."""
    return configured()


@register.simple_tag
def mail_offered() -> bool:
    """Whether the desk can send mail."""
    return bool(settings.MAIL_OFFERED)
