"""REST of statements: a month's list, and one project's month line by line with its state and digest.

What a person may not see, their token may not see.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import exceptions, serializers
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims.models import Charge, Statement
from claims.money.months import Month, NoMonth, zone_named
from claims.money.statements import Line, overview, told_of, visible
from claims.rest.answers import AmountOut, ProblemOut, refuse_unknown
from claims.rest.streams import Formats, etag_of, not_modified, utc
from portal import access
from portal.accounts.models import ApiToken, Project
from portal.api import ApiView


class StatementOut(serializers.Serializer[Any]):
    project = serializers.CharField(
        allow_null=True, help_text="Null: what nobody is known to pay, idle time."
    )
    state = serializers.ChoiceField(choices=Statement.State.choices)
    totals = AmountOut(many=True)
    unpriced = serializers.BooleanField(help_text="Something had no price.")


class StatementsOut(serializers.Serializer[Any]):
    month = serializers.CharField()
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    results = StatementOut(many=True)


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


_MONTH = OpenApiParameter("month", description="Such as 2026-03; without it the month before this one.")
_ETAG = OpenApiParameter(
    "If-None-Match",
    location=OpenApiParameter.HEADER,
    description="The `ETag` of an earlier answer: 304 where nothing has changed since.",
)
_UNCHANGED = OpenApiResponse(description="Nothing has changed.")


class StatementListView(ApiView):
    """The statements of a month: of every project for finance, else of the caller's."""

    required_scope = ApiToken.Scope.CHARGEBACK
    content_negotiation_class = Formats

    @extend_schema(
        tags=["chargeback"],
        parameters=[_MONTH, _ETAG],
        responses={200: StatementsOut, 304: _UNCHANGED, 400: ProblemOut},
    )
    def get(self, request: ApiRequest) -> Response:
        refuse_unknown(request, [_MONTH])
        now, zone = timezone.now(), zone_named(settings.ORGANISATION_ZONE)
        month = _month(request.query_params.get("month", "")[:40]) or Month.of(now, zone).previous()
        bounds = month.bounds(zone)
        rows = overview(
            month=month,
            projects=visible(self.person, month=month),
            unattributed=access.may_see_costs_of_all(self.person),
            zone=zone,
            now=now,
        )
        results = [
            {
                "project": row.project.slug if row.project else None,
                "state": row.state,
                "totals": _totals(row.totals),
                "unpriced": row.unpriced,
            }
            for row in rows
        ]
        return _answer(
            request,
            {"month": str(month), "start": utc(bounds[0]), "end": utc(bounds[1]), "results": results},
        )


class StatementDetailView(ApiView):
    """One project's month."""

    required_scope = ApiToken.Scope.CHARGEBACK
    content_negotiation_class = Formats

    @extend_schema(
        tags=["chargeback"],
        parameters=[_ETAG],
        responses={200: StatementDetailOut, 304: _UNCHANGED, 400: ProblemOut, 404: ProblemOut},
    )
    def get(self, request: ApiRequest, month: str, slug: str) -> Response:
        """Its lines as they are now, or as they were closed."""
        return _detail(request, access.get_project_or_404(self.person, slug), month)


class StatementNobodyView(ApiView):
    """A month of what nobody is known to pay for, and of idle time."""

    required_scope = ApiToken.Scope.CHARGEBACK
    content_negotiation_class = Formats

    @extend_schema(
        tags=["chargeback"],
        parameters=[_ETAG],
        responses={200: StatementDetailOut, 304: _UNCHANGED, 400: ProblemOut, 403: ProblemOut},
    )
    def get(self, request: ApiRequest, month: str) -> Response:
        """Its lines; for those who see all costs."""
        if not access.may_see_costs_of_all(self.person):
            raise exceptions.PermissionDenied
        return _detail(request, None, month)


def _detail(request: ApiRequest, project: Project | None, text: str) -> Response:
    month = _month(text[:40]) or Month(1970, 1)
    bounds = month.bounds(zone_named(settings.ORGANISATION_ZONE))
    told = told_of(project=project, month=month, bounds=bounds, now=timezone.now())
    return _answer(
        request,
        {
            "project": project.slug if project else None,
            "month": str(month),
            "start": utc(told.starts_at),
            "end": utc(told.ends_at),
            "state": told.state,
            "closed_at": utc(told.row.closed_at) if told.row else None,
            "digest": told.row.digest if told.row else "",
            "totals": _totals(told.totals),
            "unpriced": told.unpriced,
            "lines": [_line(line) for line in told.lines],
        },
    )


def _answer(request: ApiRequest, body: Mapping[str, Any]) -> Response:
    etag = etag_of(request.get_full_path(), body)
    return not_modified(request, etag) or Response(body, headers={"ETag": etag})


def _month(text: str) -> Month | None:
    try:
        return Month.parse(text) if text else None
    except NoMonth as error:
        raise exceptions.ValidationError({"month": [str(error)]}) from None


def _totals(totals: Mapping[str, Decimal]) -> list[dict[str, str]]:
    return [{"currency": currency, "amount": f"{amount:f}"} for currency, amount in sorted(totals.items())]


def _line(line: Line) -> dict[str, Any]:
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
        "amount": None if line.amount is None else f"{line.amount:f}",
        "exact_numerator": None if line.exact is None else str(line.exact.numerator),
        "exact_denominator": None if line.exact is None else str(line.exact.denominator),
        "note": key.note,
    }
