"""What nodes report of their Container Device Interface and what does not fit: `inventory.cdi` judges it."""

from collections.abc import Iterable

from inventory.cdi import comparison
from inventory.cdi.facts import judge_nodes
from inventory.findings.facts import Facts
from inventory.findings.model import NOW, Found, Unjudged
from inventory.models import CdiNode, Severity

MAX_TOLD = 10


def drift(facts: Facts) -> Iterable[Found | Unjudged]:
    """One finding for each node that drifts; a node whose report is overdue cannot be judged."""
    nodes = list(CdiNode.objects.filter(cluster=facts.cluster).exclude(received_at=None).order_by("name"))
    for judged in judge_nodes(nodes, now=facts.now):
        name = judged.node.name
        if judged.verdict.state == comparison.UNKNOWN:
            yield Unjudged(name, judged.node.received_at)
        elif judged.verdict.state == comparison.DRIFT:
            telling = [found for found in judged.verdict.findings if found.severity != comparison.INFO]
            yield Found(
                subject=name,
                object_kind="node",
                name=name,
                code="cdi-drift",
                severity=Severity(telling[0].severity),
                params={
                    "node": name,
                    "count": len(telling),
                    "told": [[f.code, f.subject, dict(f.params)] for f in telling[:MAX_TOLD]],
                },
                holds_for=NOW,
            )
