"""REST of statements: the list of a month or of several, put together by what the caller names, and one
project's month line by line with its state and digest.

What a person may not see, their token may not see.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.http.response import HttpResponseBase
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import exceptions, serializers
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims.models import Charge, Statement
from claims.money import stated
from claims.money.months import Month, NoMonth, zone_named
from claims.money.statements import Line, Overview, told_of
from claims.money.usage import NOBODY, totals
from claims.rest.answers import AmountOut, ProblemOut, refuse_unknown
from claims.rest.cursors import carried, counted_until, page_of
from claims.rest.streams import RENDERERS, Formats, etag_of, is_streamed, not_modified, streamed, utc
from claims.rest.usage import (
    FORMAT,
    MEASURED,
    PAGES,
    answers,
    as_json,
    exact_parts,
    group_row,
    sums,
    written,
)
from claims.rest.usage_answers import QuantityOut, UsageRowOut
from portal import access, money
from portal.accounts.models import ApiToken, Project
from portal.api import ApiView


class StatementOut(serializers.Serializer[Any]):
    project = serializers.CharField(
        allow_null=True, help_text="Null: what nobody is known to pay, idle time."
    )
    state = serializers.ChoiceField(choices=Statement.State.choices)
    totals = AmountOut(many=True)
    unpriced = serializers.BooleanField(help_text="Something had no price.")


class StatementRowOut(StatementOut):
    """A statement; with `group_by` what lines of statements come to, as in `/usage/`."""

    def get_fields(self) -> dict[str, Any]:
        fields = super().get_fields()
        groups = UsageRowOut().get_fields()
        own = (*stated.DIMENSIONS, *MEASURED)
        fields |= {name: groups[name] for name in own if name not in fields}
        for name, field in fields.items():
            field.required = False
            if name in ("month", "state"):
                field.help_text = ""
        return fields


class StatementsOut(serializers.Serializer[Any]):
    month = serializers.CharField(allow_null=True, help_text="Null: of several.")
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    group_by = serializers.ListField(child=serializers.CharField())
    next = serializers.URLField(allow_null=True)
    results = StatementRowOut(many=True)
    totals = AmountOut(many=True, help_text="Of all pages: what these statements come to.")
    quantities = QuantityOut(many=True, allow_null=True, help_text="With `group_by`: of all pages.")


class StatementLineOut(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(choices=Charge.Kind.choices)
    cost_centre = serializers.CharField()
    device_class = serializers.CharField()
    product = serializers.CharField()
    use = serializers.CharField()
    unit = serializers.CharField()
    per = serializers.CharField()
    unit_hours = serializers.CharField()
    list_price = serializers.CharField(allow_null=True)
    percent_off = serializers.CharField()
    price = serializers.CharField(allow_null=True)
    currency = serializers.CharField(allow_null=True)
    amount = serializers.CharField(allow_null=True, help_text="The lines of a currency add up to its total.")
    exact_numerator = serializers.CharField(allow_null=True)
    exact_denominator = serializers.CharField(allow_null=True)
    note = serializers.CharField()


class StatementDetailOut(StatementOut):
    month = serializers.CharField()
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    closed_at = serializers.DateTimeField(allow_null=True)
    digest = serializers.CharField(help_text="SHA-256 over lines and charges once it is closed; else empty.")
    lines = StatementLineOut(many=True)


_MONTH = OpenApiParameter(
    "month", description="Such as 2026-03; with neither this nor `from` or `to` the month before this one."
)
_LIST = [
    _MONTH,
    OpenApiParameter("from", description="A date in the organisation's time zone, or an ISO 8601 time: of "
                     "every month that the period touches."),
    OpenApiParameter("to", description="The same; a date includes that day."),
    OpenApiParameter("project", description="Slug; `unattributed`: what nobody is known to pay for."),
    OpenApiParameter("state", enum=Statement.State.values, description="Only statements in this state."),
    OpenApiParameter(
        "group_by",
        description="Adds up lines of statements, as they are rounded there: names with commas between, of "
        f"{', '.join(stated.DIMENSIONS)}.",
    ),
    OpenApiParameter("limit", OpenApiTypes.INT, description="Rows of a page, at most 1000; without it and "
                     "`cursor` all of them."),
    *PAGES[1:],
    *FORMAT,
]  # fmt: skip
_COLUMNS = ("month", "project", "state", "currency", "amount", "unpriced")
_LINE_COLUMNS = ("month", "state", "project", *StatementLineOut().fields)
_EXAMPLES = [
    OpenApiExample(
        "A month",
        value={
            "month": "2026-03", "start": "2026-03-01T00:00:00Z", "end": "2026-04-01T00:00:00Z",
            "group_by": [], "next": None,
            "results": [
                {"month": "2026-03", "project": "protein-folding", "state": "closed", "unpriced": False,
                 "totals": [{"currency": "EUR", "amount": "5.00"}]},
            ],
            "totals": [{"currency": "EUR", "amount": "5.00"}], "quantities": None,
        },
        response_only=True,
        media_type="application/json",
    ),
    OpenApiExample(
        "A quarter by cost centre",
        value={
            "month": None, "start": "2026-01-01T00:00:00Z", "end": "2026-04-01T00:00:00Z",
            "group_by": ["cost_centre"], "next": None,
            "results": [
                {"cost_centre": "4711", "unit": "device", "per": "", "unit_hours": "2.000000",
                 "currency": "EUR", "amount": "5.00", "exact_numerator": "5", "exact_denominator": "1"},
            ],
            "totals": [{"currency": "EUR", "amount": "5.00"}],
            "quantities": [{"unit": "device", "per": "", "unit_hours": "2.000000"}],
        },
        response_only=True,
        media_type="application/json",
    ),
]  # fmt: skip


_DETAIL = OpenApiExample(
    "A closed month",
    value={
        "project": "protein-folding", "state": "closed", "totals": [{"currency": "EUR", "amount": "5.00"}],
        "unpriced": False, "month": "2026-03", "start": "2026-03-01T00:00:00Z",
        "end": "2026-04-01T00:00:00Z", "closed_at": "2026-04-02T09:00:00Z",
        "digest": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "lines": [
            {"kind": "usage", "cost_centre": "4711", "device_class": "gpu.example.com",
             "product": "Accelerator 80", "use": "held", "unit": "device", "per": "",
             "unit_hours": "2.000000", "list_price": "2.50", "percent_off": "0", "price": "2.50",
             "currency": "EUR", "amount": "5.00", "exact_numerator": "5", "exact_denominator": "1",
             "note": ""},
        ],
    },
    response_only=True,
    media_type="application/json",
)  # fmt: skip


class StatementListView(ApiView):
    """Statements of a month, or of several: of every project for finance, else of the caller's."""

    required_scope = ApiToken.Scope.CHARGEBACK
    renderer_classes = RENDERERS
    content_negotiation_class = Formats

    @extend_schema(
        tags=["chargeback"],
        parameters=_LIST,
        responses=answers(StatementsOut),
        examples=_EXAMPLES,
    )
    def get(self, request: ApiRequest) -> HttpResponseBase:
        """Each by itself, or their lines put together by `group_by`; as CSV and NDJSON all of them."""
        refuse_unknown(request, _LIST)
        now, zone = counted_until(request), zone_named(settings.ORGANISATION_ZONE)
        asked = stated.Asked.parse(request.query_params, now=now, zone=zone)
        if asked.errors:
            raise exceptions.ValidationError({name: [said] for name, said in asked.errors.items()})
        common: dict[str, Any] = {"viewer": self.person, "zone": zone, "now": now}
        if asked.group_by:
            groups = stated.put_together(asked, **common)
            rows = [group_row(row, asked.group_by) for row in groups]
            return self._answer(
                request, asked, rows, columns=(*asked.group_by, *MEASURED), now=now,
                came_to={c: minor for c, (minor, _exact) in totals(groups).items()},
                quantities=sums(groups)["quantities"],
                keys=[[*row.key.groups, *row.key[1:]] for row in groups],
            )  # fmt: skip
        found = stated.statements_of(asked, **common)
        came_to: dict[str, int] = {}
        for _month, told in found:
            for currency, amount in told.totals.items():
                came_to[currency] = came_to.get(currency, 0) + money.minor_units(amount, currency=currency)
        return self._answer(
            request, asked, [_told(month, told) for month, told in found], columns=_COLUMNS, now=now,
            came_to=came_to, quantities=None, keys=[stated.key_of(row) for row in found],
        )  # fmt: skip

    def _answer(
        self,
        request: ApiRequest,
        asked: stated.Asked,
        rows: list[dict[str, Any]],
        *,
        now: datetime,
        columns: tuple[str, ...],
        came_to: Mapping[str, int],
        quantities: list[dict[str, str]] | None,
        keys: list[list[str]],
    ) -> HttpResponseBase:
        """A page or all of the rows; 304 to who has them."""
        etag = etag_of(
            request.get_full_path(), request.accepted_renderer.format, rows, sorted(came_to.items())
        )
        if (known := not_modified(request, etag)) is not None:
            return known
        response: HttpResponseBase
        if is_streamed(request):
            flat = request.accepted_renderer.format == "csv" and not asked.group_by
            told = (cells for row in rows for cells in (_cells(row) if flat else [row]))
            response = streamed(request, written(request, told), columns=columns, name="statements")
        else:
            page, following = list(zip(keys, rows, strict=True)), None
            if request.query_params.get("limit") or request.query_params.get("cursor"):
                some, following = page_of(request, page, key=lambda pair: pair[0])
                page = list(some)
            zone = zone_named(settings.ORGANISATION_ZONE)
            response = Response(
                {
                    "month": str(asked.months[0]) if len(asked.months) == 1 else None,
                    "start": utc(asked.months[0].start(zone)),
                    "end": utc(asked.months[-1].bounds(zone)[1]),
                    "group_by": list(asked.group_by),
                    "next": carried(following, now),
                    "results": [as_json(row) for _key, row in page],
                    "totals": _totals(
                        {c: money.from_minor_units(minor, currency=c) for c, minor in came_to.items()}
                    ),
                    "quantities": quantities,
                }
            )
        response["ETag"] = etag
        return response


