"""Which ways to sign in there are."""

import json

from allauth.socialaccount.models import SocialAccount
from django import template
from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder
from django.template import Context

from portal.accounts.mfa import has_second_factor
from portal.accounts.models import User
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


@register.simple_tag
def organisation() -> str:
    """Whose desk it is."""
    return str(settings.ORGANISATION)


@register.filter
def as_json(value: object) -> str:
    """For an attribute that a script reads (the template escapes it)."""
    return json.dumps(value, cls=DjangoJSONEncoder)


@register.simple_tag
def factor_missing(user: object) -> bool:
    """Whether the person needs a second factor and has none."""
    if not settings.REQUIRE_MFA or not isinstance(user, User) or not user.is_administrator:
        return False
    return not has_second_factor(user)


@register.simple_tag(takes_context=True)
def connections(context: Context) -> list[SocialAccount]:
    """The signed-in person's connections to identity providers."""
    user = context.get("user")
    return list(SocialAccount.objects.filter(user=user)) if isinstance(user, User) else []
