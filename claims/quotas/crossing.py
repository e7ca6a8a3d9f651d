"""Crossing a limit: noted once, told once, and forgotten when the project is within it again."""

from collections.abc import Sequence
from datetime import datetime
from fractions import Fraction

from django.db.models import Q
from django.urls import reverse
from django.utils.translation import gettext_noop

from claims.models import Quota, Request
from claims.quotas.standing import Standing
from claims.quotas.words import neutral
from portal.accounts.audit import record
from portal.accounts.models import Membership, User
from portal.accounts.notifications.kinds import Kind
from portal.accounts.notifications.telling import tell
from portal.accounts.notifications.texts import Text


def settle(quota: Quota, current: Standing, *, now: datetime) -> bool:
    """Note whether the project is over the quota. Tells leads and administrators when it has just come to be.
    Inside a transaction; returns whether it was us who noted a crossing."""
    rows = Quota.objects.filter(pk=quota.pk)
    if not current.over:
        if quota.over_since is not None:
            rows.exclude(over_since=None).update(over_since=None)
        return False
    if quota.over_since is not None or not rows.filter(over_since=None).update(over_since=now):
        return False
    told = {"used": _plain(quota, current.used), "asked": _plain(quota, current.asked)}
    record(
        now=now, actor=None, action="quota.crossed", target=quota, project=quota.project,
        after=told | {"limit": _plain(quota, current.limit)},
    )  # fmt: skip
    _announce(quota, current, now=now)
    return True


def tell_released(quota: Quota, requests: Sequence[Request], *, now: datetime) -> None:
    """Tell the people whose requests were ended that they were, and why."""
    for request in requests:
        tell(
            people=[request.requester],
            kind=Kind.QUOTA,
            subject=Text(
                gettext_noop("“%(request)s” was ended: %(project)s is over its quota."),
                request=request.object_name,
                project=quota.project.name,
            ),
            body=_what(quota),
            url=reverse("request-detail", args=[request.key]),
            project=quota.project,
            key=f"quota-released-{quota.key}-{request.key}",
            thread=str(request.key),
            now=now,
        )


def _announce(quota: Quota, current: Standing, *, now: datetime) -> None:
    leads = Membership.objects.filter(project=quota.project, role=Membership.Role.LEAD)
    people = User.objects.filter(Q(pk__in=leads.values("user")) | Q(is_administrator=True), is_active=True)
    tell(
        people=people,
        kind=Kind.QUOTA,
        subject=Text(gettext_noop("%(project)s is over its quota."), project=quota.project.name),
        body=Text(
            gettext_noop("%(what)s In use: %(used)s; asked for: %(asked)s."),
            what=_what(quota),
            used=_plain(quota, current.used) or "–",
            asked=_plain(quota, current.asked),
        ),
        url=reverse("quota-detail", args=[quota.key]),
        project=quota.project,
        key=f"quota-crossed-{quota.key}-{now.isoformat()}",
        facts={"quota": str(quota.key), "kind": quota.kind, "limit": quota.limit, "action": quota.action},
        now=now,
    )


def _what(quota: Quota) -> Text:
    kind = Quota.Kind(quota.kind)
    limit = f"{quota.limit} {quota.currency}".strip()
    if quota.flavor is None:
        return Text(gettext_noop("%(kind)s: at most %(limit)s."), kind=kind.label, limit=limit)
    return Text(
        gettext_noop("%(kind)s of %(flavor)s: at most %(limit)s."),
        kind=kind.label,
        flavor=quota.flavor.name,
        limit=limit,
    )


def _plain(quota: Quota, value: Fraction | None) -> str:
    return neutral(value, kind=quota.kind, currency=quota.currency)
