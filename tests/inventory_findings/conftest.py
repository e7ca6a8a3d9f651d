"""A cluster in step with a GPU node, and the people of the house."""

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from inventory.findings.evaluation import evaluate
from inventory.findings.thresholds import Thresholds
from inventory.models import Cluster, Finding, Stream
from tests.cast import cast, cheap_passwords  # noqa: F401 - fixtures
from tests.inventory_pages.factories import make_cluster, make_device, make_node

MINUTE = timedelta(minutes=1)


@pytest.fixture
def cluster(db: None) -> Cluster:
    """ "berlin", with all streams that a rule needs."""
    made = make_cluster()
    complete_streams(made)
    return made


def complete_streams(cluster: Cluster) -> None:
    now = timezone.now()
    for resource in ("events", "namespaces", "devicetaintrules"):
        Stream.objects.create(
            cluster=cluster, resource=resource, state="watching", listed_at=now, heard_at=now
        )


@pytest.fixture
def healthy(cluster: Cluster) -> Cluster:
    """Two nodes with a GPU each, and nothing wrong."""
    for name in ("gpu-01", "gpu-02"):
        make_node(cluster, name)
        make_device(cluster, node=name)
    return cluster


def look(cluster: Cluster, *, after: timedelta = timedelta(0), seen: bool = True) -> datetime:
    """Evaluate as if that much later; its streams go on being heard with `seen`."""
    now = timezone.now() + after
    if seen:
        hear(cluster, now)
    fresh = Cluster.objects.get(pk=cluster.pk)
    evaluate(cluster=fresh, now=now, thresholds=Thresholds())
    return now


def hear(cluster: Cluster, now: datetime) -> None:
    Cluster.objects.filter(pk=cluster.pk).update(contacted_at=now)
    cluster.streams.exclude(listed_at=None).update(heard_at=now)


def shown(kind: str) -> list[Finding]:
    """What a person sees of a rule as holding now."""
    return list(Finding.objects.filter(kind=kind, opened_at__isnull=False, resolved_at=None))
