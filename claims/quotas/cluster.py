"""Which ResourceQuotas the desk wants in which namespaces: of quotas that clusters enforce too, and of
entitlements to units of a Device Plugin.

A quota is written into each namespace that its project has: Kubernetes counts one namespace at a time and
knows no flavors, so that every key has the whole limit, and a class that other flavors are made of too cannot
be limited for one of them. What the cluster refuses is therefore a subset of what the desk refuses.

For a namespace with entitlements there is one object per resource: `requests.<resource>` is what is entitled
together, and of what is ending what its Pods still have. With the last entitlement it goes.

Where a DeviceClass serves a resource too (`extendedResourceName`), Kubernetes counts what claims of that
class ask for as units of the resource (KEP-5004): a limit of units would refuse claims that have nothing to
do with them. There no such limit is written.
"""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from claims.models import Placement, Quota, QuotaObject, Request, RequestPod
from claims.requests.manifests import MANAGED_BY, PREFIX, PROJECT_LABEL, Manifest
from claims.requests.states import LIVE
from inventory.models import Cluster, CountedUnits, DeviceClass, NamespaceBinding, Pod
from portal.dra.quantity import Quantity

State = QuotaObject.State
QUOTA_LABEL = f"{PREFIX}/quota"
NOTE_ANNOTATION = f"{PREFIX}/note"
# Kubernetes' own keys (KEP-4381, KEP-5004).
DEVICES_OF_CLASS = "{name}.deviceclass.resource.k8s.io/devices"
UNITS = "requests.{name}"
ENTITLED = "entitlement"
# How the objects of entitlements are called.
ENTITLED_PREFIX = "claimdesk-entitled-"
_FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One ResourceQuota as it should be; `quota` None = of entitlements."""

    project: int
    quota: Quota | None
    cluster: int
    namespace: str
    name: str
    hard: Mapping[str, str]


@dataclass(kw_only=True)
class Keys:
    """The keys that limit a quota on a cluster, and in words what cannot be limited there."""

    hard: dict[str, str] = field(default_factory=dict)
    not_possible: list[str] = field(default_factory=list)


def manifest(row: QuotaObject) -> Manifest:
    """The object as it is sent."""
    metadata: Manifest = {"name": row.name, "namespace": row.namespace, "labels": labels_of(row)}
    if row.quota is not None and row.quota.note:
        metadata["annotations"] = {NOTE_ANNOTATION: row.quota.note}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata,
        "spec": {"hard": dict(row.wanted)},
    }


def labels_of(row: QuotaObject) -> dict[str, str]:
    """By which the desk knows its own objects."""
    return {
        MANAGED_BY: "claimdesk",
        QUOTA_LABEL: str(row.quota.key) if row.quota is not None else ENTITLED,
        PROJECT_LABEL: row.project.slug.strip("-_"),
    }


def name_of(quota: Quota) -> str:
    """The deterministic name of a quota's object, the same in each namespace."""
    return f"claimdesk-quota-{quota.key.hex[:8]}"


def name_of_entitlements(resource: str) -> str:
    """The same of entitlements to a resource."""
    return f"{ENTITLED_PREFIX}{hashlib.sha256(resource.encode()).hexdigest()[:8]}"


def keys_of(quota: Quota, cluster: Cluster, *, placements: Sequence[Placement]) -> Keys:
    """What limits the quota on a cluster; `placements` are all of the cluster."""
    found = Keys()
    serving = served_by_classes([cluster.pk])
    # As the API server writes it: 1000 is 1k there.
    limit = str(Quantity.parse(quota.limit))
    if quota.flavor_id is None:
        classes = DeviceClass.objects.filter(cluster=cluster).order_by("name").values_list("name", flat=True)
        units = CountedUnits.objects.filter(cluster=cluster).order_by("resource")
        for name in classes:
            found.hard[DEVICES_OF_CLASS.format(name=name)] = limit
        for name in units.values_list("resource", flat=True).distinct():
            found.hard[UNITS.format(name=name)] = limit
        return found
    own = {placement.device_class for placement in placements if placement.flavor_id == quota.flavor_id}
    for placement in placements:
        if placement.flavor_id != quota.flavor_id:
            continue
        if foreign := serving.get((cluster.pk, placement.extended_resource), frozenset()) - own:
            told = {
                "name": placement.extended_resource, "cluster": cluster.name,
                "classes": ", ".join(sorted(foreign)),
            }  # fmt: skip
            found.not_possible.append(
                _("%(cluster)s cannot limit it: claims of %(classes)s count as “%(name)s” too.") % told
            )
        named = (
            (DEVICES_OF_CLASS, "device_class", placement.device_class),
            (UNITS, "extended_resource", placement.extended_resource),
        )
        for key, column, name in named:
            if not name or (column == "extended_resource" and foreign):
                continue
            others = {
                other.flavor.name
                for other in placements
                if getattr(other, column) == name and other.flavor_id != quota.flavor_id
            }
            if others:
                told = {"name": name, "cluster": cluster.name, "flavors": ", ".join(sorted(others))}
                found.not_possible.append(
                    _("%(cluster)s cannot limit it: “%(name)s” also serves %(flavors)s.") % told
                )
            else:
                found.hard[key.format(name=name)] = limit
    if not found.hard and not found.not_possible:
        found.not_possible.append(_("%(cluster)s does not serve the flavor.") % {"cluster": cluster.name})
    return found


