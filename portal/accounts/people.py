"""What people may set about themselves, and how they come into being."""

from collections.abc import Callable
from datetime import datetime

from allauth.account.internal.userkit import filter_users_by_email
from allauth.account.models import EmailAddress
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from portal.accounts.audit import changes, record
from portal.accounts.invitations import accept
from portal.accounts.models import Invitation, User


def change_profile(
    *,
    user: User,
    first_name: str,
    last_name: str,
    language: str,
    time_zone: str,
    now: datetime,
    source_ip: str | None = None,
) -> None:
    """Sets name, language and time zone ("" = as the browser says, UTC) and records what differs."""
    fields = ("first_name", "last_name", "language", "time_zone")
    before = {name: getattr(user, name) for name in fields}
    after = dict(zip(fields, (first_name, last_name, language, time_zone), strict=True))
    old, new = changes(before, after)
    if old is None:
        return
    for name, value in after.items():
        setattr(user, name, value)
    with transaction.atomic():
        user.save(update_fields=list(after))
        record(
            now=now,
            actor=user,
            action="person.change",
            target=user,
            before=old,
            after=new,
            source_ip=source_ip,
        )


class UnableToJoin(ValueError):
    """Why no account was made; `field` names the input ("" = the whole)."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field, self.message = field, message


def join(
    *,
    invitation: Invitation,
    username: str,
    email: str,
    password: str,
    first_name: str,
    last_name: str,
    now: datetime,
    source_ip: str | None = None,
) -> User:
    """An account for somebody who was invited, who is a member at once. Raises UnableToJoin or
    UnableToAccept.

    An invitation for an address makes an account with that address only. Neither stands alone: without the
    membership there is no account.
    """
    address = invitation.email or email
    # Full-width letters and ligatures look like others, and are those others to whoever types the name.
    username = User.normalize_username(username)
    if invitation.email and email.casefold() != invitation.email.casefold():
        raise UnableToJoin("email", _("This invitation is for %(email)s.") % {"email": invitation.email})
    if filter_users_by_email(address, for_login=False):
        raise UnableToJoin("email", _("Somebody here has this address. If it is you, sign in instead."))
    if "@" in username and username.casefold() != address.casefold():
        # People are named by either: who has another's address for a name would get what is meant for them.
        raise UnableToJoin("username", _("A user name that is an e-mail address has to be your own."))
    # Names that differ by case only would be taken for each other.
    if User.objects.filter(username__iexact=username).exists():
        raise UnableToJoin("username", _("Somebody here has this user name."))
    user = User(username=username, email=address, first_name=first_name, last_name=last_name)
    _check("username", lambda: User._meta.get_field("username").run_validators(username))
    _check("password", lambda: validate_password(password, user))
    user.set_password(password)
    try:
        with transaction.atomic():
            user.save()
            EmailAddress.objects.create(user=user, email=address.lower(), primary=True, verified=False)
            record(
                now=now,
                actor=user,
                action="person.create",
                target=user,
                after={"username": username, "through": "invitation"},
                source_ip=source_ip,
            )
            accept(invitation=invitation, user=user, now=now, source_ip=source_ip)
    except IntegrityError:
        raise UnableToJoin("username", _("Somebody here has this user name.")) from None
    return user


def _check(field: str, check: Callable[[], None]) -> None:
    try:
        check()
    except ValidationError as error:
        raise UnableToJoin(field, " ".join(error.messages)) from error
