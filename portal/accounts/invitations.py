"""Invitations into a project: a link that works once, for a while.

The secret in the link is known only to who holds it; its SHA-256 is kept. It has 256 random bits, so that a
plain digest is enough.

An invitation is the word of who made it: it lets somebody in only while that person may still invite. Else
who was removed could come back by a link of their own.
"""

import hashlib
import secrets
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta

from django.db import models, transaction
from django.http import HttpRequest
from django.utils.translation import gettext as _

from portal import access
from portal.accounts.audit import record
from portal.accounts.memberships import change_role, higher, take_in
from portal.accounts.models import Invitation, Membership, Project, User
from portal.accounts.projects import UnableToChangeProject

LONGEST = timedelta(days=60)
# Open at a time, per project: a list that somebody can still look through.
MOST_OPEN = 200
# What the columns take; Django's own limit for forms is above it.
LONGEST_ADDRESS = 254
SESSION_KEY = "invitation"


class UnableToInvite(ValueError):
    """Why there is no invitation; `field` names the input ("" = the whole)."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field, self.message = field, message


class UnableToAccept(ValueError):
    """Why the link leads nowhere (any more). `code`: unknown, used, revoked, expired, lapsed, address,
    member, archived."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


def invite(
    *,
    project: Project,
    role: str,
    lifetime: timedelta,
    actor: User,
    now: datetime,
    email: str = "",
    source_ip: str | None = None,
) -> tuple[Invitation, str]:
    """A new invitation, and the secret of its link, which is nowhere else and never again."""
    if project.archived_at is not None:
        raise UnableToInvite("", _("The project is archived: nobody can be taken in."))
    if not timedelta() < lifetime <= LONGEST:
        raise UnableToInvite(
            "lifetime", _("An invitation lasts at most %(days)s days.") % {"days": LONGEST.days}
        )
    if len(email.strip()) > LONGEST_ADDRESS:
        raise UnableToInvite("email", _("This is longer than %(n)s characters.") % {"n": LONGEST_ADDRESS})
    if open_invitations(project, now=now).count() >= MOST_OPEN:
        raise UnableToInvite("", _("There are too many open invitations. Revoke some that nobody will use."))
    secret = secrets.token_urlsafe(32)
    with transaction.atomic():
        invitation = Invitation.objects.create(
            project=project,
            role=Membership.Role(role),
            email=email.strip(),
            digest=digest(secret),
            created_by=actor,
            created_at=now,
            expires_at=now + lifetime,
        )
        _record(
            invitation,
            "invitation.create",
            actor=actor,
            now=now,
            source_ip=source_ip,
            after={"role": role, "email": invitation.email, "expires_at": invitation.expires_at},
        )
    return invitation, secret


def open_invitations(project: Project, *, now: datetime) -> "models.QuerySet[Invitation]":
    """Those that still let somebody in."""
    return _open(now).filter(project=project)


def state_of(invitation: Invitation, *, now: datetime) -> str:
    """ "used", "revoked", "expired", "lapsed" (who made it may invite nobody any more) or "open"."""
    state = invitation.state(now)
    if state == "open" and not access.may_lead(invitation.created_by, invitation.project):
        return "lapsed"
    return state


def _open(now: datetime) -> "models.QuerySet[Invitation]":
    """The same for many at once: `access.may_lead` of who made them, in the database's words."""
    leads = Membership.objects.filter(
        project=models.OuterRef("project"), user=models.OuterRef("created_by"), role=Membership.Role.LEAD
    )
    return Invitation.objects.filter(
        models.Q(created_by__is_administrator=True) | models.Exists(leads),
        created_by__is_active=True,
        created_by__is_auditor=False,
        used_at=None,
        revoked_at=None,
        expires_at__gt=now,
    )


def find(secret: str, *, now: datetime) -> Invitation:
    """The open invitation of a link. Raises UnableToAccept that says what became of it."""
    found = Invitation.objects.select_related("project", "created_by", "used_by")
    invitation = found.filter(digest=digest(secret)).first()
    if invitation is None:
        raise UnableToAccept("unknown", _("There is no such invitation. Perhaps the link was cut off."))
    _require_open(invitation, now=now)
    return invitation