def wanted_of(quota: Quota, *, now: datetime) -> tuple[list[Wanted], list[str]]:
    """The objects that a quota would have now, and what cannot be limited. A few queries per cluster."""
    lasting = Q(valid_until=None) | Q(valid_until__gt=now)
    bindings = NamespaceBinding.objects.filter(lasting, project=quota.project_id, valid_from__lte=now)
    by_cluster: dict[int, list[NamespaceBinding]] = defaultdict(list)
    for binding in bindings.select_related("cluster").order_by("cluster__name", "namespace"):
        by_cluster[binding.cluster_id].append(binding)
    found: list[Wanted] = []
    problems: list[str] = []
    for bound in by_cluster.values():
        cluster = bound[0].cluster
        rows = Placement.objects.filter(cluster=cluster, flavor__archived_at=None).select_related("flavor")
        keys = keys_of(quota, cluster, placements=list(rows))
        problems += keys.not_possible
        if keys.hard:
            found += [
                Wanted(
                    project=quota.project_id,
                    quota=quota,
                    cluster=cluster.pk,
                    namespace=binding.namespace,
                    name=name_of(quota),
                    hard=keys.hard,
                )
                for binding in bound
            ]
    return found, problems


def wanted_for_entitlements(clusters: Collection[int] | None = None) -> list[Wanted]:
    """The objects of namespaces with entitlements, but for resources that classes serve too; four queries."""
    rows = Request.objects.filter(
        shape=Request.Shape.ENTITLEMENT, state__in=[*LIVE, Request.State.CREATING, Request.State.ENDING]
    )
    if clusters is not None:
        rows = rows.filter(cluster__in=clusters)
    requests = {request.pk: request for request in rows.defer("spec", "purpose")}
    still = _still_used([pk for pk, request in requests.items() if request.state == Request.State.ENDING])
    units: dict[tuple[int, str, str, int], int] = defaultdict(int)
    for pk, request in requests.items():
        key = (request.cluster_id, request.namespace, request.extended_resource, request.project_id)
        ending = request.state == Request.State.ENDING
        units[key] += still.get((pk, request.extended_resource), 0) if ending else request.count
    serving = served_by_classes({cluster for cluster, *_rest in units})
    return [
        Wanted(
            project=project,
            quota=None,
            cluster=cluster,
            namespace=namespace,
            name=name_of_entitlements(resource),
            hard={UNITS.format(name=resource): str(Quantity.from_int(count))},
        )
        for (cluster, namespace, resource, project), count in units.items()
        if (cluster, resource) not in serving
    ]


def served_by_classes(clusters: Collection[int]) -> Mapping[tuple[int, str], frozenset[str]]:
    """The DeviceClasses whose claims count as units of an extended resource, by cluster and resource."""
    found: dict[tuple[int, str], set[str]] = defaultdict(set)
    rows = DeviceClass.objects.filter(cluster__in=clusters).exclude(extended_resource_name="")
    for cluster, resource, name in rows.values_list("cluster_id", "extended_resource_name", "name"):
        found[cluster, resource].add(name)
    return {key: frozenset(names) for key, names in found.items()}


def _still_used(requests: Collection[int]) -> Mapping[tuple[int, str], int]:
    """Units that Pods of these requests have, by request and resource."""
    if not requests:
        return {}
    linked = RequestPod.objects.filter(request__in=requests).values_list(
        "cluster_id", "pod_uid", "request_id"
    )
    owners = {(cluster, uid): request for cluster, uid, request in linked}
    pods = Pod.objects.filter(uid__in=[uid for _cluster, uid in owners]).exclude(phase__in=_FINISHED)
    found: dict[tuple[int, str], int] = defaultdict(int)
    for cluster, uid, resources in pods.values_list("cluster_id", "uid", "extended_resources"):
        owner = owners.get((cluster, uid))
        if owner is not None:
            for resource, count in resources.items():
                found[owner, resource] += int(count)
    return found


def plan(*, now: datetime) -> int:
    """Compare what is wanted with what the desk keeps; note what has to be written. Returns how many objects
    changed. Talks to no cluster."""
    quotas = Quota.objects.filter(enforced=True).holding(now).select_related("project", "flavor")
    wanted = wanted_for_entitlements()
    for quota in quotas:
        wanted += wanted_of(quota, now=now)[0]
    with transaction.atomic():
        rows = {(r.cluster_id, r.namespace, r.name): r for r in QuotaObject.objects.select_for_update()}
        changed = 0
        for one in wanted:
            row = rows.pop((one.cluster, one.namespace, one.name), None)
            changed += _note(one, row, now=now)
        for row in rows.values():
            if row.wanted:
                _due(row, now=now, wanted={})
                changed += 1
    return changed


def _note(one: Wanted, row: QuotaObject | None, *, now: datetime) -> int:
    hard = dict(one.hard)
    if row is None:
        QuotaObject.objects.create(
            quota=one.quota, project_id=one.project, cluster_id=one.cluster, namespace=one.namespace,
            name=one.name, wanted=hard, due_at=now,
        )  # fmt: skip
        return 1
    if row.wanted == hard and row.project_id == one.project:
        return 0
    row.project_id = one.project
    _due(row, now=now, wanted=hard)
    return 1


def _due(row: QuotaObject, *, now: datetime, wanted: Mapping[str, str]) -> None:
    row.wanted = dict(wanted)
    row.state, row.message, row.due_at, row.attempts = State.DUE, "", now, 0
    row.save()
