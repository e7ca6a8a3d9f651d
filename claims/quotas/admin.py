"""Quotas for administrators: what they say, checked; what they would mean now; making, changing and ending
them.

What a quota is about (project, flavor, kind) never changes: another one is made. Every change names the
version that it was made from, and who changes an older one is told of the conflict.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from typing import Any, TypeVar

from django.db import models, transaction
from django.utils.translation import gettext as _

from claims.asks.reading import WHOLE, WrongValue, WrongValues, read_choice, read_flag, read_text
from claims.history.intervals import parse_moment
from claims.models import Flavor, Quota, Request
from claims.quotas.cluster import Wanted, wanted_of
from claims.quotas.crossing import settle
from claims.quotas.facts import gather
from claims.quotas.guard import lock
from claims.quotas.standing import Piece, Standing
from claims.quotas.watch import would_end
from claims.quotas.words import WrongLimit, read_limit
from claims.signals import quotas_due
from inventory.models import Cluster
from portal import money
from portal.accounts import audit
from portal.accounts.models import Project, User
from portal.moments import demand_plain, drawn

T = TypeVar("T")
Kind = Quota.Kind
Action = Quota.Action
MAX_NOTE = 500
NO_PIECE = Piece()


class UnableToChangeQuota(WrongValues):
    """`errors` maps field names (or WHOLE) to messages; `conflict` = somebody else was faster."""


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a quota says. `valid_from` None = from now on."""

    project: Project
    flavor: Flavor | None
    kind: str
    limit: str
    currency: str = ""
    action: str = Action.BLOCK
    enforced: bool = False
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    note: str = ""


FIELDS = (
    *("project", "flavor", "kind", "limit", "currency", "action", "enforced", "valid_from", "valid_until"),
    "note",
)


def as_dict(quota: Quota) -> dict[str, Any]:
    """For audit entries, forms and REST."""
    return {
        "project": quota.project.slug,
        "flavor": quota.flavor.slug if quota.flavor else "",
        "kind": str(quota.kind),
        "limit": quota.limit,
        "currency": quota.currency,
        "action": str(quota.action),
        "enforced": quota.enforced,
        "valid_from": quota.valid_from.isoformat(),
        "valid_until": quota.valid_until.isoformat() if quota.valid_until else "",
        "note": quota.note,
    }


# --- reading ----------------------------------------------------------------------------------------


@dataclass
class _Reading:
    values: Mapping[str, object]
    quota: Quota | None = None
    zone: tzinfo | None = None
    errors: dict[str, list[str]] = field(default_factory=dict)

    def attempt(self, name: str, read: Callable[[], T], default: T) -> T:
        try:
            return read()
        except (WrongValue, WrongLimit) as error:
            self.wrong(name, str(error))
            return default

    def wrong(self, name: str, message: str) -> None:
        self.errors.setdefault(name, []).append(message)

    def moment(self, name: str, *, end: bool = False) -> datetime | None:
        text = self.attempt(name, lambda: read_text(self.values, name, limit=64), "")
        stored: datetime | None = getattr(self.quota, name) if self.quota else None
        if self.zone is not None and stored is not None and text == drawn(stored, zone=self.zone):
            return stored
        try:
            found = parse_moment(text, end=end, zone=self.zone or UTC)
            if found is not None and self.zone is not None:
                demand_plain(found, zone=self.zone)
        except ValueError as error:
            self.wrong(name, str(error))
            return None
        return found


def read_said(
    values: Mapping[str, object], *, now: datetime, quota: Quota | None = None, zone: tzinfo | None = None
) -> Said:
    """What is said in `values` (keys as in FIELDS); of an existing `quota` what it is about stays.

    `zone` is given for what a person typed into a form there, to the minute: the minute of a stored moment
    is that moment. Without it times are meant to the letter, in UTC. Raises UnableToChangeQuota with every
    error at once."""
    seen = _Reading(values, quota=quota, zone=zone)
    project: Project | None
    if quota is None:
        project = seen.attempt("project", lambda: _project(values), None)
        flavor = seen.attempt("flavor", lambda: _flavor(values), None)
        kind = seen.attempt("kind", lambda: read_choice(values, "kind", Kind.values), "")
    else:
        project, flavor, kind = quota.project, quota.flavor, quota.kind
        _refuse_other(seen, quota)
    currency = seen.attempt("currency", lambda: _currency(values, kind), "")
    limit = ""
    if kind:
        limit = seen.attempt(
            "limit",
            lambda: read_limit(_required(values, "limit"), kind=kind, currency=currency),
            "",
        )
    said: dict[str, Any] = {
        "action": seen.attempt("action", lambda: read_choice(values, "action", Action.values), ""),
        "enforced": read_flag(values, "enforced"),
        "valid_from": seen.moment("valid_from"),
        "valid_until": seen.moment("valid_until", end=True),
        "note": seen.attempt("note", lambda: read_text(values, "note", limit=MAX_NOTE), ""),
    }
    if said["enforced"] and kind and kind != Kind.DEVICES:
        seen.wrong("enforced", _("Clusters count devices; this they cannot enforce."))
    begins = said["valid_from"] or (quota.valid_from if quota else now)
    if said["valid_until"] is not None and said["valid_until"] <= begins:
        seen.wrong("valid_until", _("The end has to come after the start."))
    if seen.errors or project is None:
        raise UnableToChangeQuota(seen.errors)
    return Said(project=project, flavor=flavor, kind=kind, limit=limit, currency=currency, **said)


