"""API tokens: issued once in plain text, kept as a digest, revoked by deletion."""

from collections.abc import Collection
from datetime import datetime, timedelta

from django.db import transaction
from django.utils.translation import gettext as _

from portal import texts
from portal.accounts.audit import record
from portal.accounts.models import ApiToken, User

MAX_LIFETIME = timedelta(days=366)
MAX_TOKENS = 50


class UnableToIssueToken(ValueError):
    """Why no token was issued: `field` is name, scopes, lifetime or "" for the whole."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field, self.message = field, message


def issue_token(
    *,
    user: User,
    name: str,
    scopes: Collection[str],
    lifetime: timedelta,
    now: datetime,
    source_ip: str | None = None,
) -> tuple[ApiToken, str]:
    """A new token and its plain text, which is nowhere else and never again. Raises UnableToIssueToken."""
    try:
        name = texts.name(name)
    except texts.UncleanText as unclean:
        raise UnableToIssueToken("name", unclean.message) from None
    if not name:
        raise UnableToIssueToken("name", _("Give the token a name, so that you know later what uses it."))
    if not scopes or not set(scopes) <= set(ApiToken.Scope.values):
        raise UnableToIssueToken("scopes", _("Choose what the token may do."))
    if not timedelta() < lifetime <= MAX_LIFETIME:
        raise UnableToIssueToken("lifetime", _("A token lives for one day to one year."))
    if ApiToken.objects.filter(user=user, expiry__gt=now).count() >= MAX_TOKENS:
        raise UnableToIssueToken(
            "", _("You have %(count)s tokens. Revoke one that is not used.") % {"count": MAX_TOKENS}
        )
    with transaction.atomic():
        token, plain = ApiToken.objects.create(
            user=user, name=name, scopes=sorted(set(scopes)), expiry=lifetime
        )
        record(
            now=now,
            actor=user,
            action="token.create",
            target=token,
            target_id=token.token_key,
            target_name=token.name,
            after={"scopes": token.scopes, "expires_at": token.expiry},
            source_ip=source_ip,
        )
    return token, plain


def revoke_token(*, token: ApiToken, actor: User, now: datetime, source_ip: str | None = None) -> None:
    """Ends a token at once. Revoking one that is gone already does nothing."""
    with transaction.atomic():
        deleted, _by_model = ApiToken.objects.filter(pk=token.pk).delete()
        if deleted:
            record(
                now=now,
                actor=actor,
                action="token.revoke",
                target=token,
                target_id=token.token_key,
                target_name=token.name,
                before={"owner": token.user.username, "scopes": token.scopes, "expires_at": token.expiry},
                source_ip=source_ip,
            )
