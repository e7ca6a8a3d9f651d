"""One round of asking a cluster's Prometheus: how busy devices were since the last, and what drivers say.

A round is one worker's at a time and ends within a minute or so, whatever the other side does.
"""

import random
import re
import time
from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db.models import F, Q

from inventory import sealing
from inventory.models import Cluster, DeviceUse, MetricQuery, MetricSource
from inventory.podresources.intake import take_in_labels
from inventory.telemetry import answers, problems
from inventory.telemetry.asking import Address, Prometheus
from inventory.telemetry.binding import Nodes, nodes_of, places_of
from inventory.telemetry.counts import QUERIES
from inventory.telemetry.devices import devices_of
from inventory.telemetry.expressions import sent
from inventory.telemetry.slots import SLOT, floor
from inventory.telemetry.use import SETTLE, read_use
from portal.kube.errors import BadCredentials

# A round, and how long a worker that died in one keeps others out.
ROUND_SECONDS = 60.0
BUSY = timedelta(minutes=3)
# Everybody reads what drivers say, but not everybody may know whose Pods there are.
OF_PODS = re.compile(r"(exported_)?(pod|pod_name|pod_uid|pod_namespace|namespace|container|container_name)")
# After failures it is asked less and less often.
LONGEST_WAIT = timedelta(minutes=30)


def due(*, now: datetime) -> list[int]:
    """Primary keys of the sources that are to be asked now."""
    rows = MetricSource.objects.filter(
        Q(due_at=None) | Q(due_at__lte=now), Q(busy_until=None) | Q(busy_until__lte=now), enabled=True
    )
    return list(rows.filter(cluster__enabled=True).order_by("due_at", "pk").values_list("pk", flat=True))


def read(*, source_id: int, now: datetime, round_seconds: float = ROUND_SECONDS) -> bool:
    """Ask one source; whether there was something to do. Never raises for what the other side does."""
    free = Q(busy_until=None) | Q(busy_until__lte=now)
    if not MetricSource.objects.filter(free, pk=source_id, enabled=True).update(busy_until=now + BUSY):
        return False
    source = MetricSource.objects.select_related("cluster").filter(pk=source_id).first()
    if source is None:
        return False  # removed this moment
    problem: problems.Problem | None = None
    try:
        with Prometheus(address_of(source)) as prometheus:
            problem = _round(source, prometheus, now=now, until=time.monotonic() + round_seconds)
    except problems.UnableToAsk as unable:
        problem = unable.problem
    except Exception:
        # A fault of the desk: it says nothing of the other side, and must not come every minute.
        _wait(source, now=now)
        raise
    _end(source, problem, now=now)
    _forget(source, now=now)
    return True


def address_of(source: MetricSource) -> Address:
    """Raises UnableToAsk where its token cannot be decrypted."""
    token = ""
    if source.token_encrypted:
        try:
            token = sealing.unseal(source.token_encrypted)
        except BadCredentials:
            raise problems.locked() from None
    return Address(url=source.url, token=token, ca=source.ca)


def _round(
    source: MetricSource, prometheus: Prometheus, *, now: datetime, until: float
) -> problems.Problem | None:
    """What is wrong with the source; None = it answers, be it that a query is wrong."""
    # Those that a round had no time for come first in the next.
    queries = list(
        source.queries.filter(enabled=True).order_by(F("asked_at").asc(nulls_first=True), "position")
    )
    use = [query for query in queries if query.kind == MetricQuery.Kind.USE]
    devices = devices_of(source.cluster, places=any(query.node_label for query in use)) if use else None
    nodes = nodes_of(source.cluster)
    # How busy devices are before all else: it is what is lost for good.
    for query in (*use, *(query for query in queries if query.kind != MetricQuery.Kind.USE)):
        if time.monotonic() > until:
            return None
        try:
            if query.kind == MetricQuery.Kind.USE:
                assert devices is not None, "there is such a query"
                answered = read_use(source, query, prometheus, devices, nodes, now=now, until=until)
                QUERIES.labels(source.cluster.name, "ok").inc(answered)
            elif query.kind == MetricQuery.Kind.PODS:
                _read_pods(source, query, prometheus, nodes, now=now)
            else:
                _read_drivers(source, query, prometheus, now=now)
        except problems.UnableToAsk as unable:
            QUERIES.labels(source.cluster.name, unable.problem.code).inc()
            _fail(query, unable.problem, now=now)
            if unable.of_source:
                return unable.problem
    return None


