"""Who held which device from when to when, as much of it as the reader may know.

Any signed-in person sees that a device was held, by which project and for how long; claims, Pods and persons
only members of the project, administrators and auditors. What a reader may not see never gets into a row.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta, tzinfo
from functools import reduce
from itertools import islice
from operator import or_
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet, Sum
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.translation import gettext as _

from claims.models import Allocation, Consumer, LedgerCursor
from claims.utilisation.told import Told, use_of
from inventory.models import Cluster, PodDeviceNode
from inventory.podresources.naming import NamedDevice, devices_of, of_resource, pods_that_had
from portal import access
from portal.accounts.models import Project, User
from portal.moments import placed
from portal.sql import Microseconds

CHUNK = 1_000
# Longer than any name of the API; also keeps LIKE patterns small.
MAX_TEXT = 253
# Nothing was observed before or is planned after; the calendar's own ends cannot be reckoned with.
FIRST_YEAR, LAST_YEAR = 1970, 2999


# What may be asked for, as in a query string.
NAMES = (
    *("project", "cluster", "product", "device", "node", "pool", "driver", "class", "kind"),
    *("person", "request", "pod", "from", "to", "running"),
)
# As forms and programs write it.
_YES, _NO = ("1", "true", "True", "on"), ("0", "false", "False", "off")
# Pods are found by their stays; no more of one name than these.
MOST_STAYS = 1_000
# Who comes within so much of the beginning was there all the time, as far as people are told.
A_MOMENT = timedelta(seconds=60)


@dataclass(frozen=True, kw_only=True)
class HistoryFilter:
    """What to show; empty = everything. Times are a half-open period that intervals must touch."""

    project: str = ""
    cluster: str = ""
    product: str = ""
    device: str = ""
    node: str = ""
    pool: str = ""
    driver: str = ""
    device_class: str = ""
    kind: str = ""
    # These tell who used what: they find only what the reader may see in full.
    person: str = ""
    request: str = ""
    pod: str = ""
    start: datetime | None = None
    end: datetime | None = None
    running: bool = False
    # As typed, for the form.
    typed: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, values: Mapping[str, str], *, zone: tzinfo = UTC) -> "HistoryFilter":
        """From a query string, dates as they are in `zone`. What cannot be read is named in `errors` and does
        not narrow."""
        typed = {n: str(values.get(n) or "").replace("\x00", "").strip()[:MAX_TEXT] for n in NAMES}
        errors: dict[str, str] = {}
        bounds: dict[str, datetime | None] = {}
        for name in ("from", "to"):
            try:
                bounds[name] = parse_bound(typed[name], zone, end=name == "to")
            except ValueError as error:
                errors[name] = str(error)
        if typed["kind"] and typed["kind"] not in Allocation.Kind.values:
            errors["kind"] = _("Choose one of: %(choices)s.") % {"choices": ", ".join(Allocation.Kind.values)}
            typed["kind"] = ""
        if typed["running"] not in ("", *_YES, *_NO):
            errors["running"] = _("Choose one of: %(choices)s.") % {"choices": "true, false"}
        start, end = bounds.get("from"), bounds.get("to")
        if start and end and start >= end:
            errors["to"] = _("The end must be later than the beginning.")
        return cls(
            project=typed["project"],
            cluster=typed["cluster"],
            product=typed["product"],
            device=typed["device"],
            node=typed["node"],
            pool=typed["pool"],
            driver=typed["driver"],
            device_class=typed["class"],
            kind=typed["kind"],
            person=typed["person"],
            request=typed["request"],
            pod=typed["pod"],
            start=start,
            end=end,
            running=typed["running"] in _YES,
            typed=typed,
            errors=errors,
        )

    def query(self) -> str:
        """The filter as a query string, without its empty parts."""
        return urlencode({name: value for name, value in self.typed.items() if value})

    @property
    def narrows_use(self) -> int:
        """How much it asks for of what the form has under "more"."""
        names = ("class", "kind", "person", "request", "pod", "pool", "driver")
        return sum(bool(self.typed.get(name)) for name in names)

    @property
    def narrows(self) -> bool:
        return bool(self.query())


def parse_moment(text: str, *, end: bool = False, zone: tzinfo = UTC) -> datetime | None:
    """A date (its midnight; as an `end`, the midnight after it) or an ISO 8601 time, in `zone` where it
    names no offset; None for nothing. Raises ValueError with a message for people."""
    if not text:
        return None
    moment: datetime | None = None
    try:
        if "T" in text:
            # In a query string the "+" of an offset often arrives as a blank.
            moment = parse_datetime(text.replace(" ", "+"))
        elif (day := parse_date(text)) is not None:
            moment = datetime.combine(day, time()) + timedelta(days=1 if end else 0)
    except (ValueError, OverflowError):
        moment = None
    if moment is None or not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise ValueError(_("Write a date such as 2026-03-01, or a time such as 2026-03-01T12:00Z."))
    return moment.astimezone(UTC) if moment.tzinfo else placed(moment, zone)


def parse_bound(text: str, zone: tzinfo, *, end: bool) -> datetime | None:
    """A bound of a period: a date, which begins in `zone`, or a time (UTC unless it says otherwise). Raises
    ValueError likewise."""
    found = parse_moment(text, end=end)
    if found is None or "T" in text:
        return found
    return found.replace(tzinfo=zone).astimezone(UTC)


# Of a Pod: its containers, each with the request of the claim that it uses; None = not known.
Uses = Sequence[tuple[str, str]] | None


@dataclass(frozen=True, kw_only=True)
class PodStay:
    """The time that a Pod (or what else reserved the claim) was at an interval; `left` None = it still is.
    `partly` = not for all of the interval, as far as can be told; `containers` are those that used the
    interval's device, None = not known."""

    name: str
    uid: str
    resource: str
    joined: datetime
    left: datetime | None
    partly: bool = False
    containers: Sequence[str] | None = None


