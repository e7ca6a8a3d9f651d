"""Launch templates for administrators: making, changing, archiving. Who changes an older version is told of
the conflict and loses nothing."""

from datetime import datetime
from typing import Any

from django.db import IntegrityError, models, transaction
from django.utils.translation import gettext as _

from claims.asks.reading import WHOLE
from claims.launches.terms import COLUMNS, LaunchTerms, UnableToChangeLaunch
from claims.models import Flavor, LaunchTemplate
from portal.accounts import audit
from portal.accounts.models import Project, User


def terms_of(template: LaunchTemplate) -> LaunchTerms:
    """The terms of a stored template; two queries for flavors and projects."""
    stored: dict[str, Any] = {name: getattr(template, name) for name in COLUMNS}
    columns: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()
    }
    return LaunchTerms(
        **columns,
        flavors=tuple(sorted(flavor.slug for flavor in template.flavors.all())),
        projects=tuple(sorted(project.slug for project in template.projects.all())),
    )


def create(*, terms: LaunchTerms, user: User, now: datetime, source_ip: str | None = None) -> LaunchTemplate:
    """A new template, offered at once. Raises UnableToChangeLaunch."""
    template = LaunchTemplate(created_at=now)
    _write(template, terms, user=user, now=now)
    try:
        with transaction.atomic():
            template.save(force_insert=True)
            _choose(template, terms)
            _record("create", template, user=user, now=now, ip=source_ip, after=terms.as_dict())
    except IntegrityError as error:
        raise _taken(terms, None) from error
    return template


def update(
    *,
    template: LaunchTemplate,
    terms: LaunchTerms,
    seen_version: int,
    user: User,
    now: datetime,
    source_ip: str | None = None,
) -> None:
    """Change it, if it still is at `seen_version`. What was started with it goes on as it is. Raises
    UnableToChangeLaunch."""
    before = terms_of(template).as_dict()
    try:
        with transaction.atomic():
            claimed = LaunchTemplate.objects.filter(pk=template.pk, version=seen_version).update(
                version=models.F("version") + 1
            )
            if not claimed:
                raise UnableToChangeLaunch(
                    {WHOLE: [_("Somebody else changed it meanwhile. Save again to write over that.")]},
                    conflict=True,
                )
            template.refresh_from_db()
            _write(template, terms, user=user, now=now)
            template.save()
            _choose(template, terms)
            was, then = audit.changes(before, terms.as_dict())
            if then:
                _record("change", template, user=user, now=now, ip=source_ip, before=was, after=then)
    except IntegrityError as error:
        raise _taken(terms, template) from error


def archive(
    *, template: LaunchTemplate, archived: bool, user: User, now: datetime, source_ip: str | None = None
) -> None:
    """No longer offer it, or again. Harmless when it is so already."""
    with transaction.atomic():
        changed = LaunchTemplate.objects.filter(pk=template.pk, archived_at__isnull=archived).update(
            archived_at=now if archived else None,
            version=models.F("version") + 1,
            changed_at=now,
            changed_by=user,
        )
        template.refresh_from_db()
        if changed:
            _record("archive" if archived else "restore", template, user=user, now=now, ip=source_ip)


def _write(template: LaunchTemplate, terms: LaunchTerms, *, user: User, now: datetime) -> None:
    for name in COLUMNS:
        value = getattr(terms, name)
        setattr(template, name, list(value) if isinstance(value, tuple) else value)
    template.changed_at, template.changed_by = now, user


def _choose(template: LaunchTemplate, terms: LaunchTerms) -> None:
    template.flavors.set(Flavor.objects.filter(slug__in=terms.flavors))
    template.projects.set(Project.objects.filter(slug__in=terms.projects))


def _taken(terms: LaunchTerms, template: LaunchTemplate | None) -> UnableToChangeLaunch:
    others = LaunchTemplate.objects.exclude(pk=template.pk) if template else LaunchTemplate.objects.all()
    field = "slug" if others.filter(slug=terms.slug).exists() else "name"
    return UnableToChangeLaunch({field: [_("There is one of this name already.")]})


def _record(
    verb: str,
    template: LaunchTemplate,
    *,
    user: User,
    now: datetime,
    ip: str | None,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    audit.record(
        now=now, actor=user, action=f"launchtemplate.{verb}", target=template, before=before, after=after,
        source_ip=ip,
    )  # fmt: skip
