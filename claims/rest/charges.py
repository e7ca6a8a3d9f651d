"""REST of charges: one by one, each a stretch of time at one rate or a fixed amount, or put together by what
the caller names, as `/usage/` has them. However they are asked for, they come to the same.
"""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.utils import timezone
from drf_spectacular.helpers import forced_singular_serializer
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims.history.curves import moment, us
from claims.models import Charge
from claims.money.usage import Wanted, charges_of, hours, rows_of
from claims.money.versions import version
from claims.rest.cursors import carried, counted_until
from claims.rest.streams import RENDERERS, Formats, etag_of, is_streamed, not_modified, streamed, utc
from claims.rest.usage import (
    FILTERS,
    FORMAT,
    GROUP_BY,
    PAGES,
    answers,
    as_json,
    exact_parts,
    frame,
    put_together,
    sums,
    wanted_of,
    written,
)
from claims.rest.usage_answers import ChargeRowOut, ChargesOut
from portal.accounts.models import ApiToken
from portal.api import ApiListView, CursorPages

FETCH = 2_000
CHARGE_COLUMNS = tuple(ChargeRowOut().fields)
_EXAMPLE = OpenApiExample(
    "Charges one by one",
    value={
        "start": "2026-03-01T00:00:00Z", "end": "2026-04-01T00:00:00Z", "as_of": "2026-04-01T00:00:00Z",
        "billed": None, "group_by": [], "next": None, "previous": None,
        "results": [
            {"id": 4711, "kind": "usage", "billed": "2026-03", "closed": True,
             "start": "2026-03-02T09:00:00Z", "end": "2026-03-02T11:00:00Z", "project": "protein-folding",
             "cost_centre": "4711", "person": "rhea", "cluster": "main", "driver": "gpu.example.com",
             "pool": "node-7", "device": "gpu-3", "hardware_id": "GPU-8a10b6f7",
             "device_class": "gpu.example.com", "product": "Accelerator 80", "profile": "5f1c",
             "use": "held", "unit": "device", "per": "", "quantity": "1", "unit_hours": "2.000000",
             "list_price": "2.500000", "percent_off": "0.0000", "currency": "EUR", "amount": "5.000000",
             "exact_numerator": "5", "exact_denominator": "1", "corrects": None, "note": ""},
        ],
        "totals": [
            {"currency": "EUR", "amount": "5.00", "exact_numerator": "5", "exact_denominator": "1"},
        ],
        "quantities": [{"unit": "device", "per": "", "unit_hours": "2.000000"}],
    },
    response_only=True,
    media_type="application/json",
)  # fmt: skip


# What a page is, is said by itself.
_ANSWER = forced_singular_serializer(ChargesOut)  # type: ignore[no-untyped-call] # has no types


class ChargeListView(ApiListView):
    """What was charged: each charge by itself, the earliest first, or put together by `group_by`."""

    required_scope = ApiToken.Scope.CHARGEBACK
    serializer_class = ChargesOut
    pagination_class = CursorPages
    ordering = ("started_us", "id")
    renderer_classes = RENDERERS
    content_negotiation_class = Formats

    def get_queryset(self) -> QuerySet[Charge]:
        now = timezone.now()
        return self._rows(wanted_of(self.request, now), now)

    def _rows(self, wanted: Wanted, now: datetime) -> QuerySet[Charge]:
        rows = charges_of(wanted, viewer=self.person, now=now).select_related("project", "cluster")
        return rows.defer("cluster__kubeconfig_encrypted").order_by(*self.ordering)

    @extend_schema(
        tags=["chargeback"],
        operation_id="charges_retrieve",
        parameters=[GROUP_BY, *FILTERS, *PAGES, *FORMAT],
        responses=answers(_ANSWER),
        examples=[_EXAMPLE],
    )
    def get(self, request: ApiRequest, *_args: Any, **_kwargs: Any) -> Any:
        """Charges of the period; as JSON page by page, as CSV or NDJSON all of them. The first page tells
        what all pages come to."""
        now = counted_until(request)
        wanted = wanted_of(request, now)
        if wanted.group_by:
            return put_together(request, wanted, viewer=self.person, now=now, name="charges")
        etag = etag_of(
            request.get_full_path(), request.accepted_renderer.format,
            version(wanted, viewer=self.person, now=now),
        )  # fmt: skip
        if (known := not_modified(request, etag)) is not None:
            return known
        rows, period = self._rows(wanted, now), (us(wanted.period.start), wanted.end_us(now))
        response: Response | StreamingHttpResponse
        if is_streamed(request):
            one_by_one = (charge_row(row, period) for row in rows.iterator(chunk_size=FETCH))
            response = streamed(request, written(request, one_by_one), columns=CHARGE_COLUMNS, name="charges")
        else:
            page: Sequence[Charge] = self.paginate_queryset(rows) or []
            answer: Response = self.get_paginated_response([as_json(charge_row(row, period)) for row in page])
            told = frame(wanted, now=now) | answer.data
            told |= {name: carried(told[name], now) for name in ("next", "previous")}
            told |= {"totals": None, "quantities": None}
            if not request.query_params.get(CursorPages.cursor_query_param):
                told |= sums(rows_of(wanted, viewer=self.person, now=now))
            response = Response(told)
        response["ETag"] = etag
        return response


class ChargeRowListView(ChargeListView):
    """The former address of `/charges/`, which answers the same."""

    @extend_schema(
        tags=["chargeback"],
        operation_id="charge_rows_retrieve",
        parameters=[GROUP_BY, *FILTERS, *PAGES, *FORMAT],
        responses=answers(_ANSWER),
        deprecated=True,
    )
    def get(self, request: ApiRequest, *args: Any, **kwargs: Any) -> Any:
        """Ask `/api/v1/charges/` instead."""
        return super().get(request, *args, **kwargs)


def charge_row(row: Charge, period: tuple[int, int]) -> dict[str, Any]:
    """One charge within [start, end), in microseconds since 1970. `row` is one of `charges_of`."""
    timed = row.fixed is None
    start = max(row.started_us, period[0]) if timed else row.started_us
    end = max(start, min(row.ended_us, period[1])) if timed else row.ended_us
    exact = row.amount(start_us=period[0], end_us=period[1])
    return {
        "id": row.pk,
        "kind": row.kind,
        "billed": row.month,
        "closed": row.closed,
        "start": utc(moment(start)),
        "end": utc(moment(end)),
        "project": row.project.slug if row.project else None,
        "cost_centre": row.cost_centre,
        "person": row.who,  # type: ignore[attr-defined] # annotated by charges_of
        "cluster": row.cluster.name if row.cluster else "",
        "driver": row.driver,
        "pool": row.pool_name,
        "device": row.device_name,
        "hardware_id": row.hardware_id,
        "device_class": row.device_class,
        "product": row.product,
        "profile": row.profile_digest,
        "use": row.use,
        "unit": row.unit,
        "per": row.per,
        "quantity": str(row.quantity),
        "unit_hours": hours(row.quantity * (end - start) if timed else Fraction(0)),
        "list_price": row.list_price,
        "percent_off": Decimal(row.discount_micros).scaleb(-4),
        "currency": row.currency or None,
        "amount": None if exact is None else Decimal(round(exact * 10**6)).scaleb(-6),
        **exact_parts(exact),
        "corrects": row.origin_id,
        "note": row.note,
    }