@dataclass(frozen=True, kw_only=True)
class HistoryRow:
    """One interval as one reader may see it. The last five are empty for strangers."""

    allocation: Allocation
    project: Project | None
    duration: timedelta
    start_uncertainty: timedelta
    end_uncertainty: timedelta
    visible: bool
    claim: str
    namespace: str
    person: str
    request_key: str
    stays: Sequence[PodStay]
    # Of units: the devices that the Pod was seen to have, without containers for strangers. Never billed.
    physical: Sequence[NamedDevice] = ()
    # How busy the device was while it was held; None = that was not measured, or the reader may not know it.
    use: Told | None = None

    @property
    def consumers(self) -> list[str]:
        return [stay.name for stay in self.stays]


def allocations(wanted: HistoryFilter, *, viewer: User) -> QuerySet[Allocation]:
    """Intervals that the filter admits, newest first."""
    rows = Allocation.objects.select_related("cluster", "project", "request__requester", "use")
    rows = rows.defer("cluster__kubeconfig_encrypted")
    exact = {
        "project__slug": wanted.project,
        "cluster__name": wanted.cluster,
        "product": wanted.product,
        "node_name": wanted.node,
        "pool_name": wanted.pool,
        "driver": wanted.driver,
        "device_class": wanted.device_class,
        "kind": wanted.kind,
    }
    rows = rows.filter(**{name: value for name, value in exact.items() if value})
    if wanted.device:
        # Names and ids of hardware: by whichever there is, so that one index has the rows in their order.
        names = [Q(device_name=wanted.device), Q(hardware_id=wanted.device)]
        known = [name for name in names if Allocation.objects.filter(name).exists()]
        named = reduce(or_, known or names[:1])
        if pods := pods_that_had(wanted.device, most=MOST_STAYS):
            # Units that were this piece of hardware, as was seen.
            clusters, uids = {cluster for cluster, _uid in pods}, {uid for _cluster, uid in pods}
            named |= Q(kind=Allocation.Kind.UNITS, cluster__in=clusters, claim_uid__in=uids)
        rows = rows.filter(named)
    if wanted.person or wanted.request or wanted.pod:
        rows = _used_by(rows, wanted, viewer)
    if wanted.end:
        rows = rows.filter(started_at__lt=wanted.end)
    if wanted.start:
        rows = rows.filter(Q(ended_at=None) | Q(ended_at__gt=wanted.start))
    if wanted.running:
        # Twice the same, as two indexes have it: one counts them, one has them in their order.
        rows = rows.filter(ended_at=None, ended_us=None)
    return rows.order_by("-started_at", "-id")


def _used_by(rows: QuerySet[Allocation], wanted: HistoryFilter, viewer: User) -> QuerySet[Allocation]:
    if not access.may_read_everything(viewer):
        # Else who asks for a name would learn what its owner used.
        rows = rows.filter(project__in=Project.objects.all().detailed_to(viewer))
    if wanted.person:
        rows = rows.filter(request__requester__username=wanted.person)
    if wanted.request:
        key = _key(wanted.request)
        rows = rows.filter(request__key=key) if key else rows.none()
    if wanted.pod:
        stays = Consumer.objects.filter(Q(name=wanted.pod) | Q(uid=wanted.pod)).order_by("-pk")
        found = list(stays.values_list("cluster_id", "claim_uid", "epoch")[:MOST_STAYS])
        these = Consumer.objects.filter(
            Q(name=wanted.pod) | Q(uid=wanted.pod),
            cluster=OuterRef("cluster"),
            claim_uid=OuterRef("claim_uid"),
            epoch=OuterRef("epoch"),
        )
        rows = rows.filter(
            Exists(these),
            cluster__in={cluster for cluster, _uid, _epoch in found},
            claim_uid__in={uid for _cluster, uid, _epoch in found},
        )
    return rows


