"""The lease that makes one follower the only writer of a cluster: columns on the cluster, changed by
compare-and-set.

Expiry is judged by the followers' own clocks, as leases in databases are; the fence is the holder's name,
which the writer compares within each of its transactions.
"""

import os
import secrets
import socket
from datetime import datetime, timedelta

from django.db.models import Q

from inventory.models import Cluster


def new_holder() -> str:
    """A name that no other follower has: where it runs, and a random part."""
    return f"{socket.gethostname()[:60]}/{os.getpid()}/{secrets.token_hex(8)}"


def acquire(*, cluster_id: int, holder: str, now: datetime, duration: timedelta) -> bool:
    """Take the lease of an enabled cluster if nobody has it; whether it is ours now."""
    free = (
        Q(lease_holder="") | Q(lease_expires_at=None) | Q(lease_expires_at__lte=now) | Q(lease_holder=holder)
    )
    wanted = Cluster.objects.filter(free, pk=cluster_id, enabled=True)
    return wanted.update(lease_holder=holder, lease_expires_at=now + duration) == 1


def renew(*, cluster_id: int, holder: str, now: datetime, duration: timedelta) -> bool:
    """Keep the lease; False when it has gone to another, or the cluster is no longer followed."""
    mine = Cluster.objects.filter(pk=cluster_id, lease_holder=holder, enabled=True)
    return mine.update(lease_expires_at=now + duration) == 1


def release(*, cluster_id: int, holder: str) -> None:
    """Give the lease back, if it is still ours, so that the next follower need not wait."""
    Cluster.objects.filter(pk=cluster_id, lease_holder=holder).update(lease_holder="", lease_expires_at=None)


def without_follower(*, now: datetime) -> list[int]:
    """Enabled clusters that nobody follows."""
    idle = Q(lease_holder="") | Q(lease_expires_at=None) | Q(lease_expires_at__lte=now)
    return list(Cluster.objects.filter(idle, enabled=True).order_by("pk").values_list("pk", flat=True))
