"""Namespaces in which drills take place: while one does, no project may have them, since it would pay."""

from datetime import datetime

from django.db.models import Q
from django.utils.translation import gettext as _

from claims.models import Drill
from inventory.models import Cluster


def why_not_bound(cluster: Cluster, namespace: str, start: datetime, end: datetime | None) -> str:
    """Why a namespace cannot be a project's in [start, end): a drill was (or is) in it then; "" = it can."""
    rows = Drill.objects.filter(
        Q(clean_at=None) | Q(clean_at__gt=start), cluster=cluster, namespace=namespace
    )
    if end is not None:
        rows = rows.filter(created_at__lt=end)
    if not rows.exists():
        return ""
    return _("Drills of the desk take place in this namespace at that time; nobody pays for those.")
