"""Whether what is being emptied is empty: only what the mirror shows while it is in step, with evidence."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from inventory.coverage import SILENCE, Coverage, coverage_of
from inventory.models import CountedUnits, Drain, Stream
from inventory.taints import keeping, news
from inventory.taints.drains import is_cordoned, refresh
from inventory.taints.history import note
from inventory.taints.holds import Hold, holds_at
from inventory.taints.places import Scope, devices_at, text_of
from portal.accounts.notifications.texts import Text

State = Drain.State
# What the answer hangs on: as for the state of devices, and Pods, whose counted units no claim names.
RESOURCES = ("resourceslices", "resourceclaims", "nodes", "pods")
DEVICES_TOLD = 200


@dataclass(frozen=True)
class Verdict:
    """`reasons` say why it is not confirmed empty; none: it is."""

    coverage: Coverage
    pods_heard: bool
    holds: Sequence[Hold]
    reasons: Sequence[str]

    @property
    def may_be_believed(self) -> bool:
        return self.coverage.in_step and self.pods_heard


def judge(drain: Drain, *, now: datetime) -> Verdict:
    """Look at the mirror; nothing is written."""
    streams = list(drain.cluster.streams.all())
    coverage = coverage_of(drain.cluster, streams, now=now)
    pods_heard = _hears_pods(streams, now)
    holds: Sequence[Hold] = ()
    reasons: list[str] = []
    if coverage.in_step and pods_heard:
        holds = holds_at(drain, now=now)
    elif coverage.in_step:
        reasons.append(_("The desk does not hear of Pods of this cluster: nothing can be confirmed."))
    else:
        reasons.append(
            _("The desk is not in step with the cluster (%(why)s): nothing can be confirmed.")
            % {"why": coverage.why}
        )
    if holds:
        reasons.append(_("Still there: %(count)d.") % {"count": len(holds)})
    if not drain.rules.filter(removed_at=None).exclude(effect="None").exists() and not is_cordoned(drain):
        reasons.append(_("Nothing keeps newcomers away: neither a taint nor a cordon."))
    if _takes_units(drain):
        reasons.append(
            _("It has units of a Device Plugin, which no taint of devices guards: cordon the node.")
        )
    return Verdict(coverage, pods_heard, holds, reasons)


def watch(*, now: datetime) -> None:
    """Confirm what has become empty, and keep the holders of the others in step."""
    closed = Drain.objects.filter(state__in=(State.CLOSED, State.EVICTING))
    for drain in closed.select_related("cluster", "created_by").order_by("pk"):
        keeping.notice_gone(drain, now=now)
        verdict = judge(drain, now=now)
        if verdict.may_be_believed:
            refresh(drain, now=now)
        if not verdict.reasons:
            confirm(drain, verdict, now=now)
    for drain in Drain.objects.filter(state__in=(State.OPEN, State.ASKED)).select_related("cluster"):
        if judge(drain, now=now).may_be_believed:
            refresh(drain, now=now)


def confirm(drain: Drain, verdict: Verdict, *, now: datetime) -> bool:
    """Note that it is empty, with what was seen. False where somebody has moved it on meanwhile."""
    assert not verdict.reasons, "the caller judged"
    with transaction.atomic():
        mine = Drain.objects.filter(
            pk=drain.pk, version=drain.version, state__in=(State.CLOSED, State.EVICTING)
        )
        confirmed = mine.update(
            state=State.EMPTY,
            empty_at=now,
            evidence=_evidence(drain, verdict, now=now),
            changed_at=now,
            version=F("version") + 1,
            problem="",
        )
        if not confirmed:
            return False
        drain.refresh_from_db()
        note(drain, "empty", now=now)
        subject = Text(gettext_noop("Nobody holds anything on %(place)s any more."), place=text_of(drain))
        news.tell_owner(drain, subject, now=now, key=f"empty:{drain.version}")
    return True


# --- inside -------------------------------------------------------------------------------------------


def _hears_pods(streams: Sequence[Stream], now: datetime) -> bool:
    pods = next((stream for stream in streams if stream.resource == "pods"), None)
    if pods is None or pods.state not in (Stream.State.WATCHING, Stream.State.LISTING):
        return False
    heard = max(filter(None, (pods.heard_at, pods.listed_at)), default=None)
    return heard is not None and heard >= now - SILENCE


def _takes_units(drain: Drain) -> bool:
    """Whether a Pod with counted units could come at any moment."""
    if drain.scope != Scope.NODE or is_cordoned(drain):
        return False
    units = CountedUnits.objects.filter(cluster=drain.cluster_id, node_name=drain.node_name)
    return units.filter(allocatable__gt=0).exists()


def _evidence(drain: Drain, verdict: Verdict, *, now: datetime) -> dict[str, Any]:
    streams = {s.resource: s for s in drain.cluster.streams.filter(resource__in=RESOURCES)}
    devices = devices_at(drain).order_by("pool__driver", "pool__name", "name")
    names = [
        "/".join(names) for names in devices.values_list("pool__driver", "pool__name", "name")[:DEVICES_TOLD]
    ]
    as_of = verdict.coverage.as_of
    return {
        "checked_at": now.isoformat(),
        "as_of": as_of.isoformat() if as_of else None,
        "mirror_version": type(drain.cluster)
        .objects.values_list("mirror_version", flat=True)
        .get(pk=drain.cluster_id),
        "resource_versions": {name: stream.resource_version for name, stream in sorted(streams.items())},
        "devices": names,
        "device_count": devices.count(),
        "rules": list(drain.rules.filter(removed_at=None).order_by("name").values_list("name", flat=True)),
        "cordoned": is_cordoned(drain),
    }
