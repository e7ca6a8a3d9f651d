"""Which flavors hang on a DeviceClass: for those who would change or delete it."""

from collections.abc import Iterable, Sequence

from django.db.models import QuerySet

from claims.models import Placement
from inventory.class_users import Demand


def flavors_served(cluster_id: int, device_class: str) -> Sequence[str]:
    """Names of the flavors, archived ones left out, that a class of a cluster serves by DRA."""
    names = _placements(cluster_id, device_class).order_by("flavor__name")
    return list(names.values_list("flavor__name", flat=True).distinct())


def flavors_demanding(cluster_id: int, device_class: str) -> Sequence[Demand]:
    """The same flavors, each with the selectors of its own that devices of the class must satisfy."""
    rows = _placements(cluster_id, device_class).order_by("flavor__name", "pk")
    return [Demand(name, tuple(own)) for name, own in rows.values_list("flavor__name", "selectors")]


def everything_offered() -> Iterable[tuple[int, str, str]]:
    """Cluster, class and flavor of all that classes serve, archived flavors left out."""
    rows = Placement.objects.exclude(device_class="").filter(flavor__archived_at=None).order_by()
    return rows.values_list("cluster_id", "device_class", "flavor__name")


def _placements(cluster_id: int, device_class: str) -> QuerySet[Placement]:
    return Placement.objects.filter(
        cluster_id=cluster_id, device_class=device_class, flavor__archived_at=None
    )
