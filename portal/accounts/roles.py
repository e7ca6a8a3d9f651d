"""Roles over the whole desk: given by administrators, or by the groups of a person's sign-in.

A role has one origin: what people gave stays when a group goes; what only a group gave goes with it.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext as _

from portal.accounts import memberships
from portal.accounts.audit import changes, record
from portal.accounts.models import Membership, Project, User

ADMINISTRATOR, FINANCE, AUDITOR = "administrator", "finance", "auditor"
ROLES = (ADMINISTRATOR, FINANCE, AUDITOR)


class UnableToChangePerson(ValueError):
    """Why a person stays as they were; `field` names the input ("" = the whole)."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field, self.message = field, message


def roles_of(user: User) -> list[str]:
    """The roles that the person has, in one order."""
    return [role for role in ROLES if getattr(user, f"is_{role}")]


def give_roles(
    *,
    user: User,
    roles: Collection[str],
    actor: User,
    now: datetime,
    source_ip: str | None = None,
) -> None:
    """The person has these roles from now on, by the word of `actor`. Raises UnableToChangePerson.

    Nobody takes the administrator's role from themselves, and there is always one administrator. A role that
    a group gave cannot be taken here: it would be back at the next sign-in.
    """
    if unknown := set(roles) - set(ROLES):
        raise ValueError(f"no such role: {unknown}")
    with transaction.atomic():
        administrators, current = _locked(user)
        kept = [role for role in current.claimed_roles if role not in roles]
        if kept:
            raise UnableToChangePerson("roles", _by_groups(current, kept))
        administers = ADMINISTRATOR in roles and AUDITOR not in roles
        if current.pk == actor.pk and not administers:
            raise UnableToChangePerson(
                "roles", _("You cannot take the administrator's role from yourself. Ask another one.")
            )
        if not administers:
            _keep_an_administrator(administrators, current)
        before, claimed = roles_of(current), list(current.claimed_roles)
        # What was on the form stays with its origin.
        _set(current, roles, claimed=[role for role in claimed if role in roles])
        _record(current, before, "person.roles", actor=actor, now=now, source_ip=source_ip)


def deactivate(*, user: User, actor: User, now: datetime, source_ip: str | None = None) -> None:
    """Nothing lets the person in any more: no sign-in, no open session, no token. Their history stays.

    Raises UnableToChangePerson for oneself and for the last administrator.
    """
    with transaction.atomic():
        administrators, current = _locked(user)
        if current.pk == actor.pk:
            raise UnableToChangePerson("", _("You cannot lock yourself out. Ask another administrator."))
        _keep_an_administrator(administrators, current)
        _switch(current, on=False, actor=actor, now=now, source_ip=source_ip)


def activate(*, user: User, actor: User, now: datetime, source_ip: str | None = None) -> None:
    """The person may sign in again, with the roles and memberships of before."""
    with transaction.atomic():
        _administrators, current = _locked(user)
        _switch(current, on=True, actor=actor, now=now, source_ip=source_ip)


def keep_in_step(
    *,
    user: User,
    groups: Iterable[str],
    grants: Mapping[str, Collection[str]],
    now: datetime,
    source_ip: str | None = None,
    connected: bool = True,
) -> None:
    """Makes what groups gave the same as what they give now, at a sign-in, or when the person is no longer
    `connected` with the provider.

    `grants` maps a group to "administrator", "finance", "auditor" or "<project>:<member|lead>". A project
    that there is not is left out: it may be made later. The last administrator stays one.
    """
    granted = {grant for group in set(groups) for grant in grants.get(group, ())}
    with transaction.atomic():
        administrators, current = _locked(user)
        before = roles_of(current)
        by_hand = {role for role in before if role not in current.claimed_roles}
        claimed = [role for role in ROLES if role in granted and role not in by_hand]
        roles = by_hand | set(claimed)
        lost = ADMINISTRATOR not in roles or AUDITOR in roles
        if lost and administrators == {current.pk}:
            # Nobody would be left to put it right: the rest waits until there is another administrator.
            claimed, roles = list(current.claimed_roles), set(before)
            if not connected:
                # Nor could they sign in, with a role by a group that nobody asks for any more.
                claimed, roles = [], by_hand | {ADMINISTRATOR}
        _set(current, roles, claimed=claimed)
        _record(current, before, "person.claims", actor=None, now=now, source_ip=source_ip)
        _keep_memberships_in_step(current, granted, now=now, source_ip=source_ip)
    user.refresh_from_db()


def _keep_memberships_in_step(
    user: User, granted: Collection[str], *, now: datetime, source_ip: str | None
) -> None:
    wanted: dict[str, str] = {}
    for grant in granted:
        slug, separator, role = grant.partition(":")
        if separator:
            wanted[slug] = memberships.higher(role, wanted.get(slug, ""))
    had = (
        Membership.objects.filter(user=user).exclude(claimed_role="").values_list("project__slug", flat=True)
    )
    for project in Project.objects.filter(slug__in={*wanted, *had}).order_by("slug"):
        role = wanted.get(project.slug, "")
        if project.archived_at is not None and role:
            # Nobody comes in any more, but who was there keeps seeing what was done.
            continue
        memberships.claim(user=user, project=project, role=role, now=now, source_ip=source_ip)


def _locked(user: User) -> tuple[set[int], User]:
    """The ids of the administrators that there are, and the person, both kept from changing.

    In one order of locking, so that two changes at a time wait for each other instead of failing.
    """
    candidates = User.objects.select_for_update().order_by("pk")
    rows = {row.pk: row for row in candidates.filter(is_administrator=True) | candidates.filter(pk=user.pk)}
    administrators = {
        pk for pk, row in rows.items() if row.is_active and row.is_administrator and not row.is_auditor
    }
    return administrators, rows[user.pk]


def _keep_an_administrator(administrators: set[int], leaving: User) -> None:
    if administrators == {leaving.pk}:
        raise UnableToChangePerson(
            "", _("This is the only administrator. Give somebody else the role first.")
        )


def _set(user: User, roles: Collection[str], *, claimed: list[str]) -> None:
    for role in ROLES:
        setattr(user, f"is_{role}", role in roles)
    user.claimed_roles = claimed
    user.save(update_fields=[*(f"is_{role}" for role in ROLES), "claimed_roles"])


def _switch(user: User, *, on: bool, actor: User, now: datetime, source_ip: str | None) -> None:
    if user.is_active == on:
        return
    user.is_active = on
    user.save(update_fields=["is_active"])
    record(
        now=now,
        actor=actor,
        action="person.activate" if on else "person.deactivate",
        target=user,
        source_ip=source_ip,
    )


def _record(
    user: User,
    before: list[str],
    action: str,
    *,
    actor: User | None,
    now: datetime,
    source_ip: str | None,
) -> None:
    old, new = changes({"roles": before}, {"roles": roles_of(user)})
    if new is not None:
        record(now=now, actor=actor, action=action, target=user, before=old, after=new, source_ip=source_ip)


def _by_groups(user: User, roles: list[str]) -> str:
    names = {ADMINISTRATOR: _("platform administrator"), FINANCE: _("finance"), AUDITOR: _("auditor")}
    return _(
        "%(person)s has the role %(roles)s because of a group of their sign-in. Take them out of that group; "
        "it takes effect at their next sign-in."
    ) % {"person": user, "roles": ", ".join(names[role] for role in roles)}
