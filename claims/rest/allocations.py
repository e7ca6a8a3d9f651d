"""REST of the ledger: who held which device from when to when, paged or as a stream of any size; or how many
did, and for how long, put together by what the caller names.

What a person may not see, their token may not see.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.utils import timezone
from drf_spectacular.helpers import forced_singular_serializer
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import exceptions, serializers
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims.history.intervals import HistoryFilter, HistoryRow, allocations, seen_by, version
from claims.history.spans import each, newest_first
from claims.models import Allocation, Bound
from claims.money.months import zone_named
from claims.rest import held
from claims.rest.answers import refuse_unknown
from claims.rest.streams import RENDERERS, Formats, etag_of, is_streamed, not_modified, streamed, utc
from claims.rest.usage import answers
from claims.rest.usage_answers import QuantityOut
from inventory.podresources.answers import NamedDeviceOut, as_json
from inventory.podresources.naming import NamedDevice
from portal.accounts.models import ApiToken
from portal.api import ApiListView
from portal.cursors import CursorPages

# Rows that a stream fetches at a time.
FETCH = 2_000


class StayOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    uid = serializers.CharField()
    resource = serializers.CharField(help_text="`pods`, or what else reserved the claim.")
    joined_at = serializers.DateTimeField()
    left_at = serializers.DateTimeField(allow_null=True, help_text="Null: it is still there.")
    containers = serializers.ListField(
        child=serializers.CharField(),
        allow_null=True,
        help_text="Those of the Pod that use this device of the claim. Null: not known.",
    )


class AllocationOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    kind = serializers.ChoiceField(
        choices=Allocation.Kind.choices,
        help_text="A device that a claim held, or units of a Device Plugin that a Pod had.",
    )
    cluster = serializers.CharField()
    node = serializers.CharField()
    driver = serializers.CharField()
    pool = serializers.CharField()
    device = serializers.CharField()
    share_id = serializers.CharField()
    hardware_id = serializers.CharField()
    product = serializers.CharField()
    profile = serializers.CharField(help_text="Digest of the device's profile as it was then.")
    device_class = serializers.CharField()
    extended_resource = serializers.CharField(
        help_text="Whose units they are, or what the scheduler made the claim for."
    )
    units = serializers.IntegerField(help_text="How many units; 1 for what a claim holds.")
    replicas = serializers.IntegerField(help_text="How many units share one piece of hardware.")
    consumed_capacity = serializers.DictField(child=serializers.CharField())
    capacity = serializers.DictField(help_text="Of the whole device, as it was then.")
    counters = serializers.DictField(
        help_text='What a partition draws on: {"set/counter": {"used": …, "total": …}}.'
    )
    admin_access = serializers.BooleanField(help_text="Looked at without being held; never billed.")
    contested = serializers.BooleanField(
        help_text="Another claim was observed to hold the exclusive device already."
    )
    started_at = serializers.DateTimeField()
    start_source = serializers.CharField(help_text="Where the time is from, such as `allocationTimestamp`.")
    start_uncertainty_us = serializers.IntegerField()
    ended_at = serializers.DateTimeField(allow_null=True, help_text="Null: still held.")
    end_source = serializers.CharField()
    end_uncertainty_us = serializers.IntegerField(
        help_text="With the tenant's bound it ended at most so many microseconds after `ended_at`, with the "
        "operator's at most so many before."
    )
    bound = serializers.ChoiceField(
        choices=Bound.choices, help_text="Which bound of uncertain times is billed."
    )
    project = serializers.CharField(allow_null=True, help_text="Null: unattributed.")
    request = serializers.UUIDField(allow_null=True, help_text="Only for those who see the project's claims.")
    namespace = serializers.CharField(help_text="Empty for strangers, as are claim, person and consumers.")
    claim = serializers.CharField(help_text="Name of the claim, or of the Pod that had units.")
    claim_uid = serializers.CharField()
    epoch = serializers.IntegerField(help_text="A claim lives through several allocations: 1, 2, …")
    person = serializers.CharField()
    consumers = serializers.ListField(child=serializers.CharField(), help_text="Names of what is in `stays`.")
    stays = StayOut(
        many=True,
        help_text="Pods that had it, each with its own part of the time: for information, never billed.",
    )
    physical_devices = NamedDeviceOut(
        many=True,
        help_text="Of units of a Device Plugin: which devices the Pod was seen to have, by whom. For "
        "information: what is billed is the count. Empty where nothing was reported, and for claims.",
    )
    use_mean_percent = serializers.FloatField(
        allow_null=True,
        help_text="How busy the device was while it was held, over the measured part of that time; of a "
        "shared device, the whole of it. Null: no data (or not for the caller), which is not zero.",
    )
    use_highest_percent = serializers.FloatField(allow_null=True)
    use_measured_seconds = serializers.FloatField(
        allow_null=True, help_text="How much of the time was measured."
    )


COLUMNS = tuple(AllocationOut().fields)


class AllocationRowOut(AllocationOut):
    """One allocation; or, with `group_by`, allocations put together: then with what they are grouped by, and
    without what only a single one has."""

    def get_fields(self) -> dict[str, Any]:
        fields = super().get_fields()
        for field in fields.values():
            field.required = False
        return fields | held.HeldFields().get_fields()


class AllocationsOut(serializers.Serializer[Any]):
    """A page. What is not required only rows have that are put together."""

    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True, required=False, help_text="Of allocations one by one.")
    results = AllocationRowOut(many=True)
    start = serializers.DateTimeField(
        required=False, help_text="1970: whenever it was, since only `billed` was named."
    )
    end = serializers.DateTimeField(required=False)
    as_of = serializers.DateTimeField(required=False, help_text="What is still held is counted up to here.")
    billed = serializers.CharField(
        required=False, allow_null=True, help_text="The month of the statements; null: any."
    )
    group_by = serializers.ListField(child=serializers.CharField(), required=False)
    allocations = serializers.IntegerField(
        required=False, help_text="Of all pages: one that is in several rows counts once."
    )
    quantities = QuantityOut(many=True, required=False, help_text="Of all pages.")


# What a page is, is said by itself.
_ANSWER = forced_singular_serializer(AllocationsOut)  # type: ignore[no-untyped-call] # has no types
_EXAMPLE = OpenApiExample(
    "A GPU for two hours",
    value={"next": None, "previous": None, "results": [{
        "id": 4711, "kind": "claim", "cluster": "main", "node": "node-7", "driver": "gpu.nvidia.com",
        "pool": "node-7", "device": "gpu-3", "share_id": "", "hardware_id": "GPU-8a10b6f7",
        "product": "NVIDIA A100-SXM4-40GB", "profile": "5f1c…", "device_class": "gpu.nvidia.com",
        "extended_resource": "", "units": 1, "replicas": 1, "consumed_capacity": {},
        "capacity": {"gpu.nvidia.com/memory": {"value": "40Gi"}}, "counters": {}, "admin_access": False,
        "contested": False, "started_at": "2026-11-03T09:00:00Z", "start_source": "allocationTimestamp",
        "start_uncertainty_us": 0, "ended_at": "2026-11-03T11:00:00.25Z", "end_source": "observed",
        "end_uncertainty_us": 0, "bound": "tenant", "project": "protein-folding",
        "request": "6e0a2f0e-6a0c-4b53-9d3a-0d1f6f7f8a11", "namespace": "protein-folding",
        "claim": "protein-folding-6e0a2f0e", "claim_uid": "0a7d…", "epoch": 1, "person": "rhea",
        "consumers": ["train-0"],
        "stays": [
            {"name": "train-0", "uid": "41c0…", "resource": "pods", "joined_at": "2026-11-03T09:00:01Z",
             "left_at": "2026-11-03T11:00:00.25Z", "containers": ["train"]},
        ],
        "physical_devices": [],
        "use_mean_percent": 37.5, "use_highest_percent": 99.0, "use_measured_seconds": 6900.0,
    }]},
    response_only=True,
    media_type="application/json",
)  # fmt: skip
_FILTERS = (
    (
        "from",
        "What was held at this time or later: a date, in the organisation's time zone, or an ISO 8601 time.",
    ),
    ("to", "What was held before: a date includes that day, a time is exclusive."),
    ("project", "Slug."),
    ("cluster", "Name."),
    ("product", "Product."),
    ("class", "DeviceClass."),
    ("device", "Device name or hardware id."),
    ("node", "Node name."),
    (
        "pool",
        "Name of the device's pool; with `driver` and `device` one device, also where it is on no node.",
    ),
    ("driver", "Name of the driver."),
    ("person", "User name of who made the request; only among claims that the caller may see."),
    ("request", "Key of a request, likewise."),
    ("pod", "Name or uid of a Pod that used it, likewise."),
)
# What is told of allocations one by one only.
_ONLY_SINGLE = ("device", "node", "pool", "driver", "request", "pod", "kind", "running")

_PARAMETERS = [
    held.GROUP_BY,
    *(OpenApiParameter(name, description=text) for name, text in _FILTERS),
    OpenApiParameter("kind", enum=Allocation.Kind.values, description="Only claims, or only units."),
    OpenApiParameter("running", OpenApiTypes.BOOL, description="Only what is held now."),
    *held.ONLY_GROUPED,
    OpenApiParameter(
        "format",
        enum=["json", "csv", "ndjson"],
        description="`csv` and `ndjson` stream all rows at once; `Accept` may ask for them, too.",
    ),
    OpenApiParameter(
        "If-None-Match",
        location=OpenApiParameter.HEADER,
        description="The `ETag` of an earlier answer: 304 where nothing has changed since.",
    ),
]
_PAGES = [
    OpenApiParameter(CursorPages.page_size_query_param, OpenApiTypes.INT, description="Rows of a page; 100, "
                     "at most 1000."),
    OpenApiParameter(CursorPages.cursor_query_param, description="Where a page begins: as `next` has it."),
]  # fmt: skip


class AllocationListView(ApiListView):
    """Who held which device from when to when, newest first. Any caller sees devices and projects; claims,
    Pods and persons only members of the project, administrators and auditors. Put together by `group_by`:
    what the caller may see the cost of."""

    required_scope = ApiToken.Scope.CHARGEBACK
    serializer_class = AllocationsOut
    ordering = ("-started_at", "-id")
    renderer_classes = RENDERERS
    content_negotiation_class = Formats

    def get_queryset(self) -> QuerySet[Allocation]:
        if getattr(self, "swagger_fake_view", False):
            return Allocation.objects.none()
        return allocations(self._wanted(), viewer=self.person)

    def in_parts(self, queryset: QuerySet[Allocation]) -> list[QuerySet[Allocation]]:
        return newest_first(queryset, start=self._wanted().start)

    def _wanted(self) -> HistoryFilter:
        wanted = HistoryFilter.parse(self.request.query_params, zone=zone_named(settings.ORGANISATION_ZONE))
        if wanted.errors:
            raise exceptions.ValidationError({name: [said] for name, said in wanted.errors.items()})
        return wanted

    @extend_schema(
        tags=["chargeback"],
        operation_id="allocations_list",
        parameters=[*_PARAMETERS, *_PAGES],
        responses=answers(_ANSWER),
        examples=[_EXAMPLE, held.EXAMPLE],
    )
    def get(self, request: ApiRequest, *_args: Any, **_kwargs: Any) -> Any:
        """What was held, newest first, or put together; as JSON page by page, as CSV or NDJSON all of it."""
        refuse_unknown(request, [*_PARAMETERS, *_PAGES])
        if held.is_put_together(request, only_single=_ONLY_SINGLE):
            return held.put_together(request, viewer=self.person)
        self._wanted()
        etag = etag_of(request.get_full_path(), request.accepted_renderer.format, version(self.person))
        if (known := not_modified(request, etag)) is not None:
            return known
        response: Response | StreamingHttpResponse
        if is_streamed(request):
            rows = each(self.in_parts(self.get_queryset()), chunk_size=FETCH)
            response = streamed(request, self._told(rows), columns=COLUMNS, name="allocations")
        else:
            page: Sequence[Allocation] = self.paginate_queryset(self.get_queryset()) or []
            response = self.get_paginated_response(list(self._told(page)))
        response["ETag"] = etag
        return response

    def _told(self, rows: Iterable[Allocation]) -> Iterator[dict[str, Any]]:
        return (told(row) for row in seen_by(rows, viewer=self.person, now=timezone.now()))


def told(row: HistoryRow) -> dict[str, Any]:
    """One interval as one reader may see it, as it stands in JSON."""
    one = row.allocation
    return {
        "id": one.pk,
        "kind": one.kind,
        "cluster": one.cluster.name,
        "node": one.node_name,
        "driver": one.driver,
        "pool": one.pool_name,
        "device": one.device_name,
        "share_id": one.share_id,
        "hardware_id": one.hardware_id,
        "product": one.product,
        "profile": one.profile_digest,
        "device_class": one.device_class,
        "extended_resource": one.extended_resource,
        "units": one.units,
        "replicas": one.replicas,
        "consumed_capacity": one.consumed_capacity,
        "capacity": one.capacity,
        "counters": one.counters,
        "admin_access": one.admin_access,
        "contested": one.contested,
        "started_at": utc(one.started_at),
        "start_source": one.start_source,
        "start_uncertainty_us": one.start_uncertainty_us,
        "ended_at": utc(one.ended_at),
        "end_source": one.end_source,
        "end_uncertainty_us": one.end_uncertainty_us,
        "bound": one.bound,
        "project": row.project.slug if row.project else None,
        "request": row.request_key or None,
        "namespace": row.namespace,
        "claim": row.claim,
        "claim_uid": one.claim_uid if row.visible else "",
        "epoch": one.epoch,
        "person": row.person,
        "consumers": row.consumers,
        "stays": [
            {
                "name": stay.name,
                "uid": stay.uid,
                "resource": stay.resource,
                "joined_at": utc(stay.joined),
                "left_at": utc(stay.left),
                "containers": stay.containers,
            }
            for stay in row.stays
        ],
        "physical_devices": [_physical(named, one) for named in row.physical],
        "use_mean_percent": round(row.use.mean, 2) if row.use else None,
        "use_highest_percent": round(row.use.highest, 2) if row.use else None,
        "use_measured_seconds": row.use.measured.total_seconds() if row.use else None,
    }


def _physical(named: NamedDevice, allocation: Allocation) -> dict[str, Any]:
    times = ("seen_from", "seen_until", "gone_at")
    said = as_json(named, ended_at=allocation.ended_at)
    return said | {name: utc(said[name]) for name in times}
