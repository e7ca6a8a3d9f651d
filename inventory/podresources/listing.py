"""Which nodes tell of their Pods' devices, as pages and REST list them."""

from collections.abc import Mapping
from datetime import datetime

from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils.translation import gettext_lazy
from django_stubs_ext import StrOrPromise

from inventory.models import Cluster, CountedUnits, PodDevice, PodDeviceNode
from inventory.podresources.intake import STATES, state_of

STATE_LABELS: Mapping[str, StrOrPromise] = {
    "current": gettext_lazy("current"),
    "silent": gettext_lazy("silent"),
    "never": gettext_lazy("never reported"),
}


def in_states(cluster: Cluster, *, now: datetime) -> dict[str, Q]:
    """Which of a cluster's sources are in which state, as conditions; one query.

    When one is overdue depends on how often it reports itself, which no database compares alike."""
    found: dict[str, list[int]] = {state: [] for state in STATES}
    for node in PodDeviceNode.objects.filter(cluster=cluster).only("received_at", "interval_seconds"):
        found[state_of(node, now=now)].append(node.pk)
    return {state: Q(pk__in=keys) for state, keys in found.items()}


def with_devices(rows: "QuerySet[PodDeviceNode]") -> "QuerySet[PodDeviceNode]":
    """With `held`: how many devices the Pods of each had in its latest report."""
    # By the index of what is open: what was grows for years.
    now = PodDevice.objects.filter(node=OuterRef("pk"), last_seen_at=None).order_by().values("node")
    return rows.annotate(held=Coalesce(Subquery(now.annotate(n=Count("pk")).values("n")), 0))


def without_source(cluster: Cluster) -> int:
    """Nodes of which Device Plugins hand out units, and nobody tells which Pod has which device."""
    told = PodDeviceNode.objects.filter(cluster=cluster, name=OuterRef("node_name"))
    units = CountedUnits.objects.filter(~Exists(told), cluster=cluster, capacity__gt=0)
    return units.order_by().values("node_name").distinct().count()
