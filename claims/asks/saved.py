"""Requests kept by a name: a person's own, or shared with a project. What they hold is as it was typed, right
or not; it is judged whenever somebody asks with it."""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.http import Http404
from django.utils.translation import gettext as _

from claims.asks.again import as_text
from claims.asks.reading import WrongValue, WrongValues, read_text
from claims.models import SavedRequest
from portal import access, texts
from portal.accounts import audit
from portal.accounts.models import Project, User

MAX_NAME = 80
MAX_OF_A_PERSON = 100
# The longest fields: a purpose of 1,000 characters, an expression of 10 KiB, lines of tolerations.
MAX_VALUE = 12_000


class UnableToSave(WrongValues):
    """`errors` maps field names ("name", "project", …) to messages for people."""


def save(
    *,
    user: User,
    name: object,
    project: object,
    values: Mapping[str, object],
    now: datetime,
    source_ip: str | None = None,
) -> SavedRequest:
    """Keep `values` (of a form or of REST) under a name; `project` is the slug of the project that it is
    shared with, "" = of nobody. Raises UnableToSave."""
    errors: dict[str, list[str]] = {}
    title = _name(name, errors)
    shared = _project(project, user, errors)
    kept = as_text(values)
    for field in kept:
        try:
            kept[field] = read_text(kept, field, limit=MAX_VALUE)
        except WrongValue as error:
            errors.setdefault(field, []).append(str(error))
    if SavedRequest.objects.filter(owner=user).count() >= MAX_OF_A_PERSON:
        errors.setdefault("name", []).append(
            _("You have %(limit)s saved requests; delete one first.") % {"limit": MAX_OF_A_PERSON}
        )
    if errors:
        raise UnableToSave(errors)
    made = SavedRequest(
        owner=user,
        project=shared,
        name=title,
        values=kept,
        created_at=now,
        changed_at=now,
    )
    with _unique(), transaction.atomic():
        made.save(force_insert=True)
        _record("add", made, user=user, now=now, ip=source_ip, after=_summary(made))
    return made


def change(
    *,
    saved: SavedRequest,
    user: User,
    name: object,
    project: object,
    now: datetime,
    source_ip: str | None = None,
) -> None:
    """Give it another name, or share it (or no longer). Raises UnableToSave."""
    errors: dict[str, list[str]] = {}
    title = _name(name, errors)
    same = saved.project is not None and project == saved.project.slug
    shared = saved.project if same else _project(project, user, errors)
    if shared is None and saved.owner_id != user.pk:
        errors.setdefault("project", []).append(_("Only who saved it can keep it for themselves."))
    if errors:
        raise UnableToSave(errors)
    before = _summary(saved)
    with _unique(), transaction.atomic():
        saved.name, saved.project, saved.changed_at = title, shared, now
        saved.save(update_fields=["name", "project", "changed_at"])
        was, then = audit.changes(before, _summary(saved))
        if then:
            _record("change", saved, user=user, now=now, ip=source_ip, before=was, after=then)


def delete(*, saved: SavedRequest, user: User, now: datetime, source_ip: str | None = None) -> None:
    """Forget it. Requests that were made with it go on."""
    with transaction.atomic():
        _record("remove", saved, user=user, now=now, ip=source_ip, before=_summary(saved))
        saved.delete()


def get_saved_or_404(user: User, key: uuid.UUID, *, for_write: bool = False) -> SavedRequest:
    """A saved request that `user` may use; to strangers it does not exist, to others than its owner and the
    leads of its project it is not to be changed (403)."""
    rows = SavedRequest.objects.select_related("owner", "project")
    found = rows.visible_to(user).filter(key=key).first()
    if found is None:
        raise Http404
    if for_write and not SavedRequest.objects.changeable_by(user).filter(pk=found.pk).exists():
        raise PermissionDenied(_("Only who saved it and leads of its project may change it."))
    return found


@contextmanager
def _unique() -> Iterator[None]:
    """Two of the same name: the database refuses, and this tells why."""
    try:
        yield
    except IntegrityError as error:
        raise UnableToSave({"name": [_("There is one of this name already.")]}) from error


def _name(typed: object, errors: dict[str, list[str]]) -> str:
    try:
        name = texts.name(read_text({"name": typed}, "name", limit=MAX_NAME))
    except WrongValue as error:
        errors.setdefault("name", []).append(str(error))
    except texts.UncleanText as unclean:
        errors.setdefault("name", []).append(unclean.message)
    else:
        if name:
            return name
        errors.setdefault("name", []).append(_("Give it a name."))
    return ""


def _project(typed: object, user: User, errors: dict[str, list[str]]) -> Project | None:
    try:
        slug = read_text({"project": typed}, "project", limit=63)
    except WrongValue as error:
        errors.setdefault("project", []).append(str(error))
        return None
    if not slug:
        return None
    found = Project.objects.all().visible_to(user).filter(slug=slug).first()
    if found is None or not access.may_work_in(user, found):
        errors.setdefault("project", []).append(_("You are not a member of a project of that name."))
        return None
    return found


def _summary(saved: SavedRequest) -> dict[str, str | None]:
    return {"name": saved.name, "project": saved.project.slug if saved.project else None}


def _record(
    verb: str,
    saved: SavedRequest,
    *,
    user: User,
    now: datetime,
    ip: str | None,
    before: dict[str, str | None] | None = None,
    after: dict[str, str | None] | None = None,
) -> None:
    audit.record(
        now=now, actor=user, action=f"savedrequest.{verb}", target=saved, target_id=str(saved.key),
        project=saved.project, before=before, after=after, source_ip=ip,
    )  # fmt: skip
