"""Projects and who belongs to them."""

from datetime import datetime

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from portal.accounts.audit import changes, record
from portal.accounts.models import Membership, Project, User


class UnableToChangeProject(ValueError):
    """Why a project or its members stay as they were; `field` names the input ("" = the whole)."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field, self.message = field, message


def create_project(
    *,
    slug: str,
    name: str,
    description: str = "",
    cost_centre: str = "",
    actor: User | None,
    now: datetime,
    source_ip: str | None = None,
) -> Project:
    """A new project without members. Raises UnableToChangeProject when its name or slug is taken."""
    for field, taken in (
        ("slug", Project.objects.filter(slug=slug).exists()),
        ("name", Project.objects.filter(name=name).exists()),
    ):
        if taken:
            raise UnableToChangeProject(field, _("Another project has this already."))
    with transaction.atomic():
        project = Project.objects.create(
            slug=slug, name=name, description=description, cost_centre=cost_centre, created_at=now
        )
        record(
            now=now,
            actor=actor,
            action="project.create",
            target=project,
            project=project,
            after={"slug": slug, "name": name, "cost_centre": cost_centre},
            source_ip=source_ip,
        )
    return project


def change_project(
    *,
    project: Project,
    name: str,
    description: str,
    cost_centre: str,
    actor: User,
    now: datetime,
    source_ip: str | None = None,
) -> None:
    """Renames and describes. The slug stays: links and object names carry it."""
    if Project.objects.filter(name=name).exclude(pk=project.pk).exists():
        raise UnableToChangeProject("name", _("Another project has this already."))
    fields = ("name", "description", "cost_centre")
    old, new = changes(
        {field: getattr(project, field) for field in fields},
        {"name": name, "description": description, "cost_centre": cost_centre},
    )
    if new is None:
        return
    for field, value in new.items():
        setattr(project, field, value)
    with transaction.atomic():
        project.save(update_fields=list(new))
        record(
            now=now,
            actor=actor,
            action="project.change",
            target=project,
            project=project,
            before=old,
            after=new,
            source_ip=source_ip,
        )


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
    people = User.objects.filter(is_active=True)
    user = people.filter(username=username).first() or people.filter(email__iexact=username).first()
    if user is None:
        raise UnableToChangeProject(
            "username",
            _("Nobody here has this user name or e-mail address. Ask an administrator for a sign-in."),
        )
    try:
        with transaction.atomic():
            membership = Membership.objects.create(project=project, user=user, role=role)
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
    *, membership: Membership, role: str, actor: User, now: datetime, source_ip: str | None = None
) -> None:
    """Gives a member another role; the last lead stays one. Raises UnableToChangeProject."""
    if membership.role == role:
        return
    with transaction.atomic():
        if membership.role == Membership.Role.LEAD:
            _keep_a_lead(membership)
        changed = Membership.objects.filter(pk=membership.pk, role=membership.role).update(role=role)
        if changed:
            record(
                now=now,
                actor=actor,
                action="member.role",
                target=membership.user,
                project=membership.project,
                before={"role": membership.role},
                after={"role": role},
                source_ip=source_ip,
            )
    membership.role = role


def remove_member(
    *, membership: Membership, actor: User, now: datetime, source_ip: str | None = None
) -> None:
    """Takes a person out of the project; what they did stays in its history. Raises UnableToChangeProject."""
    with transaction.atomic():
        if membership.role == Membership.Role.LEAD:
            _keep_a_lead(membership)
        deleted, _by_model = Membership.objects.filter(pk=membership.pk).delete()
        if deleted:
            record(
                now=now,
                actor=actor,
                action="member.remove",
                target=membership.user,
                project=membership.project,
                before={"role": membership.role},
                source_ip=source_ip,
            )


def _keep_a_lead(leaving: Membership) -> None:
    """Locks the project's leads, so that two who leave at the same time do not both succeed."""
    leads = list(
        Membership.objects.select_for_update()
        .filter(project=leaving.project, role=Membership.Role.LEAD)
        .values_list("pk", flat=True)
    )
    if leads == [leaving.pk]:
        raise UnableToChangeProject("", _("A project needs a lead. Make somebody else a lead first."))
