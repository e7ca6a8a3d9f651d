"""Who holds what an ask would need and until when, who waits already, and how long one waited so far.

Any signed-in person sees that a project holds devices and until when; the request behind is told to those
only who see the project's requests.
"""

import uuid
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q

from claims.models import FINAL_STATES, Request, RequestClaim
from claims.requests.states import LIVE
from claims.waiting.claims import survival_quantile
from claims.waiting.typical import FEWEST, LATEST, LOOK_BACK
from inventory.holders import projects_of
from inventory.models import Claim, ClaimDevice, Cluster
from portal.accounts.models import Project, User


@dataclass(frozen=True, kw_only=True)
class Held:
    """Devices that one project holds until the same time. `project` "" = a namespace of nobody; `until` None
    = nobody said; `request` None = there is none, or the reader may not see it. `device` is one of them by
    which to ask the holder, None = there is nobody whom the desk could ask; `own` says that it is the request
    itself that is to be changed."""

    project: str
    devices: int
    until: datetime | None = None
    request: uuid.UUID | None = None
    device: int | None = None
    own: bool = False


@dataclass(frozen=True, kw_only=True)
class Expected:
    """How long half of the earlier ones and nine of ten waited at most, those who still wait or gave up
    counted in. None = cannot be said from so few."""

    typical: timedelta | None = None
    most: timedelta | None = None
    # Who got something.
    cases: int = 0
    # Where there are fewer cases, there is no data.
    enough: int = FEWEST


@dataclass(frozen=True, kw_only=True)
class Line:
    """Whose turn it would be for: what requests have to ask for to be in the same line."""

    cluster: Cluster
    flavor: int | None = None
    device_class: str = ""
    extended_resource: str = ""

    def of(self) -> Q:
        """The requests in it: of the same flavor, or for the same class or resource."""
        same = Q(pk__in=[]) if self.flavor is None else Q(flavor=self.flavor)
        if self.device_class:
            same |= Q(device_class=self.device_class)
        if self.extended_resource:
            same |= Q(extended_resource=self.extended_resource)
        return Q(cluster=self.cluster) & same


def waiting(line: Line, *, before: datetime, besides: str = "") -> int:
    """How many requests of the line have waited for a device since before that time; `besides` is the key of
    the one that asks."""
    rows = Request.objects.filter(
        line.of(), state__in=LIVE, asked_at__lt=before, allocated_at=None, ended_at=None
    )
    return (rows.exclude(key=besides) if besides else rows).count()


def expected(line: Line, *, now: datetime) -> Expected:
    """The wait to be expected, from the latest cases of the line."""
    asked = Request.objects.filter(line.of(), asked_at__isnull=False)
    recent = now - LOOK_BACK
    got = asked.filter(allocated_at__gt=recent).order_by("-allocated_at")
    still = asked.filter(allocated_at=None, state__in=LIVE)
    left = asked.filter(allocated_at=None, ended_at__gt=recent, state__in=FINAL_STATES).order_by("-ended_at")
    waits: list[tuple[float, bool]] = []
    for begun, end in got.values_list("asked_at", "allocated_at")[:LATEST]:
        waits.append((_seconds(begun, end), True))
    cases = len(waits)
    if cases < FEWEST:
        return Expected(cases=cases)
    for (begun,) in still.values_list("asked_at")[:LATEST]:
        waits.append((_seconds(begun, now), False))
    for begun, end in left.values_list("asked_at", "ended_at")[:LATEST]:
        waits.append((_seconds(begun, end), False))
    return Expected(typical=survival_quantile(waits, 0.5), most=survival_quantile(waits, 0.9), cases=cases)


def _seconds(begun: datetime | None, end: datetime | None) -> float:
    assert begun is not None  # the queries say so
    assert end is not None
    # The cluster's clock may be a little behind ours.
    return max((end - begun).total_seconds(), 0.0)


def held_by(
    held: Collection[tuple[str, str]],
    *,
    cluster: Cluster,
    viewer: User | None,
    now: datetime,
    own: Request | None = None,
) -> Sequence[Held]:
    """Who holds these devices, whose hold ends first first, open ends last; `held` as the engine has it:
    (device, "namespace/claim") each. `own` is the request about which is asked."""
    count = Counter(claim for _device, claim in held)
    if not count:
        return []
    names = [claim.rpartition("/") for claim in count]
    rows = Claim.objects.filter(
        cluster=cluster,
        namespace__in={namespace for namespace, _slash, _name in names},
        name__in={name for _namespace, _slash, name in names},
    )
    claims = {f"{space}/{name}": uid for space, name, uid in rows.values_list("namespace", "name", "uid")}
    links = RequestClaim.objects.filter(cluster=cluster, claim_uid__in=claims.values())
    requests = {link.claim_uid: link.request for link in links.select_related("request")}
    rows_of = ClaimDevice.objects.filter(
        claim__cluster=cluster, claim__uid__in=requests, device__isnull=False
    )
    devices_of = dict(rows_of.order_by("-device").values_list("claim__uid", "device"))
    projects = projects_of({(cluster.pk, claim.partition("/")[0]) for claim in count}, at=now)
    seen: set[int] = set()
    if viewer is not None:
        seen = set(Project.objects.all().detailed_to(viewer).values_list("pk", flat=True))
    grouped: Counter[tuple[str, datetime | None, uuid.UUID | None, bool]] = Counter()
    asked: dict[tuple[str, datetime | None, uuid.UUID | None, bool], int | None] = {}
    for claim, devices in count.items():
        project = projects.get((cluster.pk, claim.partition("/")[0]))
        uid = claims.get(claim, "")
        request = requests.get(uid)
        until = request.expires_at if request is not None else None
        visible = request is not None and project is not None and project.pk in seen
        key = request.key if request is not None and visible else None
        mine = own is not None and request is not None and request.pk == own.pk
        group = (project.name if project else "", until, key, mine)
        grouped[group] += devices
        if not mine:
            asked[group] = asked.get(group) or devices_of.get(uid)
    told = [
        Held(
            project=group[0],
            devices=n,
            until=group[1],
            request=group[2],
            device=asked.get(group),
            own=group[3],
        )
        for group, n in grouped.items()
    ]
    return sorted(told, key=lambda one: (one.until is None, one.until or now, one.project))
