"""What a CEL expression means on a cluster, while it is typed and before it is kept."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from django.db.models import Count, Q

from inventory.mirror import matching
from inventory.mirror.writer import features_of
from inventory.models import Cluster, Device
from portal.dra.cel import CelCompileError, compile_selector


@dataclass(frozen=True)
class Check:
    """What an expression means on a cluster. `problem` says why it does not compile (at `line` and
    `column`, from 1; 0 = the whole); `evaluation_error` is the first error that it gives for a device of
    the cluster, which would make the scheduler give up on a claim."""

    problem: str = ""
    line: int = 0
    column: int = 0
    evaluation_error: str = ""
    matched: int = 0
    free: int = 0
    profiles: Sequence[int] = field(default_factory=tuple)


def check_expression(*, cluster: Cluster, expression: str) -> Check:
    """Compile a CEL expression as the API server would, and count the devices of the cluster that it
    matches."""
    features = features_of(cluster.server_version, served=cluster.served)
    try:
        selector = compile_selector(expression, features=features.gates, enforce_estimate=True)
    except CelCompileError as error:
        return Check(problem=error.message, line=error.line, column=error.column)
    found = matching.match(
        matching.Expressions(selectors=(selector,)),
        matching.profiles_in(cluster.pk),
        cluster_id=cluster.pk,
    )
    matched, free = _count(cluster, found)
    return Check(
        evaluation_error=found.error,
        matched=matched,
        free=free,
        profiles=tuple(sorted(found.profiles | set(found.devices.values()))),
    )


def _count(cluster: Cluster, found: matching.Matches) -> tuple[int, int]:
    if found.devices:
        free = Device.objects.filter(
            cluster=cluster, profile__in=set(found.devices.values()), state=Device.State.FREE
        )
        return len(found.devices), len(found.devices.keys() & set(free.values_list("pk", flat=True)))
    devices = Device.objects.filter(cluster=cluster, profile__in=found.profiles)
    counted = devices.aggregate(matched=Count("pk"), free=Count("pk", filter=Q(state=Device.State.FREE)))
    return int(counted["matched"]), int(counted["free"])