def _key(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def version(viewer: User) -> Sequence[object]:
    """What changes whenever something that `viewer` sees of the ledger does; six queries."""
    written = LedgerCursor.objects.order_by("cluster_id").values_list(
        "cluster_id", "changes", "cluster__use_cursor__until"
    )
    # The devices that units were seen to be change without the ledger.
    # In milliseconds: SQLite adds up to 2^63, and the microseconds of five thousand nodes are more.
    named = PodDeviceNode.objects.aggregate(changed=Sum(Microseconds("changed_at") / 1000))["changed"]
    if access.may_read_everything(viewer):
        return [viewer.pk, list(written), names(), named, "everything"]
    detailed = Project.objects.all().detailed_to(viewer).order_by("pk").values_list("pk", flat=True)
    return [viewer.pk, list(written), names(), named, list(detailed)]


def names() -> str:
    """A digest of the names that rows tell, which change without them."""
    projects = Project.objects.order_by("pk").values_list("pk", "slug", "name")
    clusters = Cluster.objects.order_by("pk").values_list("pk", "name")
    people = User.objects.order_by("pk").values_list("pk", "username")
    return hashlib.sha256(repr([list(rows) for rows in (projects, clusters, people)]).encode()).hexdigest()


def seen_by(rows: Iterable[Allocation], *, viewer: User, now: datetime) -> Iterator[HistoryRow]:
    """The rows as `viewer` may see them: a fixed number of queries per thousand."""
    everything = access.may_read_everything(viewer)
    detailed = (
        set() if everything else set(Project.objects.all().detailed_to(viewer).values_list("pk", flat=True))
    )
    iterator = iter(rows)
    while chunk := list(islice(iterator, CHUNK)):
        visible = [row for row in chunk if everything or row.project_id in detailed]
        stays = _stays(visible)
        physical = _physical(chunk)
        shown = {row.pk for row in visible}
        for row in chunk:
            yield _row(row, visible=row.pk in shown, stays=stays, physical=physical, now=now)


def _row(
    row: Allocation,
    *,
    visible: bool,
    stays: Mapping[tuple[int, str, int], Sequence[tuple[PodStay, Uses]]],
    physical: Mapping[int, Sequence[NamedDevice]],
    now: datetime,
) -> HistoryRow:
    request = row.request if visible else None
    named = physical.get(row.pk, ())
    return HistoryRow(
        allocation=row,
        project=row.project,
        duration=(row.ended_at or max(now, row.started_at)) - row.started_at,
        start_uncertainty=timedelta(microseconds=row.start_uncertainty_us),
        end_uncertainty=timedelta(microseconds=row.end_uncertainty_us),
        visible=visible,
        claim=row.claim_name if visible else "",
        namespace=row.namespace if visible else "",
        person=str(request.requester) if request else "",
        request_key=str(request.key) if request else "",
        stays=[_within(row, *one) for one in stays.get((row.cluster_id, row.claim_uid, row.epoch), ())]
        if visible
        else (),
        physical=named if visible else [replace(one, container="") for one in named],
        use=use_of(row, now=now) if visible else None,
    )


def _physical(rows: Sequence[Allocation]) -> Mapping[int, Sequence[NamedDevice]]:
    """The devices that units were, by the row's key; at most two queries."""
    units = [row for row in rows if row.kind == Allocation.Kind.UNITS]
    named = devices_of({(row.cluster_id, row.claim_uid) for row in units})
    return {
        row.pk: of_resource(named[row.cluster_id, row.claim_uid], row.extended_resource)
        for row in units
        if (row.cluster_id, row.claim_uid) in named
    }


def _within(row: Allocation, stay: PodStay, uses: Uses) -> PodStay:
    late = stay.joined - row.started_at > A_MOMENT
    early = stay.left is not None and (row.ended_at is None or row.ended_at - stay.left > A_MOMENT)
    # "gpu/large" is an alternative of the request "gpu".
    requests = ("", row.request_name, row.request_name.partition("/")[0])
    containers = None if uses is None else [name for name, request in uses if request in requests]
    return replace(stay, partly=late or early, containers=containers)


def _stays(rows: Sequence[Allocation]) -> Mapping[tuple[int, str, int], Sequence[tuple[PodStay, Uses]]]:
    """What reserved each claim during each allocation, in the order of their coming, and which containers
    use which of its requests."""
    uids = {row.claim_uid for row in rows}
    found: dict[tuple[int, str, int], list[tuple[PodStay, Uses]]] = defaultdict(list)
    if not uids:
        return found
    seen = Consumer.objects.filter(claim_uid__in=uids, cluster__in={row.cluster_id for row in rows})
    for one in seen.order_by("joined_at", "id"):
        stay = PodStay(
            name=one.name, uid=one.uid, resource=one.resource, joined=one.joined_at, left=one.left_at
        )
        found[one.cluster_id, one.claim_uid, one.epoch].append((stay, one.containers))
    return found