class StatementDetailView(ApiView):
    """One project's month."""

    required_scope = ApiToken.Scope.CHARGEBACK
    renderer_classes = RENDERERS
    content_negotiation_class = Formats

    @extend_schema(
        tags=["chargeback"],
        parameters=FORMAT,
        responses=answers(StatementDetailOut),
        examples=[_DETAIL],
    )
    def get(self, request: ApiRequest, month: str, slug: str) -> HttpResponseBase:
        """Its lines as they are now, or as they were closed."""
        return _detail(request, access.get_project_or_404(self.person, slug), month)


class StatementNobodyView(ApiView):
    """A month of what nobody is known to pay for, and of idle time."""

    required_scope = ApiToken.Scope.CHARGEBACK
    renderer_classes = RENDERERS
    content_negotiation_class = Formats

    @extend_schema(
        tags=["chargeback"],
        parameters=FORMAT,
        responses={**answers(StatementDetailOut), 403: ProblemOut},
        examples=[_DETAIL],
    )
    def get(self, request: ApiRequest, month: str) -> HttpResponseBase:
        """Its lines; for those who see all costs."""
        if not access.may_see_costs_of_all(self.person):
            raise exceptions.PermissionDenied
        return _detail(request, None, month)


def _detail(request: ApiRequest, project: Project | None, text: str) -> HttpResponseBase:
    refuse_unknown(request, FORMAT)
    month = _month(text[:40]) or Month(1970, 1)
    bounds = month.bounds(zone_named(settings.ORGANISATION_ZONE))
    told = told_of(project=project, month=month, bounds=bounds, now=timezone.now())
    body = {
        "project": project.slug if project else None,
        "month": str(month),
        "start": utc(told.starts_at),
        "end": utc(told.ends_at),
        "state": told.state,
        "closed_at": utc(told.row.closed_at) if told.row else None,
        "digest": told.row.digest if told.row else "",
        "totals": _totals(told.totals),
        "unpriced": told.unpriced,
        "lines": [as_json(_line(line)) for line in told.lines],
    }
    etag = etag_of(request.get_full_path(), request.accepted_renderer.format, body)
    if (known := not_modified(request, etag)) is not None:
        return known
    response: HttpResponseBase = Response(body)
    if is_streamed(request):
        of = {"month": str(month), "state": told.state, "project": project.slug if project else None}
        name = f"statement-{month}-{project.slug if project else NOBODY}"
        rows = written(request, (of | _line(line) for line in told.lines))
        response = streamed(request, rows, columns=_LINE_COLUMNS, name=name)
    response["ETag"] = etag
    return response


