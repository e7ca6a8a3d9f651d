"""Which flavors hang on a DeviceClass: for those who would change or delete it."""

from collections.abc import Sequence

from claims.models import Placement


def flavors_served(cluster_id: int, device_class: str) -> Sequence[str]:
    """Names of the flavors, archived ones left out, that a class of a cluster serves by DRA."""
    placements = Placement.objects.filter(
        cluster_id=cluster_id, device_class=device_class, flavor__archived_at=None
    )
    return list(placements.order_by("flavor__name").values_list("flavor__name", flat=True).distinct())
