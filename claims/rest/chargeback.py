"""REST of costs straight from the ledger: what was used up to this very moment, by the prices of now, before
it is rated. What `/charges/` answers is what is billed.

What a person may not see, their token may not see.
"""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.http import Http404
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import exceptions, serializers
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims.money.charges import charges
from claims.money.costs import Period, visible_projects
from claims.money.months import zone_named
from claims.money.pricing import Statement
from claims.rest.answers import AmountOut, ProblemOut, refuse_unknown, totals_of
from claims.rest.streams import Formats
from portal import access
from portal.accounts.models import ApiToken
from portal.api import ApiView

Scope = ApiToken.Scope


class ChargeLineOut(serializers.Serializer[Any]):
    project = serializers.CharField(allow_null=True, help_text="Null: unattributed.")
    device_class = serializers.CharField()
    product = serializers.CharField()
    unit = serializers.CharField(help_text="What is counted: `device`, `capacity` or `counters`.")
    per = serializers.CharField(help_text='Of a capacity how much is one unit, such as "1Gi"; else empty.')
    unit_hours = serializers.CharField(help_text="A decimal with six places.")
    device_hours = serializers.CharField(
        help_text="The former name of `unit_hours`: device-hours only where `unit` is `device`."
    )
    price_per_device_hour = serializers.CharField(
        allow_null=True, help_text="Per unit and hour, by its former name. Null: no price."
    )
    currency = serializers.CharField()
    amount = serializers.CharField(
        allow_null=True, help_text="Rounded so that the lines of a currency add up to its total."
    )
    exact_numerator = serializers.CharField(allow_null=True)
    exact_denominator = serializers.CharField(allow_null=True)
    running = serializers.IntegerField(help_text="How many allocations of the line still run.")


class ChargeLinesOut(serializers.Serializer[Any]):
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    as_of = serializers.DateTimeField(help_text="What still runs is counted up to here.")
    lines = ChargeLineOut(many=True)
    totals = AmountOut(many=True)


_PARAMETERS = [
    OpenApiParameter("from", description="A date, in the organisation's time zone, or an ISO 8601 time."),
    OpenApiParameter("to", description="The same; a date includes that day, a time is exclusive."),
    OpenApiParameter("project", description="Slug; without it all that one may see."),
]


class ChargesView(ApiView):
    """What was used in a period and what it costs, by project, class, product and price: straight from the
    ledger, at this moment."""

    required_scope = Scope.CHARGEBACK
    content_negotiation_class = Formats

    @extend_schema(
        tags=["chargeback"],
        parameters=_PARAMETERS,
        responses={200: ChargeLinesOut, 400: ProblemOut, 404: ProblemOut},
    )
    def get(self, request: ApiRequest) -> Response:
        refuse_unknown(request, _PARAMETERS)
        now, user = timezone.now(), self.person
        period = Period.parse(request.query_params, now=now, zone=zone_named(settings.ORGANISATION_ZONE))
        if period.errors:
            raise exceptions.ValidationError({name: [said] for name, said in period.errors.items()})
        projects = {project.pk: project for project in visible_projects(user)}
        slug = request.query_params.get("project", "")
        chosen = [pk for pk, project in projects.items() if project.slug == slug] if slug else list(projects)
        if slug and not chosen:
            raise Http404
        everything = not slug and access.may_see_costs_of_all(user)
        told = charges(start=period.start, end=period.end, now=now, projects=None if everything else chosen)
        slugs = {pk: project.slug for pk, project in projects.items()}
        return Response(ChargeLinesOut(_charges(told, slugs) | {"as_of": now}).data)


# --- from domain to answer -------------------------------------------------------------------------


def _charges(told: Statement, slugs: Mapping[int, str]) -> dict[str, Any]:
    return {
        "start": told.start,
        "end": told.end,
        "lines": [
            {
                "project": slugs.get(line.project_id) if line.project_id is not None else None,
                "device_class": line.device_class,
                "product": line.product,
                "unit": line.unit,
                "per": line.per,
                "unit_hours": line.hours_text,
                "device_hours": line.hours_text,
                "price_per_device_hour": line.price or None,
                "currency": line.currency,
                "amount": None if line.amount is None else str(line.amount),
                "exact_numerator": None if line.exact is None else str(line.exact.numerator),
                "exact_denominator": None if line.exact is None else str(line.exact.denominator),
                "running": line.running,
            }
            for line in told.lines
        ],
        "totals": totals_of(told),
    }
