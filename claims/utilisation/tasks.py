"""Celery's side: once a cluster's Prometheus was read, what people hold is added up."""

from celery import shared_task
from django.utils import timezone

from claims.utilisation import folding, hints
from inventory.models import Cluster

# After the next reading there is a task of its own.
EXPIRES = 240


@shared_task(name="claims.utilisation.tasks.fold", ignore_result=True)
def fold(cluster_id: int) -> None:
    """Add up one cluster's, then tell who is to be told."""
    cluster = Cluster.objects.filter(pk=cluster_id).first()
    if cluster is not None:
        folding.fold(cluster=cluster)
        hints.look(cluster=cluster, now=timezone.now())
