"""What another spec of a DeviceClass would change on its cluster, told before anything is changed: from the
mirror, and from the engine for those who wait."""

from collections.abc import Mapping
from typing import Any

from inventory.class_effect.holding import keeping
from inventory.class_effect.judging import Judge, Judged
from inventory.class_effect.model import ClassEffect, Waiting, as_json
from inventory.mirror.matching import expressions_of
from inventory.models import Cluster

__all__ = ["ClassEffect", "as_json", "effect_of"]

Spec = Mapping[str, Any]


def effect_of(
    *,
    cluster: Cluster,
    name: str,
    before: Spec | None,
    after: Spec | None,
    with_waiting: bool = True,
) -> ClassEffect:
    """From one spec of the class `name` to another, both as in resource.k8s.io/v1; None = there is no class.
    What it costs hangs on the number of kinds of device, not of devices, unless the selectors read what
    identifies single pieces. Without `with_waiting` the engine is not asked about claims that wait."""
    judge = Judge(cluster)
    old, new = _judged(judge, before), _judged(judge, after)
    lost = judge.without(old, new)
    return ClassEffect(
        cluster=cluster.name,
        name=name,
        before=judge.count(old),
        after=judge.count(new),
        problem=new.problem,
        gained=judge.told(judge.without(new, old)),
        lost=judge.told(lost),
        failing=judge.failing(new, expressions_of(after or {})),
        keeping=keeping(cluster, name, lost),
        waiting=Waiting(known=with_waiting),
    )


def _judged(judge: Judge, spec: Spec | None) -> Judged:
    return Judged() if spec is None else judge.of(expressions_of(spec))
