"""Celery tasks: reading what autoscalers say, a cluster in a task of its own."""

from celery import shared_task
from django.utils import timezone

from inventory.autoscaling import reading
from inventory.models import Cluster

# The next beat asks again.
EXPIRES = 55


@shared_task(name="inventory.autoscaling.tasks.read", ignore_result=True)
def read(cluster_id: int | None = None) -> None:
    """Read all clusters that are followed, or one."""
    if cluster_id is None:
        for pk in Cluster.objects.filter(enabled=True).values_list("pk", flat=True):
            read.apply_async(kwargs={"cluster_id": pk}, expires=EXPIRES)
        return
    cluster = Cluster.objects.filter(pk=cluster_id, enabled=True).first()
    if cluster is not None:
        reading.read(cluster=cluster, now=timezone.now())
