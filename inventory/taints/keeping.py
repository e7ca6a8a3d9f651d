"""Carries out what was planned: begins and ends maintenance, and takes away taints that are left over.

Called every few seconds, by as many workers as there are. Each step may be interrupted anywhere and is done
again: what is wanted is in the database before a cluster is asked, rules are named after what they are for,
and one that is there already is recognised by its label. Missed ticks only make things late.
"""

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils.translation import gettext_noop

from inventory.models import Cluster, DeskRule, DeviceTaintRule, Drain, Maintenance, Stream
from inventory.taints import news, rules
from inventory.taints.history import note, rule_name, taint_of
from inventory.taints.maintenance import OVER
from inventory.taints.places import UnableToPlace, selectors_at
from inventory.taints.rules import UPKEEP, Deed, GoneElsewhere, ThereAlready, UnableToTaint, WantedRule
from inventory.taints.selecting import Selector
from portal import access
from portal.accounts.models import User
from portal.accounts.notifications.texts import Text
from portal.kube.errors import ClusterError
from portal.kube.resources import DEVICE_TAINT_RULES

log = logging.getLogger(__name__)
State = Maintenance.State
# After a cluster has refused or could not be reached.
RETRY = timedelta(minutes=1)
# What the mirror does not show after this is not there.
FRESH = timedelta(minutes=2)
DRAIN_OVER = (Drain.State.DONE, Drain.State.CANCELLED)
MISSED = gettext_noop("Maintenance of %(place)s was missed: the desk did not run in that time.")


def keep(*, now: datetime) -> None:
    """Everything that is due."""
    if access.only_looks():
        return
    news.remind(now=now)
    for maintenance in _due(now):
        settle(maintenance, now=now)
    remove_leftovers(now=now)


def settle(maintenance: Maintenance, *, now: datetime, actor: User | None = None) -> None:
    """Bring one maintenance to where it should be by now, as far as its cluster lets us: what stands in the
    way is in `problem`, and tried again later."""
    if maintenance.state == State.PLANNED and maintenance.starts_at <= now:
        _begin(maintenance, now=now)
    if maintenance.state == State.ACTIVE and maintenance.ends_at <= now:
        _move(maintenance, State.ENDING, now=now)
    if maintenance.state == State.ACTIVE:
        _try(maintenance, now=now, actor=actor, what=_hold)
    elif maintenance.state == State.ENDING:
        _try(maintenance, now=now, actor=actor, what=_release)


def put_rules(upkeep: Maintenance | Drain, effect: str, *, deed: Deed) -> int:
    """Have rules of this effect on everything that the place has now; how many were made or changed. A rule
    that somebody else has deleted since is not made again. Raises UnableToTaint, UnableToPlace."""
    wanted = {rule_name(upkeep, selector): selector for selector in selectors_at(upkeep)}
    known = {row.name: row for row in upkeep.rules.all()}
    done = 0
    for name, selector in wanted.items():
        row = known.get(name)
        if row is None:
            done += _make(upkeep, name, selector, effect, deed)
        elif row.removed_at is None and row.effect != effect:
            done += _change(upkeep, name, selector, effect, deed)
    for row in known.values():
        if row.removed_at is None and row.name not in wanted:
            _remove(row, deed)
    return done


def leftovers() -> QuerySet[DeskRule]:
    """Rules of the desk that outlived what they were made for."""
    over = Q(maintenance__state__in=OVER) | Q(maintenance=None, drain__state__in=DRAIN_OVER)
    return DeskRule.objects.filter(over, removed_at=None).select_related("cluster", "maintenance", "drain")


def remove_leftovers(*, now: datetime, cluster: Cluster | None = None, actor: User | None = None) -> int:
    """Take them away; how many are still there."""
    rows = leftovers() if cluster is None else leftovers().filter(cluster=cluster)
    left = 0
    # A cluster that does not answer is asked once a round.
    silent: set[int] = set()
    for row in rows.order_by("pk"):
        if row.cluster_id in silent:
            left += 1
            continue
        try:
            _remove(row, Deed(actor=actor, now=now))
        except UnableToTaint as error:
            log.warning("the rule %s of %s stays: %s", row.name, row.cluster.name, error.message)
            silent.add(row.cluster_id)
            left += 1
    return left


# --- maintenance --------------------------------------------------------------------------------------


def _due(now: datetime) -> Iterable[Maintenance]:
    beginning = Q(state=State.PLANNED, starts_at__lte=now)
    going_on = Q(state__in=(State.ACTIVE, State.ENDING))
    tried = Q(problem="") | Q(tried_at=None) | Q(tried_at__lte=now - RETRY)
    found = Maintenance.objects.filter(beginning | going_on & tried)
    return list(found.select_related("cluster", "created_by").order_by("starts_at", "pk"))


def _begin(maintenance: Maintenance, *, now: datetime) -> None:
    if maintenance.ends_at <= now:
        with transaction.atomic():
            if _move(maintenance, State.MISSED, now=now, ended_at=now):
                note(maintenance, "missed", now=now)
                _tell_planner(maintenance, now=now)
        return
    with transaction.atomic():
        if _move(maintenance, State.ACTIVE, now=now, started_at=now):
            note(maintenance, "begun", now=now)
            news.tell_holders(maintenance, "begun", now=now)


def _move(maintenance: Maintenance, state: str, *, now: datetime, **columns: Any) -> bool:
    """Whether it was us, and not another worker or a person, who moved it."""
    mine = Maintenance.objects.filter(pk=maintenance.pk, state=maintenance.state, version=maintenance.version)
    moved = mine.update(state=state, changed_at=now, version=F("version") + 1, **columns)
    maintenance.refresh_from_db()
    return bool(moved)


