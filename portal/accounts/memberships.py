"""Who belongs to a project, by whose word, and who belonged to it once.

A membership may be given by people and, at the same time, by the groups of the person's sign-in; the higher
role holds. What groups give is theirs to take: it is changed at the sign-in only.
"""

from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from portal.accounts.audit import record
from portal.accounts.models import Membership, PastMembership, Project, User
from portal.accounts.projects import UnableToChangeProject

LEAD, MEMBER = Membership.Role.LEAD, Membership.Role.MEMBER


def find_person(name: str) -> User | None:
    """The active person of this user name or e-mail address; nobody when it could be two.

    A user name may look like an address, of somebody else even: it must not draw what is meant for them.
    """
    people = User.objects.filter(is_active=True)
    if "@" not in name:
        return people.filter(username=name).first()
    found = list(people.filter(Q(username=name) | Q(email__iexact=name))[:2])
    return found[0] if len(found) == 1 else None


def higher(*roles: str) -> str:
    """The highest of some roles; "" of none."""
    return LEAD if LEAD in roles else MEMBER if MEMBER in roles else ""


def add_member(
    *,
    project: Project,
    username: str,
    role: str,
    actor: User | None,
    now: datetime,
    source_ip: str | None = None,
) -> Membership:
    """Takes a person (by user name or e-mail address) into the project. Raises UnableToChangeProject."""
    user = find_person(username)
    if user is None:
        raise UnableToChangeProject(
            "username",
            _("Nobody here has this user name or e-mail address. Invite them instead, by a link."),
        )
    return take_in(project=project, user=user, role=role, actor=actor, now=now, source_ip=source_ip)


def take_in(
    *,
    project: Project,
    user: User,
    role: str,
    actor: User | None,
    now: datetime,
    source_ip: str | None = None,
) -> Membership:
    """A membership by the word of people. Raises UnableToChangeProject when there is one already.

    Where only groups gave one so far, it is from now on given by both.
    """
    claimed = Membership.objects.filter(project=project, user=user, given_role="").exclude(claimed_role="")
    try:
        with transaction.atomic():
            membership = claimed.select_for_update().first()
            if membership is None:
                membership = Membership.objects.create(project=project, user=user, role=role, joined_at=now)
            else:
                _set(membership, given=role, claimed=membership.claimed_role)
            record(
                now=now,
                actor=actor,
                action="member.add",
                target=user,
                project=project,
                after={"role": role},
                source_ip=source_ip,
            )
    except IntegrityError:
        raise UnableToChangeProject("username", _("This person is a member already.")) from None
    return membership


def change_role(
    *, membership: Membership, role: str, actor: User | None, now: datetime, source_ip: str | None = None
) -> None:
    """Gives a member another role; the last lead stays one. Raises UnableToChangeProject."""
    with transaction.atomic():
        current = _locked(membership)
        if current is None or current.by_hand == role:
            return
        if higher(role, current.claimed_role) != role:
            raise UnableToChangeProject("role", _by_groups(current))
        if current.role == LEAD and role != LEAD:
            _keep_a_lead(current)
        before = current.role
        _set(current, given=role, claimed=current.claimed_role)
        record(
            now=now,
            actor=actor,
            action="member.role",
            target=current.user,
            project=current.project,
            before={"role": before},
            after={"role": role},
            source_ip=source_ip,
        )
    membership.role = current.role


def remove_member(
    *, membership: Membership, actor: User, now: datetime, source_ip: str | None = None
) -> None:
    """Takes a person out of the project, or lets them leave (when `actor` is the person).

    What they did stays in the project's history, and that they were there. Raises UnableToChangeProject for
    the last lead, and where the sign-in's groups would bring the person back.
    """
    with transaction.atomic():
        current = _locked(membership)
        if current is None:
            return
        if current.claimed_role:
            raise UnableToChangeProject("", _by_groups(current))
        if current.role == LEAD:
            _keep_a_lead(current)
        leaving = actor.pk == current.user_id
        reason = PastMembership.Reason.LEFT if leaving else PastMembership.Reason.REMOVED
        _end(current, reason=reason, now=now)
        record(
            now=now,
            actor=actor,
            action="member.leave" if leaving else "member.remove",
            target=current.user,
            project=current.project,
            before={"role": current.role},
            source_ip=source_ip,
        )


def claim(*, user: User, project: Project, role: str, now: datetime, source_ip: str | None = None) -> None:
    """What the sign-in's groups say of a person in a project: a role, or "" for nothing (any more).

    Recorded as the desk's own doing. Groups may take a project's last lead: they are kept elsewhere.
    """
    with transaction.atomic():
        membership = Membership.objects.select_for_update().filter(user=user, project=project).first()
        if (membership.claimed_role if membership else "") == role:
            return
        before = membership.role if membership else ""
        if membership is None:
            membership = Membership.objects.create(
                user=user, project=project, role=role, claimed_role=role, joined_at=now
            )
        elif not role and not membership.given_role:
            _end(membership, reason=PastMembership.Reason.GROUP, now=now)
        else:
            _set(membership, given=membership.by_hand, claimed=role)
        after = membership.role if membership.pk else ""
        record(
            now=now,
            actor=None,
            action="member.claim",
            target=user,
            project=project,
            before={"role": before or None, "by": "group"},
            after={"role": after or None, "by": "group" if role else "hand"},
            source_ip=source_ip,
        )


def _locked(membership: Membership) -> Membership | None:
    """The membership as it is now, kept from changing until the transaction ends; None when it is gone.

    One change of a project's members at a time: two leads who leave at the same moment would each hold their
    own row and wait for the other's for ever. Without the key: new rows may still refer to the project.
    """
    Project.objects.select_for_update(no_key=True).get(pk=membership.project_id)
    found = Membership.objects.select_for_update(of=("self",)).select_related("user", "project")
    return found.filter(pk=membership.pk).first()


def _set(membership: Membership, *, given: str, claimed: str) -> None:
    membership.role = higher(given, claimed)
    membership.claimed_role = claimed
    membership.given_role = given if claimed else ""
    membership.save(update_fields=["role", "claimed_role", "given_role"])


def _end(membership: Membership, *, reason: PastMembership.Reason, now: datetime) -> None:
    PastMembership.objects.create(
        user_id=membership.user_id,
        project_id=membership.project_id,
        role=membership.role,
        joined_at=membership.joined_at,
        ended_at=now,
        reason=reason,
    )
    membership.delete()


def _by_groups(membership: Membership) -> str:
    return _(
        "%(person)s is here as %(role)s because of a group of their sign-in. Take them out of that group; "
        "it takes effect at their next sign-in."
    ) % {"person": membership.user, "role": Membership.Role(membership.claimed_role).label}


def _keep_a_lead(leaving: Membership) -> None:
    """Of two who leave at the same time one stays: the project is locked by now (`_locked`)."""
    leads = list(
        Membership.objects.select_for_update()
        .filter(project=leaving.project_id, role=LEAD)
        .values_list("pk", flat=True)
    )
    if leads == [leaving.pk]:
        raise UnableToChangeProject("", _("A project needs a lead. Make somebody else a lead first."))