def _required(values: Mapping[str, object], name: str) -> str:
    text = read_text(values, name, limit=32)
    if not text:
        raise WrongValue(_("Say how much it is."))
    return text


def _project(values: Mapping[str, object]) -> Project:
    slug = read_text(values, "project")
    found = Project.objects.filter(slug=slug).first() if slug else None
    if found is None:
        raise WrongValue(_("Choose a project."))
    if found.archived_at is not None:
        raise WrongValue(_("This project is archived."))
    return found


def _flavor(values: Mapping[str, object]) -> Flavor | None:
    slug = read_text(values, "flavor")
    if not slug:
        return None
    found = Flavor.objects.filter(slug=slug).first()
    if found is None:
        raise WrongValue(_("There is no “%(name)s” (any more).") % {"name": slug[:63]})
    return found


def _currency(values: Mapping[str, object], kind: str) -> str:
    if kind != Kind.MONEY:
        return ""
    text = read_text(values, "currency", limit=3).upper()
    try:
        money.demand_currency(text)
    except money.InvalidCurrency:
        raise WrongValue(_("Three letters, such as EUR.")) from None
    return text


def _refuse_other(seen: _Reading, quota: Quota) -> None:
    """What it is about may be said again, but not otherwise."""
    now = {
        "project": quota.project.slug,
        "flavor": quota.flavor.slug if quota.flavor else "",
        "kind": quota.kind,
    }
    for name, stored in now.items():
        if name in seen.values and str(seen.values.get(name) or "") != stored:
            seen.wrong(name, _("What a quota is about does not change; make another one."))