def accept(*, invitation: Invitation, user: User, now: datetime, source_ip: str | None = None) -> Membership:
    """Takes the person in and uses the invitation up. Raises UnableToAccept.

    A member who is invited as lead becomes one; who is more already stays it, and the link stays open.
    """
    with transaction.atomic():
        current = Invitation.objects.select_for_update(of=("self",))
        current = current.select_related("project", "created_by")
        invitation = current.get(pk=invitation.pk)
        _require_open(invitation, now=now)
        if invitation.email and not _has_address(user, invitation.email):
            raise UnableToAccept(
                "address",
                _("This invitation is for %(email)s; you are signed in as %(person)s.")
                % {"email": invitation.email, "person": user.email or user.username},
            )
        membership = _join(invitation, user, now=now, source_ip=source_ip)
        used = Invitation.objects.filter(pk=invitation.pk, used_at=None, revoked_at=None)
        if used.update(used_at=now, used_by=user) != 1:
            raise UnableToAccept("used", _("This invitation has been used already."))
        _record(
            invitation,
            "invitation.accept",
            actor=user,
            now=now,
            source_ip=source_ip,
            after={"person": user.username, "role": invitation.role},
        )
    return membership


def revoke(*, invitation: Invitation, actor: User, now: datetime, source_ip: str | None = None) -> bool:
    """Ends an open invitation; False when it was used or revoked already."""
    with transaction.atomic():
        still = Invitation.objects.filter(pk=invitation.pk, used_at=None, revoked_at=None)
        if still.update(revoked_at=now) != 1:
            return False
        _record(
            invitation,
            "invitation.revoke",
            actor=actor,
            now=now,
            source_ip=source_ip,
            before={"role": invitation.role, "email": invitation.email},
        )
    return True


def digest(secret: str) -> str:
    """What is stored of a link's secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def accept_all_for(*, user: User, emails: Iterable[str], now: datetime, source_ip: str | None = None) -> None:
    """Takes a person into every project that invited one of their addresses. Only for addresses that somebody
    trusted has confirmed: here the address stands for the link."""
    for invitation in _open_for(emails, now=now):
        # A member already, or the project is archived: the invitation stays as it is.
        with suppress(UnableToAccept), transaction.atomic():
            accept(invitation=invitation, user=user, now=now, source_ip=source_ip)


def is_invited(emails: Iterable[str], *, now: datetime) -> bool:
    """Whether any project waits for somebody with one of these addresses."""
    return any(True for _invitation in _open_for(emails, now=now))


def _open_for(emails: Iterable[str], *, now: datetime) -> list[Invitation]:
    found: list[Invitation] = []
    for email in {email.casefold() for email in emails if email}:
        found += _open(now).filter(email__iexact=email).select_related("project").order_by("pk")
    return found


def remember(request: HttpRequest, secret: str) -> None:
    """For the way through a sign-in: who comes back is led on to the invitation.

    Only of an invitation that there is or was: made-up links must not fill the table of sessions.
    """
    if Invitation.objects.filter(digest=digest(secret)).exists():
        request.session[SESSION_KEY] = secret
    else:
        request.session.pop(SESSION_KEY, None)


def invited(request: HttpRequest, *, now: datetime) -> Invitation | None:
    """The open invitation that this browser came with, if any."""
    secret = request.session.get(SESSION_KEY)
    if not isinstance(secret, str):
        return None
    try:
        return find(secret, now=now)
    except UnableToAccept:
        return None


def _join(invitation: Invitation, user: User, *, now: datetime, source_ip: str | None) -> Membership:
    """In by the word of who invited. A member who is invited as lead becomes one."""
    project, role = invitation.project, invitation.role
    there = Membership.objects.filter(project=project, user=user).select_related("user", "project").first()
    try:
        if there is None or (there.claimed_role and not there.given_role):
            return take_in(project=project, user=user, role=role, actor=user, now=now, source_ip=source_ip)
        if higher(there.role, role) != there.role:
            change_role(membership=there, role=role, actor=user, now=now, source_ip=source_ip)
            return there
    except UnableToChangeProject as unable:
        raise UnableToAccept("member", unable.message) from unable
    raise UnableToAccept(
        "member",
        _("You are a member of %(project)s already. The link stays good for somebody else.")
        % {"project": project},
    )


def _has_address(user: User, email: str) -> bool:
    return user.email.casefold() == email.casefold()


def _require_open(invitation: Invitation, *, now: datetime) -> None:
    state = state_of(invitation, now=now)
    if state != "open":
        raise UnableToAccept(
            state,
            {
                "used": _("This invitation has been used already. Each lets one person in."),
                "revoked": _("This invitation was taken back."),
                "expired": _("This invitation has expired."),
                "lapsed": _("Who made this invitation may no longer take anybody in."),
            }[state]
            + " "
            + _("Ask for a new one."),
        )
    if invitation.project.archived_at is not None:
        raise UnableToAccept("archived", _("The project has been archived since."))


def _record(
    invitation: Invitation,
    action: str,
    *,
    actor: User,
    now: datetime,
    source_ip: str | None,
    before: dict[str, object] | None = None,
    after: dict[str, object] | None = None,
) -> None:
    record(
        now=now,
        actor=actor,
        action=action,
        target=invitation,
        project=invitation.project,
        source_ip=source_ip,
        before=before,
        after=after,
    )
