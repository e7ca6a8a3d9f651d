"""What happens elsewhere to people and belongs into the audit trail, and what a sign-in brings along."""

from typing import Any

from allauth.account.models import EmailAddress
from allauth.account.signals import (
    email_changed,
    password_changed,
    password_reset,
    password_set,
    user_logged_in,
    user_signed_up,
)
from allauth.mfa.signals import authenticator_added, authenticator_removed, authenticator_reset
from allauth.socialaccount.models import SocialAccount, SocialLogin
from allauth.socialaccount.signals import social_account_added, social_account_removed
from django.dispatch import receiver
from django.http import HttpRequest
from django.utils import timezone

from portal.accounts import roles
from portal.accounts.audit import record, source_ip
from portal.accounts.invitations import accept_all_for
from portal.accounts.models import ApiToken, User
from portal.accounts.oidc.provider import configured
from portal.accounts.required_factor import ELSEWHERE, STRONG
from portal.accounts.tokens import revoke_token


@receiver((password_changed, password_set, password_reset))
def password_was_changed(*, request: HttpRequest, user: User, **_: Any) -> None:
    """That it was changed and from where; never what it is."""
    _record("person.password", request, user)


@receiver(email_changed)
def address_was_changed(
    *, request: HttpRequest, user: User, from_email_address: Any, to_email_address: Any, **_: Any
) -> None:
    before = {"email": from_email_address.email if from_email_address else ""}
    _record("person.email", request, user, before=before, after={"email": to_email_address.email})


@receiver((authenticator_added, authenticator_reset))
def factor_was_added(*, request: HttpRequest, user: User, authenticator: Any, **_: Any) -> None:
    _record("person.mfa-add", request, user, after={"type": authenticator.type})


@receiver(authenticator_removed)
def factor_was_removed(*, request: HttpRequest, user: User, authenticator: Any, **_: Any) -> None:
    _record("person.mfa-remove", request, user, before={"type": authenticator.type})


@receiver(user_signed_up)
def person_came_in(
    *, request: HttpRequest, user: User, sociallogin: SocialLogin | None = None, **_: Any
) -> None:
    """Somebody whom the identity provider brought for the first time."""
    provider = configured()
    through = provider.name if provider is not None and sociallogin is not None else ""
    _record("person.create", request, user, after={"username": user.username, "through": through})


@receiver(social_account_added)
def account_was_connected(*, request: HttpRequest, sociallogin: SocialLogin, **_: Any) -> None:
    _record("person.connect", request, sociallogin.user, after={"subject": sociallogin.account.uid})
    address = sociallogin._did_authenticate_by_email
    if address and not EmailAddress.objects.filter(
        user=sociallogin.user, email__iexact=address, verified=True
    ):
        # Whoever made this account never showed that the address is theirs, and its owner has just come.
        # django-allauth takes the password away, which ends sessions; tokens would outlive it.
        for token in ApiToken.objects.filter(user=sociallogin.user).select_related("user"):
            revoke_token(
                token=token, actor=sociallogin.user, now=timezone.now(), source_ip=source_ip(request)
            )


@receiver(social_account_removed)
def account_was_disconnected(*, request: HttpRequest, socialaccount: SocialAccount, **_: Any) -> None:
    """What the groups behind it gave goes with it."""
    user = User.objects.get(pk=socialaccount.user_id)
    _record("person.disconnect", request, user, before={"subject": socialaccount.uid})
    roles.keep_in_step(
        user=user,
        groups=[],
        grants={},
        now=timezone.now(),
        source_ip=source_ip(request),
        connected=False,
    )


@receiver(user_logged_in)
def groups_were_told(
    *, request: HttpRequest, user: User, sociallogin: SocialLogin | None = None, **_: Any
) -> None:
    """Whoever comes through the provider has the roles that their groups give now, until the session ends."""
    provider = configured()
    if provider is None or sociallogin is None:
        return
    roles.keep_in_step(
        user=user,
        groups=sociallogin.account.extra_data.get("groups", []),
        grants=provider.grants,
        now=timezone.now(),
        source_ip=source_ip(request),
    )
    accept_all_for(
        user=user,
        emails=[address.email for address in sociallogin.email_addresses if address.verified],
        now=timezone.now(),
        source_ip=source_ip(request),
    )
    # A moment: seconds would begin anew with every page that keeps something in the session, and a group's
    # role would never end.
    request.session.set_expiry(timezone.now() + provider.session)
    methods = sociallogin.account.extra_data.get("amr")
    request.session[ELSEWHERE] = isinstance(methods, list) and not STRONG.isdisjoint(map(str, methods))


def _record(
    action: str,
    request: HttpRequest,
    user: User,
    *,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    record(
        now=timezone.now(),
        actor=user,
        action=action,
        target=user,
        before=before,
        after=after,
        source_ip=source_ip(request),
    )