# --- what it would mean -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What a quota would mean now. `counted` are active requests that count for it, the newest first, with
    what they take; `ended` those that it would end at once."""

    said: Said
    standing: Standing
    holds: bool
    counted: Sequence[tuple[Request, Piece]] = ()
    past_the_desk: Piece = NO_PIECE
    ended: Sequence[Request] = ()
    # What would be written where, and what clusters cannot enforce, in words.
    objects: Sequence[Wanted] = ()
    not_possible: Sequence[str] = ()

    @property
    def over(self) -> bool:
        return self.holds and self.standing.over


def effect(*, said: Said, now: datetime, quota: Quota | None = None) -> Effect:
    """What it would mean if it were saved now. Writes nothing."""
    draft = draft_of(said, now=now)
    if quota is not None:
        # Its own objects are meant, not further ones.
        draft.pk, draft.key = quota.pk, quota.key
    gathered = gather([draft], now=now)
    current = gathered.standing(draft)
    until = draft.valid_until
    holds = draft.valid_from <= now and (until is None or until > now)
    rows = Request.objects.filter(pk__in=[pk for pk in current.pieces if pk is not None])
    requests = rows.select_related("requester", "cluster", "flavor").order_by("-created_at", "-pk")
    objects, not_possible = wanted_of(draft, now=now) if draft.enforced and holds else ([], [])
    return Effect(
        said=said,
        standing=current,
        holds=holds,
        counted=[(request, current.pieces[request.pk]) for request in requests],
        past_the_desk=current.pieces.get(None, Piece()),
        ended=would_end(draft, current, gathered) if holds else [],
        objects=objects,
        not_possible=not_possible,
    )


def effect_of(quota: Quota, *, now: datetime) -> Effect:
    """The same of a stored quota as it is."""
    said = Said(
        project=quota.project, flavor=quota.flavor, kind=quota.kind, limit=quota.limit,
        currency=quota.currency, action=quota.action, enforced=quota.enforced, valid_from=quota.valid_from,
        valid_until=quota.valid_until, note=quota.note,
    )  # fmt: skip
    return effect(said=said, now=now, quota=quota)


def named(objects: Sequence[Wanted]) -> list[tuple[str, str, Mapping[str, str]]]:
    """(cluster, namespace, limits) of objects, for people; one query."""
    names = dict(Cluster.objects.filter(pk__in={one.cluster for one in objects}).values_list("pk", "name"))
    return [(names[one.cluster], one.namespace, one.hard) for one in objects]


# --- changing ---------------------------------------------------------------------------------------


def create(*, said: Said, user: User, now: datetime, source_ip: str | None = None) -> Quota:
    """Make a quota; it is evaluated at once. Raises UnableToChangeQuota."""
    with transaction.atomic():
        lock(said.project)
        quota = draft_of(said, now=now)
        quota.created_at, quota.changed_at, quota.changed_by = now, now, user
        quota.save(force_insert=True)
        audit.record(
            now=now, actor=user, action="quota.create", target=quota, target_id=str(quota.key),
            project=quota.project, after=as_dict(quota), source_ip=source_ip,
        )  # fmt: skip
        _evaluate(quota, now=now)
    return quota


def update(
    *,
    quota: Quota,
    said: Said,
    seen_version: int,
    user: User,
    now: datetime,
    source_ip: str | None = None,
) -> None:
    """Make the quota say this, if it still is at `seen_version`; it is evaluated at once. Raises
    UnableToChangeQuota; nothing is changed then."""
    with transaction.atomic():
        lock(quota.project)
        _claim_version(quota, seen_version=seen_version, user=user, now=now)
        stored = _read_again(quota)
        before, after = audit.changes(
            as_dict(stored),
            as_dict(draft_of(replace(said, valid_from=said.valid_from or stored.valid_from), now=now)),
        )
        if after is not None:
            Quota.objects.filter(pk=quota.pk).update(
                limit=said.limit, currency=said.currency, action=said.action, enforced=said.enforced,
                valid_from=said.valid_from or stored.valid_from, valid_until=said.valid_until, note=said.note,
                # The limit is another: who is over it now is told, whether or not they were before.
                over_since=None if "limit" in after or "action" in after else stored.over_since,
            )  # fmt: skip
            audit.record(
                now=now, actor=user, action="quota.change", target=quota, target_id=str(quota.key),
                project=quota.project, before=before, after=after, source_ip=source_ip,
            )  # fmt: skip
        quota.refresh_from_db()
        _evaluate(quota, now=now)


def end(*, quota: Quota, user: User, now: datetime, source_ip: str | None = None) -> None:
    """Let it hold no longer. Harmless when it has ended already."""
    with transaction.atomic():
        lock(quota.project)
        # One that has not begun never holds.
        lasting = models.Q(valid_until=None) | models.Q(valid_until__gt=now)
        changed = Quota.objects.filter(lasting, pk=quota.pk).update(
            valid_until=max(now, _read_again(quota).valid_from),
            over_since=None, version=models.F("version") + 1, changed_at=now, changed_by=user,
        )  # fmt: skip
        quota.refresh_from_db()
        if changed:
            audit.record(
                now=now, actor=user, action="quota.end", target=quota, target_id=str(quota.key),
                project=quota.project, before=as_dict(quota), source_ip=source_ip,
            )  # fmt: skip
            transaction.on_commit(lambda: quotas_due.send(Quota))


def _evaluate(quota: Quota, *, now: datetime) -> None:
    """Note who is over it, and let the rest be done outside: ending requests, writing to clusters."""
    if Quota.objects.all().holding(now).filter(pk=quota.pk).exists():
        settle(quota, gather([quota], now=now).standing(quota), now=now)
    transaction.on_commit(lambda: quotas_due.send(Quota))


def draft_of(said: Said, *, now: datetime) -> Quota:
    """A quota that says this, not stored."""
    return Quota(
        project=said.project, flavor=said.flavor, kind=said.kind, limit=said.limit, currency=said.currency,
        action=said.action, enforced=said.enforced, valid_from=said.valid_from or now,
        valid_until=said.valid_until, note=said.note,
    )  # fmt: skip


def _read_again(quota: Quota) -> Quota:
    return Quota.objects.select_related("project", "flavor").get(pk=quota.pk)


def _claim_version(quota: Quota, *, seen_version: int, user: User, now: datetime) -> None:
    changed = Quota.objects.filter(pk=quota.pk, version=seen_version).update(
        version=seen_version + 1, changed_at=now, changed_by=user
    )
    if changed:
        return
    current = Quota.objects.select_related("changed_by").get(pk=quota.pk)
    raise UnableToChangeQuota(
        {
            WHOLE: [
                _(
                    "%(who)s changed it meanwhile. Nothing was saved; what you typed is still here. Compare "
                    "it with what holds now, and save again."
                )
                % {"who": current.changed_by or _("Somebody")}
            ]
        },
        conflict=True,
    )
