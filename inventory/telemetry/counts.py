"""What a worker counts of its questions to Prometheus."""

from prometheus_client import Counter

QUERIES = Counter(
    "claimdesk_monitoring_queries",
    "Questions to the Prometheus of a cluster, by what came of them (“ok”, or the cause of the failure).",
    ["cluster", "outcome"],
)
