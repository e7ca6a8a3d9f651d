"""Projects: made, renamed, described. Who belongs to them: `portal.accounts.memberships`."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from portal import texts
from portal.accounts.audit import changes, record
from portal.accounts.models import Project, User


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
    name, description, cost_centre = _texts(name, description, cost_centre)
    for field, taken in (
        ("slug", Project.objects.filter(slug__iexact=slug).exists()),
        ("name", Project.objects.filter(name=name).exists()),
    ):
        if taken:
            raise UnableToChangeProject(field, _("Another project has this already."))
    with _nobody_else_at_once(), transaction.atomic():
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


@contextmanager
def _nobody_else_at_once() -> Iterator[None]:
    """Two who give the same name at the same moment both saw that nobody had it; the database did not."""
    try:
        yield
    except IntegrityError:
        raise UnableToChangeProject("name", _("Another project has this already.")) from None


def _texts(name: str, description: str, cost_centre: str) -> tuple[str, str, str]:
    """In the one form of texts; names that differ in nothing that can be seen are the same."""
    found = []
    for field, text, read in (
        ("name", name, texts.name),
        ("description", description, texts.plain),
        ("cost_centre", cost_centre, texts.name),
    ):
        try:
            found.append(read(text))
        except texts.UncleanText as unclean:
            raise UnableToChangeProject(field, unclean.message) from None
    if not found[0]:
        raise UnableToChangeProject("name", _("A project needs a name."))
    return found[0], found[1], found[2]


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
    name, description, cost_centre = _texts(name, description, cost_centre)
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
    with _nobody_else_at_once(), transaction.atomic():
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


def archive_project(
    *, project: Project, archived: bool, actor: User, now: datetime, source_ip: str | None = None
) -> None:
    """Closes a project, or opens it again. Closed, nothing new can be asked for and it is no choice any more;
    its history and its cost stay, and what runs goes on until its end. Harmless when it is so already."""
    with transaction.atomic():
        rows = Project.objects.filter(pk=project.pk, archived_at__isnull=archived)
        changed = rows.update(archived_at=now if archived else None)
        project.refresh_from_db(fields=["archived_at"])
        if changed:
            record(
                now=now,
                actor=actor,
                action="project.archive" if archived else "project.restore",
                target=project,
                project=project,
                after={"archived": archived},
                source_ip=source_ip,
            )
