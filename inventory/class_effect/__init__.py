"""What another spec of a DeviceClass would change on its cluster, told before anything is changed: from the
mirror, and from the engine for those who wait."""

from collections.abc import Mapping
from typing import Any

from inventory.class_effect.holding import keeping
from inventory.class_effect.judging import Judge, Judged
from inventory.class_effect.model import ClassEffect, Waiting, as_json
from inventory.class_effect.naming import classes_with, empty_flavors, empty_templates
from inventory.class_effect.surroundings import conflicts, overlaps
from inventory.class_effect.waiting import waiting_claims
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
    looks: int | None = None,
) -> ClassEffect:
    """From one spec of the class `name` to another, both as in resource.k8s.io/v1; None = there is no class.
    What it costs hangs on the number of kinds of device, not of devices, unless the selectors read what
    identifies single pieces. Without `with_waiting` the engine is not asked about claims that wait; with
    `looks` it stops after so many looks at nodes, and goes on from there the next time."""
    judge = Judge(cluster)
    old, new = _judged(judge, before), _judged(judge, after)
    lost = judge.without(old, new)
    # What says the same of every device gives nobody anything else. Selectors of which one cannot be read
    # may still differ: the scheduler reads a selector only for a device that the ones before it admit.
    same = old == new and not new.problem and (before is None) == (after is None)
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
        waiting=(
            waiting_claims(cluster, name, before=before, after=after, same=same, looks=looks)
            if with_waiting
            else Waiting(known=False)
        ),
        templates=empty_templates(
            judge,
            name,
            before=classes_with(cluster, name, before),
            after=classes_with(cluster, name, after),
        ),
        flavors=empty_flavors(judge, name, after),
        overlaps=overlaps(judge, name, old=old, new=new),
        conflicts=conflicts(judge, name, before=before, after=after, new=new),
    )


def _judged(judge: Judge, spec: Spec | None) -> Judged:
    return Judged() if spec is None else judge.of(expressions_of(spec))
