"""What a class meets on its cluster: other classes of the same devices, and whatever else goes by its
extended resource name."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.db.models import Count, Q, Sum, TextField
from django.db.models.functions import Cast

from inventory.class_effect.judging import Judge, Judged
from inventory.class_effect.model import Conflict, Overlap
from inventory.counted import FINISHED
from inventory.mirror.matching import expressions_of
from inventory.models import CountedUnits, DeviceClass, Pod
from portal.dra import model as dra
from portal.dra.extended import class_for

Spec = Mapping[str, Any]


def overlaps(judge: Judge, name: str, *, old: Judged, new: Judged) -> Sequence[Overlap]:
    """Other classes of the cluster that match some of the same devices, before or after; most first."""
    found = []
    others = DeviceClass.objects.filter(cluster=judge.cluster).exclude(name=name)
    for other, spec in others.order_by("name").values_list("name", "spec"):
        judged = judge.of(expressions_of(spec))
        row = Overlap(name=other, before=judge.both(old, judged), after=judge.both(new, judged))
        if row.before or row.after:
            found.append(row)
    return tuple(sorted(found, key=lambda row: (-row.after, -row.before, row.name)))


def conflicts(
    judge: Judge, name: str, *, before: Spec | None, after: Spec | None, new: Judged
) -> Sequence[Conflict]:
    """What else goes by the extended resource name that the class is to have, and who asks for one that it is
    to lose."""
    was, wanted = (str((spec or {}).get("extendedResourceName", "")) for spec in (before, after))
    found: list[Conflict] = []
    if wanted:
        found += _of_classes(judge, name, wanted)
        found += _of_plugin(judge, wanted, new)
    if was and was != wanted and (pods := _asking(judge, was)):
        found.append(Conflict(kind="dropped", resource=was, pods=pods))
    return tuple(found)


def _of_classes(judge: Judge, name: str, resource: str) -> Iterator[Conflict]:
    same = DeviceClass.objects.filter(cluster=judge.cluster).filter(
        Q(extended_resource_name=resource) | Q(name=name)
    )
    rows = list(same.values_list("name", "created_at"))
    others = [other for other, _created in rows if other != name]
    if not others:
        return
    # One that is yet to be made is the newest.
    times = {name: "9999", **{other: created.isoformat() if created else "" for other, created in rows}}
    classes = [
        dra.DeviceClass(
            metadata=dra.ObjectMeta(name=other, creation_timestamp=at),
            spec=dra.DeviceClassSpec(extended_resource_name=resource),
        )
        for other, at in times.items()
    ]
    winner = class_for(classes, resource)
    for other in sorted(others):
        told = winner.metadata.name if winner else ""
        yield Conflict(
            kind="class", resource=resource, other=other, winner=told, pods=_asking(judge, resource)
        )


def _of_plugin(judge: Judge, resource: str, new: Judged) -> Iterator[Conflict]:
    rows = CountedUnits.objects.filter(cluster=judge.cluster, resource=resource, capacity__gt=0)
    told = rows.aggregate(nodes=Count("pk"), units=Sum("capacity"))
    if not told["nodes"]:
        return
    matched = judge.without(new, Judged()).rows(judge.cluster)
    shared = rows.filter(node_name__in=matched.values("node_name")).count() if judge.count(new) else 0
    yield Conflict(
        kind="plugin",
        resource=resource,
        nodes=told["nodes"],
        units=told["units"],
        shared=shared,
        pods=_asking(judge, resource),
    )


def _asking(judge: Judge, resource: str) -> int:
    """Unfinished Pods that ask for the resource."""
    pods = Pod.objects.filter(cluster=judge.cluster).exclude(phase__in=FINISHED)
    asking = pods.annotate(text=Cast("extended_resources", TextField())).filter(
        text__contains=f'"{resource}"'
    )
    return sum(resource in asked for asked in asking.values_list("extended_resources", flat=True))
