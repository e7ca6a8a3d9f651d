"""Nodes that do not tell any more which Pod has which device: see `inventory.podresources`.

A collector that was never heard of is being set up, and one without any token is given up: neither is told.
The desk's own standstill is over before either rule counts.
"""

from collections.abc import Iterable

from django.db.models import Exists, OuterRef, Q, QuerySet

from inventory.findings.facts import Facts
from inventory.findings.model import Found
from inventory.models import MetricQuery, PodDeviceNode, PodDeviceToken
from inventory.podresources.intake import state_of
from inventory.telemetry.problems import ELSEWHERE


def silent(facts: Facts) -> Iterable[Found]:
    """A node whose report is overdue, and was not refused."""
    asked: bool | None = None
    for node in _sources(facts).filter(refused_at=None).exclude(received_at=None):
        if node.name not in facts.nodes or state_of(node, now=facts.now) != "silent":
            continue
        if node.source == PodDeviceNode.Source.DCGM:
            asked = _metrics_answer(facts) if asked is None else asked
            if not asked:
                continue
        yield _found(facts, node, "pod-devices-silent", {"source": node.source})


def refused(facts: Facts) -> Iterable[Found]:
    """A node whose last report was refused: what it tells is not known, though it tells. Whether the cluster
    has the node does not matter: the token may be of a node that is misspelt."""
    for node in _sources(facts).exclude(refused_at=None):
        yield _found(facts, node, "pod-devices-refused", {"refusal": node.refusal})


def _sources(facts: Facts) -> "QuerySet[PodDeviceNode]":
    """Those that are still meant to tell."""
    issued = Exists(PodDeviceToken.objects.filter(node=OuterRef("pk"), revoked_at=None))
    rows = PodDeviceNode.objects.filter(issued | Q(source=PodDeviceNode.Source.DCGM), cluster=facts.cluster)
    return rows.order_by("name", "source")


def _metrics_answer(facts: Facts) -> bool:
    """Whether metrics are asked for, and come: where they do not, it is not the node that is silent."""
    asked = MetricQuery.objects.filter(
        source__cluster=facts.cluster, source__enabled=True, enabled=True, kind=MetricQuery.Kind.PODS
    )
    # What is not used of an answer does not make it none: else one node could have silence hidden.
    answers = Q(problem__isnull=True) | Q(problem__code=ELSEWHERE)
    return asked.filter(answers, source__problem__isnull=True).exists()


def _found(facts: Facts, node: PodDeviceNode, code: str, params: dict[str, str]) -> Found:
    return Found(
        subject=f"{node.name}/{node.source}",
        object_kind="pod-devices",
        name=node.name,
        code=code,
        params={"node": node.name} | params,
        holds_for=facts.thresholds.reports_missing,
    )
