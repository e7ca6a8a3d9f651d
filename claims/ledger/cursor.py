"""One writer of a cluster's ledger at a time."""

from claims.models import LedgerCursor
from inventory.models import Cluster


def locked(cluster: Cluster) -> LedgerCursor:
    """How far the cluster's ledger is folded; nobody else writes it until the transaction ends."""
    LedgerCursor.objects.get_or_create(cluster=cluster)
    return LedgerCursor.objects.select_for_update().get(cluster=cluster)
