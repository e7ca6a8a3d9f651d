"""Tokens of nodes that are still sent though they have ended: a collector that was forgotten, or a thief."""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from django.db.models import Count, F
from prometheus_client.core import GaugeMetricFamily, Metric

from inventory.coverage import Coverage
from inventory.models import CdiToken, PodDeviceToken

LATELY = timedelta(hours=1)
TOKENS = (("cdi", CdiToken), ("pod-devices", PodDeviceToken))
CAUSES = ("expired", "revoked")


def node_tokens(coverage: Mapping[int, Coverage], *, now: datetime) -> Iterator[Metric]:
    """Six queries; nothing of clusters without such tokens."""
    family = GaugeMetricFamily(
        "claimdesk_node_tokens_refused",
        "Tokens of nodes that were sent within the last hour after they had expired or were revoked.",
        labels=["cluster", "reports", "cause"],
    )
    for reports, tokens in TOKENS:
        rows = tokens._default_manager.filter(node__cluster__in=coverage).order_by()
        counts: Counter[tuple[int, str]] = Counter()
        sent = rows.filter(last_used_at__gt=now - LATELY)
        ended = {
            "revoked": sent.filter(last_used_at__gt=F("revoked_at")),
            "expired": sent.filter(revoked_at=None, last_used_at__gt=F("expires_at")),
        }
        for cause, found in ended.items():
            for cluster, count in found.values_list("node__cluster").annotate(Count("pk")):
                counts[cluster, cause] = count
        for cluster in rows.values_list("node__cluster", flat=True).distinct():
            for cause in CAUSES:
                family.add_metric([coverage[cluster].cluster.name, reports, cause], counts[cluster, cause])
    yield family
