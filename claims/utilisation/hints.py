"""Telling people that they hold a device and hardly use it, by the rule of the cluster's source: with what
was measured, and never for time that was not."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.db import transaction
from django.urls import reverse
from django.utils.translation import gettext_noop

from claims.models import AllocationUse
from claims.requests.news import name_of
from claims.requests.reminders import people_of
from claims.utilisation.folding import LATE
from inventory.models import Cluster, MetricSource
from portal.accounts.models import Membership, User
from portal.accounts.notifications.kinds import Kind
from portal.accounts.notifications.telling import tell
from portal.accounts.notifications.texts import Text


def look(*, cluster: Cluster, now: datetime) -> int:
    """Tell everybody whose device has now been idle for long enough, once until it is used again. How many
    devices that are."""
    source = MetricSource.objects.filter(cluster=cluster, enabled=True, idle_hours__gt=0).first()
    if source is None:
        return 0
    rows = AllocationUse.objects.filter(
        allocation__cluster=cluster,
        allocation__ended_at=None,
        final=False,
        told_at=None,
        low_percent=source.idle_percent,
        low_minutes__gte=60 * source.idle_hours,
        # What was measured long ago says nothing of now.
        low_until__gt=now - LATE,
    ).select_related("allocation__request__requester", "allocation__request__flavor", "allocation__project")
    told = 0
    for row in rows:
        with transaction.atomic():
            if AllocationUse.objects.filter(pk=row.pk, told_at=None).update(told_at=now):
                _tell(row, now=now)
                told += 1
    return told


def _tell(row: AllocationUse, *, now: datetime) -> None:
    allocation = row.allocation
    request = allocation.request
    measured = {
        "device": allocation.device_name,
        "percent": round(row.low_total / row.low_minutes),
        "long": timedelta(minutes=row.low_minutes),
    }
    if request is not None:
        people: Sequence[User] = people_of(request)
        subject = Text(
            gettext_noop(
                "%(request)s hardly uses %(device)s: %(percent)s %% on average over %(long)s measured."
            ),
            request=name_of(request),
            **measured,
        )
        url = reverse("request-detail", args=[request.key])
    else:
        # The desk knows the claim's project, and nobody who asked for it.
        people = _leads(allocation.project_id)
        subject = Text(
            gettext_noop(
                "%(claim)s hardly uses %(device)s: %(percent)s %% on average over %(long)s measured."
            ),
            claim=f"{allocation.namespace}/{allocation.claim_name}",
            **measured,
        )
        url = f"{reverse('history')}?{urlencode({'device': allocation.device_name, 'running': 1})}"
    tell(
        people=people,
        kind=Kind.IDLE,
        subject=subject,
        body=Text(gettext_noop("If you no longer need it, please release it: others wait, and it costs.")),
        url=url,
        project=allocation.project,
        key=f"use:{allocation.pk}:{now.isoformat()}",
        thread=str(request.key) if request else "",
        facts={
            "request": str(request.key) if request else None,
            "device": allocation.device_name,
            "mean_percent": round(row.low_total / row.low_minutes, 2),
            "measured_hours": round(row.low_minutes / 60, 2),
        },
        now=now,
    )


def _leads(project_id: int | None) -> list[User]:
    rows = Membership.objects.filter(project=project_id, role=Membership.Role.LEAD)
    return [row.user for row in rows.select_related("user")]
