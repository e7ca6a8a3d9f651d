"""Asking a Prometheus on trial: what each query brings, before anything is stored."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from inventory.models import Cluster, MetricQuery
from inventory.telemetry import answers
from inventory.telemetry.asking import Address, Prometheus
from inventory.telemetry.devices import devices_of
from inventory.telemetry.expressions import filled_in
from inventory.telemetry.problems import UnableToAsk
from inventory.telemetry.showing import title_of
from inventory.telemetry.use import SLACK

# Somebody waits for it.
QUERY_SECONDS = 4.0
WHOLE_SECONDS = 10.0
# Of them as many as this, then by their number.
NAMED = 3

GOOD, EMPTY, BAD, LEFT_OUT = "good", "no-data", "failed", "left-out"


@dataclass(frozen=True)
class Asked:
    """What came of one query. `state`: "good", "no-data" (it answers, with nothing), "failed", "left-out" (no
    time was left for it)."""

    name: str
    state: str
    said: str
    cure: str = ""


def try_out(
    *,
    cluster: Cluster,
    address: Address,
    label: str,
    label_value: str,
    queries: Sequence[MetricQuery],
    now: datetime,
) -> list[Asked]:
    """First whether anybody answers, then every query. Stores nothing, and never raises for what the other
    side does."""
    until = time.monotonic() + WHOLE_SECONDS
    try:
        prometheus = Prometheus(address, whole_seconds=QUERY_SECONDS)
    except UnableToAsk as unable:
        return [_failed(address.url, unable)]
    with prometheus:
        try:
            answers.instant(prometheus.query("vector(1)", at=now))
        except UnableToAsk as unable:
            return [_failed(address.url, unable)]
        found = [Asked(address.url, GOOD, _("It answers."))]
        for query in queries:
            if time.monotonic() > until:
                said = _("It was not asked: the others took too long.")
                found.append(Asked(title_of(query), LEFT_OUT, said))
                continue
            expression = filled_in(query.expression, label=label, value=label_value)
            try:
                answer = answers.instant(prometheus.query(expression, at=now))
            except UnableToAsk as unable:
                found.append(_failed(title_of(query), unable))
            else:
                found.append(_told(cluster, query, answer))
    return found


def _failed(name: str, unable: UnableToAsk) -> Asked:
    return Asked(name, BAD, str(unable.problem.said), str(unable.problem.cure))


def _told(cluster: Cluster, query: MetricQuery, answer: answers.Instant) -> Asked:
    count = len(answer.samples)
    if not count:
        nan = answer.nan
        said = ngettext(
            "No data: %(n)s sample, which is no number.", "No data: %(n)s samples, none a number.", nan
        )
        return Asked(title_of(query), EMPTY, said % {"n": nan} if nan else _("No data: no such series."))
    if query.kind == MetricQuery.Kind.USE:
        return _use(cluster, query, answer)
    named = {sample.labels.get(query.label, "") for sample in answer.samples} - {""} if query.label else set()
    said = ngettext("%(n)s sample.", "%(n)s samples.", count) % {"n": count}
    if named:
        said += " " + _("Drivers: %(names)s.") % {"names": ", ".join(sorted(named)[:NAMED])}
    elif query.label:
        cure = _("Correct the label, or leave it empty.")
        return Asked(
            title_of(query), BAD, _("No sample has the label %(label)s.") % {"label": query.label}, cure
        )
    return Asked(title_of(query), GOOD, said)


def _use(cluster: Cluster, query: MetricQuery, answer: answers.Instant) -> Asked:
    devices = devices_of(cluster, places=bool(query.node_label))
    count = len(answer.samples)
    named = [sample.labels.get(query.label, "") for sample in answer.samples]
    matched = [
        devices.find(name, node=sample.labels.get(query.node_label, "") if query.node_label else "")
        for name, sample in zip(named, answer.samples, strict=True)
    ]
    wrong = sum(not -SLACK <= sample.value <= 100 + SLACK for sample in answer.samples)
    known = len({one for one in matched if one})
    said = ngettext("%(n)s sample,", "%(n)s samples,", count) % {"n": count} + " "
    said += ngettext("of %(n)s device of the mirror.", "of %(n)s devices of the mirror.", known) % {
        "n": known
    }
    if wrong:
        cure = _("Let the query give percent: multiply a ratio by 100.")
        said = ngettext(
            "%(n)s value is not between 0 and 100.", "%(n)s values are not between 0 and 100.", wrong
        )
        return Asked(title_of(query), BAD, said % {"n": wrong}, cure)
    if not known:
        cure = _("Correct the label that names the device, or what tells the cluster.")
        strangers = ", ".join(sorted(set(named))[:NAMED]) or "–"
        said += " " + _("They tell of: %(names)s.") % {"names": strangers}
        return Asked(title_of(query), BAD, said, cure)
    return Asked(title_of(query), GOOD, said)
