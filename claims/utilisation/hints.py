"""Telling people that they hold devices and hardly use them, by the rule of the cluster's source: with what
was measured, and never for time that was not.

One hint tells of all devices of a request, however many: of all requests that a person has in a project,
where these are many, and of all claims of a project that nobody asked for here.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.db import transaction
from django.db.models import Count, Max, Min, Q, QuerySet, Sum
from django.urls import reverse
from django.utils.translation import gettext_noop

from claims.models import FINAL_STATES, AllocationUse, Request, UseCursor
from claims.requests.news import name_of
from claims.requests.reminders import people_of
from claims.utilisation.folding import LATE
from inventory.models import Cluster, MetricSource
from portal import access
from portal.accounts.models import Membership, Project, User
from portal.accounts.notifications.kinds import Kind
from portal.accounts.notifications.telling import tell
from portal.accounts.notifications.texts import Text, as_written

# More requests of one person in one project are told of together.
MOST_APART = 5
# What becomes idle so soon after the last hint waits for the next one: devices of one job do not all become
# idle within the same five minutes.
AGAIN_AFTER = timedelta(hours=6)
# So many devices and products are named.
MOST_NAMED = 50
MOST_PRODUCTS = 5


class Group(NamedTuple):
    """What one hint is about: a request, all requests of a person in a project (no `request_id`), or the
    claims of a project that are of no request (no `requester_id` either)."""

    project_id: int | None
    requester_id: int | None = None
    request_id: int | None = None

    @property
    def rows(self) -> Q:
        if self.request_id is not None:
            return Q(allocation__request=self.request_id)
        if self.requester_id is not None:
            return Q(allocation__project=self.project_id, allocation__request__requester=self.requester_id)
        return Q(allocation__project=self.project_id, allocation__request=None)


@dataclass(frozen=True, kw_only=True)
class Idle:
    """The devices of a group, added up. `names` of the first of them; `products` by how many."""

    devices: int
    claims: int
    requests: int
    # Of devices whose request is over, though they are still held.
    over: int
    claim: str
    measured: timedelta
    mean: float
    names: Sequence[str]
    products: Mapping[str, int]

    @property
    def hours(self) -> str:
        """Device-hours that were measured."""
        return f"{self.measured / timedelta(hours=1):.0f}"


def look(*, cluster: Cluster, now: datetime) -> int:
    """Tell everybody whose devices have now been idle for long enough, once until they are used again. How
    many devices that are. Queries are a matter of hints, not of devices."""
    source = MetricSource.objects.filter(cluster=cluster, enabled=True, idle_hours__gt=0).first()
    if source is None:
        return 0
    held = AllocationUse.objects.filter(allocation__cluster=cluster, allocation__ended_at=None, final=False)
    due = held.filter(
        told_at=None,
        low_percent=source.idle_percent,
        low_minutes__gte=60 * source.idle_hours,
        # What was measured long ago says nothing of now.
        low_until__gt=now - LATE,
    )
    told = 0
    for group in _groups(due, lately=_told_since(cluster, now - AGAIN_AFTER)):
        with transaction.atomic():
            # Who adds up, or tells, at the same time has done so before or does it afterwards.
            UseCursor.objects.select_for_update().filter(cluster=cluster).first()
            if held.filter(group.rows, told_at__gt=now - AGAIN_AFTER).exists():
                continue
            idle = _idle(due.filter(group.rows))
            if idle.devices:
                due.filter(group.rows).update(told_at=now)
                _tell(group, idle, cluster=cluster, now=now)
                told += idle.devices
    return told


# --- inside ---------------------------------------------------------------------------------------


def _groups(due: QuerySet[AllocationUse], *, lately: Collection[Group]) -> list[Group]:
    """What is due, by hints. Requests of one person in one project are told of one by one only as long as
    these, with those that were told of `lately`, are few: else all wait for a hint of their own."""
    together: dict[Group, list[Group]] = defaultdict(list)
    for group in sorted(_requests_of(due), key=repr):
        together[group._replace(request_id=None)].append(group)
    known: dict[Group, set[Group]] = defaultdict(set)
    for group in lately:
        known[group._replace(request_id=None)].add(group)
    return [
        hint
        for whole, parts in together.items()
        for hint in (parts if len({*parts, *known[whole]}) <= MOST_APART else [whole])
    ]


def _told_since(cluster: Cluster, moment: datetime) -> set[Group]:
    """The requests of which people were told after `moment`."""
    return _requests_of(AllocationUse.objects.filter(allocation__cluster=cluster, told_at__gt=moment))


def _requests_of(rows: QuerySet[AllocationUse]) -> set[Group]:
    columns = ("allocation__project_id", "allocation__request__requester_id", "allocation__request_id")
    return set(map(Group._make, rows.order_by().values_list(*columns).distinct()))


def _idle(rows: QuerySet[AllocationUse]) -> Idle:
    sums = rows.aggregate(
        devices=Count("pk"),
        claims=Count("allocation__claim_uid", distinct=True),
        requests=Count("allocation__request", distinct=True),
        over=Count("pk", filter=Q(allocation__request__state__in=FINAL_STATES)),
        namespace=Min("allocation__namespace"),
        claim=Max("allocation__claim_name"),
        minutes=Sum("low_minutes"),
        total=Sum("low_total"),
    )
    products = rows.order_by().values_list("allocation__product").annotate(Count("pk"))
    names = rows.order_by("allocation__device_name", "pk").values_list("allocation__device_name", flat=True)
    return Idle(
        devices=sums["devices"],
        claims=sums["claims"],
        requests=sums["requests"],
        over=sums["over"],
        claim=f"{sums['namespace']}/{sums['claim']}",
        measured=timedelta(minutes=sums["minutes"] or 0),
        mean=sums["total"] / sums["minutes"] if sums["minutes"] else 0.0,
        names=list(names[:MOST_NAMED]),
        products=dict(sorted(products, key=lambda found: (-found[1], found[0]))),
    )


def _tell(group: Group, idle: Idle, *, cluster: Cluster, now: datetime) -> None:
    request, project = None, None
    if group.request_id is not None:
        found = Request.objects.select_related("requester", "flavor", "project")
        request = found.get(pk=group.request_id)
    if group.project_id is not None:
        project = Project.objects.get(pk=group.project_id)
    people = _people(group, request, project)
    tell(
        people=people,
        kind=Kind.IDLE,
        subject=_subject(idle, request, project),
        body=_body(idle),
        url=(
            _requests_url(group, idle, people, project)
            if request is None and group.requester_id is not None
            else _url(idle, request, project, cluster)
        ),
        project=project,
        key=f"use:{group.project_id}:{group.requester_id}:{group.request_id}:{cluster.pk}:{now.isoformat()}",
        thread=str(request.key) if request else "",
        facts={
            "request": str(request.key) if request else None,
            "requests": idle.requests,
            "claims": idle.claims,
            "devices": idle.devices,
            "device": idle.names[0] if idle.devices == 1 else None,
            "device_names": list(idle.names),
            "products": dict(idle.products),
            "mean_percent": round(idle.mean, 2),
            "measured_hours": round(idle.measured / timedelta(hours=1), 2),
        },
        now=now,
    )


def _subject(idle: Idle, request: Request | None, project: Project | None) -> Text:
    percent = round(idle.mean)
    if idle.devices == 1:
        one = {"device": idle.names[0], "percent": percent, "long": idle.measured}
        if request is not None:
            message = gettext_noop(
                "%(request)s hardly uses %(device)s: %(percent)s %% on average over %(long)s measured."
            )
            return Text(message, request=name_of(request), **one)
        message = gettext_noop(
            "%(claim)s hardly uses %(device)s: %(percent)s %% on average over %(long)s measured."
        )
        return Text(message, claim=idle.claim, **one)
    several: dict[str, Any] = {"devices": idle.devices, "percent": percent, "hours": idle.hours}
    if request is not None or idle.claims == 1:
        message = gettext_noop(
            "%(holder)s hardly uses %(devices)s of its devices: %(percent)s %% on average over %(hours)s "
            "device-hours measured."
        )
        return Text(message, holder=name_of(request) if request else idle.claim, **several)
    several["project"] = project.name if project else "–"
    if idle.requests:
        message = gettext_noop(
            "%(number)s requests in %(project)s hardly use %(devices)s devices: %(percent)s %% on average "
            "over %(hours)s device-hours measured."
        )
        return Text(message, number=idle.requests, **several)
    message = gettext_noop(
        "%(number)s claims in %(project)s hardly use %(devices)s devices: %(percent)s %% on average over "
        "%(hours)s device-hours measured."
    )
    return Text(message, number=idle.claims, **several)


def _body(idle: Idle) -> Text:
    if idle.devices == 1:
        return Text(gettext_noop("If you no longer need it, please release it: others wait, and it costs."))
    parts = [f"{count} × {product or '–'}" for product, count in idle.products.items()]
    kept = ", ".join(parts[:MOST_PRODUCTS]) + (", …" if len(parts) > MOST_PRODUCTS else "")
    return Text(
        gettext_noop("%(products)s. What you no longer need, please release: others wait, and it costs."),
        products=as_written(kept),
    )


def _requests_url(group: Group, idle: Idle, people: Sequence[User], project: Project | None) -> str:
    """Where all requests of a person are, for whoever is told of them."""
    wanted: dict[str, Any] = {"project": project.slug} if project else {}
    if [person.pk for person in people] == [group.requester_id]:
        wanted["mine"] = 1
    if not idle.over:
        wanted["state"] = "active"
    return f"{reverse('request-list')}?{urlencode(wanted)}"


def _url(idle: Idle, request: Request | None, project: Project | None, cluster: Cluster) -> str:
    """Where they all are."""
    if request is not None:
        return reverse("request-detail", args=[request.key])
    wanted = {**({"project": project.slug} if project else {}), "cluster": cluster.name, "running": 1}
    if idle.devices == 1:
        wanted["device"] = idle.names[0]
    return f"{reverse('history')}?{urlencode(wanted)}"


def _people(group: Group, request: Request | None, project: Project | None) -> Sequence[User]:
    if request is not None:
        return people_of(request)
    person = (
        User.objects.filter(pk=group.requester_id, is_active=True).first() if group.requester_id else None
    )
    # Of claims the desk knows the project, and nobody who asked for them; who has left it hears no more.
    if person is not None and project is not None and access.may_see_details(person, project):
        return [person]
    return _leads(group.project_id)


def _leads(project_id: int | None) -> list[User]:
    rows = Membership.objects.filter(project=project_id, role=Membership.Role.LEAD)
    return [row.user for row in rows.select_related("user")]