def _try(maintenance: Maintenance, *, now: datetime, actor: User | None, what: Any) -> None:
    problem = ""
    try:
        what(maintenance, now=now, actor=actor)
    except (UnableToTaint, UnableToPlace) as error:
        problem = error.message[:1000]
    if problem or maintenance.problem:
        if problem != maintenance.problem:
            note(maintenance, "problem" if problem else "solved", now=now, words=problem)
        Maintenance.objects.filter(pk=maintenance.pk).update(problem=problem, tried_at=now)
        maintenance.problem, maintenance.tried_at = problem, now


def notice_gone(upkeep: Maintenance | Drain, *, now: datetime) -> None:
    """Believe the mirror that a rule is gone, once it has had the time to see it."""
    stream = Stream.objects.filter(
        cluster=upkeep.cluster_id, resource=DEVICE_TAINT_RULES.plural, state=Stream.State.WATCHING
    ).first()
    if stream is None or stream.heard_at is None or stream.heard_at < now - FRESH:
        return
    there = DeviceTaintRule.objects.filter(cluster=upkeep.cluster_id).values("name")
    gone = upkeep.rules.filter(removed_at=None, made_at__lt=stream.heard_at - FRESH).exclude(name__in=there)
    for row in gone.select_related("cluster"):
        rules.note_gone(cluster=row.cluster, name=row.name, now=now)
        note(upkeep, "rule-gone", now=now, words=row.name)


def _hold(maintenance: Maintenance, *, now: datetime, actor: User | None) -> None:
    deed = Deed(actor=actor, now=now, maintenance=maintenance)
    notice_gone(maintenance, now=now)
    if not maintenance.effect:
        for row in maintenance.rules.filter(removed_at=None).select_related("cluster"):
            _remove(row, deed)
        return
    if put_rules(maintenance, maintenance.effect, deed=deed):
        note(maintenance, "tainted", now=now, words=maintenance.effect)


def _release(maintenance: Maintenance, *, now: datetime, actor: User | None) -> None:
    for row in maintenance.rules.filter(removed_at=None).select_related("cluster"):
        _remove(row, Deed(actor=actor, now=now, maintenance=maintenance))
    with transaction.atomic():
        if not _move(maintenance, State.ENDED, now=now, ended_at=now):
            return
        note(maintenance, "ended", now=now)
        news.tell_holders(maintenance, "ended", now=now)
        for drain in maintenance.drains.filter(state=Drain.State.MAINTENANCE):
            Drain.objects.filter(pk=drain.pk).update(
                state=Drain.State.DONE, changed_at=now, version=F("version") + 1
            )
            note(drain, "done", now=now)


def _tell_planner(maintenance: Maintenance, *, now: datetime) -> None:
    from django.urls import reverse

    from inventory.taints.places import text_of
    from portal.accounts.notifications.kinds import Kind
    from portal.accounts.notifications.telling import tell

    tell(
        people=[maintenance.created_by],
        kind=Kind.MAINTENANCE,
        subject=Text(MISSED, place=text_of(maintenance)),
        url=reverse("maintenance-detail", args=[maintenance.key]),
        key=f"maintenance:{maintenance.key}:missed",
        now=now,
    )


# --- rules --------------------------------------------------------------------------------------------


def _wanted(upkeep: Maintenance | Drain, name: str, selector: Selector, effect: str) -> WantedRule:
    return WantedRule(
        name=name,
        selector=selector,
        taint=taint_of(upkeep, effect),
        reason=upkeep.reason,
        upkeep=str(upkeep.key),
    )


def _make(upkeep: Maintenance | Drain, name: str, selector: Selector, effect: str, deed: Deed) -> int:
    wanted = _wanted(upkeep, name, selector, effect)
    cluster = upkeep.cluster
    try:
        # A whole cluster was confirmed when it was planned.
        rules.create_rule(cluster=cluster, wanted=wanted, deed=deed, confirmed=cluster.name)
    except ThereAlready:
        # Made before, and the desk was interrupted before it could note that; or somebody else's.
        with rules.changing(cluster) as client:
            found = rules.find_rule(client, name) or {}
        if ((found.get("metadata") or {}).get("labels") or {}).get(UPKEEP) != str(upkeep.key):
            raise
        rules.note_made(cluster=cluster, wanted=wanted, made=found, deed=deed)
        if ((found.get("spec") or {}).get("taint") or {}).get("effect") != effect:
            return _change(upkeep, name, selector, effect, deed)
    return 1


def _change(upkeep: Maintenance | Drain, name: str, selector: Selector, effect: str, deed: Deed) -> int:
    cluster = upkeep.cluster
    try:
        with rules.changing(cluster) as client:
            found = rules.find_rule(client, name)
        if found is None:
            rules.note_gone(cluster=cluster, name=name, now=deed.now)
            note(upkeep, "rule-gone", now=deed.now, words=name)
            return 0
        version = str((found.get("metadata") or {}).get("resourceVersion", ""))
        rules.update_rule(
            cluster=cluster,
            wanted=_wanted(upkeep, name, selector, effect),
            seen_version=version,
            deed=deed,
            confirmed=cluster.name,
        )
    except ClusterError as error:
        raise UnableToTaint("", error.message) from error
    return 1


def _remove(row: DeskRule, deed: Deed) -> None:
    """Delete the very rule that the desk made; one that is gone is gone."""
    try:
        rules.delete_rule(cluster=row.cluster, name=row.name, deed=deed, uid=row.uid)
    except GoneElsewhere:
        rules.note_gone(cluster=row.cluster, name=row.name, now=deed.now)