def _told(month: Month, row: Overview) -> dict[str, Any]:
    return {
        "month": str(month),
        "project": row.project.slug if row.project else None,
        "state": row.state,
        "totals": _totals(row.totals),
        "unpriced": row.unpriced,
    }


def _cells(row: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """A statement as lines of a table, one for each currency."""
    for told in row["totals"] or [{"currency": None, "amount": None}]:
        amount = None if told["amount"] is None else Decimal(told["amount"])
        yield {**row, "currency": told["currency"], "amount": amount}


def _month(text: str) -> Month | None:
    try:
        return Month.parse(text) if text else None
    except NoMonth as error:
        raise exceptions.ValidationError({"month": [str(error)]}) from None


def _totals(totals: Mapping[str, Decimal]) -> list[dict[str, str]]:
    return [{"currency": currency, "amount": f"{amount:f}"} for currency, amount in sorted(totals.items())]


def _line(line: Line) -> dict[str, Any]:
    """Amounts are numbers here, so that no file takes a credit for a text."""
    key = line.key
    return {
        "kind": key.kind,
        "cost_centre": key.cost_centre,
        "device_class": key.device_class,
        "product": key.product,
        "use": key.use,
        "unit": key.unit,
        "per": key.per,
        "unit_hours": line.hours_text,
        "list_price": line.list_price or None,
        "percent_off": f"{line.percent:f}",
        "price": line.price or None,
        "currency": key.currency or None,
        "amount": line.amount,
        **exact_parts(line.exact),
        "note": key.note,
    }
