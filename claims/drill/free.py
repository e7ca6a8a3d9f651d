"""How many devices of a drill's pool a Pod would get now, as the mirror shows."""

from django.utils import timezone

from claims.catalogue.placements import selects
from claims.models import Drill
from inventory.coverage import coverage_of
from inventory.models import ClassProfile, Device, Node, Twin


def free_in_pool(drill: Drill) -> int | None:
    """Free devices of the class on the nodes that the drill's Pods may go to; None where the desk is not in
    step with the cluster: not observed is not zero, and not one either."""
    cluster = drill.cluster
    if not coverage_of(cluster, cluster.streams.all(), now=timezone.now()).in_step:
        return None
    nodes = {
        name
        for name, labels in Node.objects.filter(cluster=cluster).values_list("name", "labels")
        if selects(drill.node_selector, labels)
    }
    matches = ClassProfile.objects.filter(
        device_class__cluster=cluster, device_class__name=drill.device_class
    )
    rows = Device.objects.filter(cluster=cluster, state=Device.State.FREE)
    doubles = Twin.objects.filter(cluster=cluster, counts=False).values("device")
    by_profile = rows.filter(profile__in=matches.filter(device=None).values("profile"))
    by_device = rows.filter(pk__in=matches.exclude(device=None).values("device"))
    found = (by_profile | by_device).exclude(pk__in=doubles).order_by().values_list("pk", "node_name")
    return len({pk for pk, node in found if node in nodes})
