"""Namespaces that nobody answers for."""

from collections import Counter
from collections.abc import Iterable

from inventory.findings.facts import FINISHED, Facts
from inventory.findings.model import NOW, Found
from inventory.models import Severity


def unbound(facts: Facts) -> Iterable[Found]:
    """Namespaces that use devices and belong to no project: what they use is charged to nobody."""
    units: Counter[str] = Counter()
    for pod in facts.pods.values():
        if pod.node and pod.phase not in FINISHED:
            units[pod.namespace] += sum(pod.extended.values())
    using = {namespace for namespace, count in units.items() if count} | facts.namespaces_holding.keys()
    for namespace in sorted(using - set(facts.bound_namespaces)):
        yield Found(
            subject=namespace,
            object_kind="namespace",
            namespace=namespace,
            name=namespace,
            code="namespace-unbound",
            severity=Severity.WARNING,
            params={
                "namespace": namespace,
                "claims": facts.namespaces_holding.get(namespace, 0),
                "units": units[namespace],
            },
            holds_for=NOW,
        )


def admin_access(facts: Facts) -> Iterable[Found]:
    """Namespaces whose label admits claims with adminAccess: whoever may write there sees the devices of
    everybody. It is meant for few, so each is listed until somebody acknowledges it."""
    for name, created_at in facts.admin_namespaces:
        yield Found(
            subject=name,
            object_kind="namespace",
            namespace=name,
            name=name,
            code="admin-access",
            severity=Severity.INFO,
            params={"namespace": name},
            since=created_at,
            holds_for=NOW,
        )