def _fail(query: MetricQuery, problem: problems.Problem, *, now: datetime) -> None:
    MetricQuery.objects.filter(pk=query.pk).update(asked_at=now, problem=problem.as_json())


def _end(source: MetricSource, problem: problems.Problem | None, *, now: datetime) -> None:
    rows = MetricSource.objects.filter(pk=source.pk)
    if problem is None:
        next_slot = floor(now, SLOT) + SLOT + SETTLE
        # Not all clusters at the same second.
        spread = timedelta(seconds=random.uniform(0, 20))  # noqa: S311 - no secret
        rows.update(
            asked_at=now,
            answered_at=now,
            problem=None,
            failures=0,
            busy_until=None,
            due_at=next_slot + spread,
        )
        return
    rows.update(problem=problem.as_json())
    _wait(source, now=now)


def _wait(source: MetricSource, *, now: datetime) -> None:
    wait = min(timedelta(minutes=2 ** min(source.failures, 10)), LONGEST_WAIT)
    MetricSource.objects.filter(pk=source.pk).update(
        asked_at=now, failures=F("failures") + 1, busy_until=None, due_at=now + wait
    )


def forget_orphans(*, now: datetime) -> None:
    """Drop old use of clusters whose source was removed."""
    old = DeviceUse.objects.filter(
        hour__lt=now - timedelta(days=MetricSource._meta.get_field("keep_days").default)
    )
    for cluster in Cluster.objects.filter(metric_source=None).only("pk"):
        old.filter(cluster=cluster).delete()


def _forget(source: MetricSource, *, now: datetime) -> None:
    """Drop what is older than is kept."""
    DeviceUse.objects.filter(
        cluster=source.cluster_id, hour__lt=now - timedelta(days=source.keep_days)
    ).delete()


def _read_pods(
    source: MetricSource, query: MetricQuery, prometheus: Prometheus, nodes: Nodes, *, now: datetime
) -> None:
    """Only a complete answer is handed on: what it leaves out is taken to have ended. Of it is left out what
    comes from where the device, by other labels or by its driver, is not."""
    answer = answers.instant(prometheus.query(sent(source, query), at=now))
    QUERIES.labels(source.cluster.name, "ok").inc()
    at = places_of(source.cluster, [piece for labels in answer.labels if (piece := _piece(labels))])
    kept, away = [], {}
    for labels in answer.labels:
        piece = _piece(labels)
        if other := nodes.elsewhere(labels, at.get(piece, frozenset()), besides=query.node_label):
            away[piece] = other
        else:
            kept.append(labels)
    problem = None
    if away:
        piece = min(away)
        place = ", ".join(sorted(at.get(piece, ()))) or "–"
        problem = problems.elsewhere(len(away), name=piece, node=place, told=away[piece])
    told = take_in_labels(
        cluster=source.cluster,
        series=kept,
        taken_at=now,
        interval_seconds=int(SLOT.total_seconds()),
        now=now,
        node_label=query.node_label,
    )
    MetricQuery.objects.filter(pk=query.pk).update(
        asked_at=now,
        answered_at=now,
        problem=problem.as_json() if problem else None,
        samples=len(answer.labels),
        matched=told,
    )


def _piece(labels: Mapping[str, str]) -> str:
    return labels.get("UUID") or labels.get("uuid") or ""


def _read_drivers(source: MetricSource, query: MetricQuery, prometheus: Prometheus, *, now: datetime) -> None:
    answer = answers.instant(prometheus.query(sent(source, query), at=now))
    QUERIES.labels(source.cluster.name, "ok").inc()
    kept = [
        {
            "driver": sample.labels.get(query.label, "") if query.label else "",
            "labels": {
                name: text
                for name, text in sorted(sample.labels.items())[:10]
                if name not in (query.label, "__name__") and not OF_PODS.fullmatch(name)
            },
            "value": sample.value,
        }
        for sample in answer.samples[: MetricQuery.MOST]
    ]
    kept.sort(key=lambda row: (row["driver"], str(row["labels"])))
    MetricQuery.objects.filter(pk=query.pk).update(
        asked_at=now, answered_at=now, problem=None, values=kept, samples=len(answer.samples)
    )
