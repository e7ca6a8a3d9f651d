"""REST of budgets: what projects mean to spend in a month, how much of it is spent, what it will come to.

Whoever may know of a project may read; its leads set. The forecast is the page's (`claims.money.budgets`).
"""

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.utils import timezone
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims.models import Budget
from claims.money import budgets, reconciling
from claims.money.budgets import Forecast, Standing, UnableToBudget
from claims.money.months import Month, zone_named
from claims.rest.answers import ProblemOut
from portal import access
from portal.accounts.audit import source_ip
from portal.accounts.models import ApiToken, Project
from portal.api import ApiView, Problem

Scope = ApiToken.Scope
# Each is reckoned from what its project used.
MOST = 500


class ForecastOut(serializers.Serializer[Any]):
    currency = serializers.CharField()
    spent = serializers.CharField(help_text="This month, up to now.")
    expected = serializers.CharField(help_text="At the month's end, if what is held now is held on.")


class BudgetOut(ForecastOut):
    project = serializers.CharField()
    amount = serializers.CharField(help_text="What the project means to spend in a month.")
    thresholds = serializers.ListField(
        child=serializers.IntegerField(), help_text="Percentages at which its leads are told."
    )
    blocks = serializers.BooleanField(help_text="Whether new requests are refused once it is spent.")
    percent = serializers.IntegerField(help_text="How much of it is spent, rounded down.")
    expected_percent = serializers.IntegerField()
    changed_at = serializers.DateTimeField()


class BudgetsOut(serializers.Serializer[Any]):
    month = serializers.CharField()
    results = BudgetOut(many=True)


class ProjectBudgetOut(serializers.Serializer[Any]):
    project = serializers.CharField()
    month = serializers.CharField()
    forecasts = ForecastOut(many=True, help_text="With a budget or without.")
    budgets = BudgetOut(many=True)


class BudgetIn(serializers.Serializer[Any]):
    amount = serializers.CharField(max_length=20, help_text="A decimal above 0.")
    thresholds = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=1000), required=False, max_length=10,
        help_text="Percentages at which the leads are told; 50, 80 and 100 unless said otherwise.",
    )  # fmt: skip
    blocks = serializers.BooleanField(required=False)


_TIDES = {
    "currency": "EUR", "spent": "410.20", "expected": "498.75", "project": "tides", "amount": "500.00",
    "thresholds": [80, 100], "blocks": False, "percent": 82, "expected_percent": 99,
    "changed_at": "2026-11-02T09:30:00Z",
}  # fmt: skip
_EXAMPLE = OpenApiExample(
    "A budget that will just do",
    value={
        "project": "tides", "month": "2026-11",
        "forecasts": [{name: _TIDES[name] for name in ("currency", "spent", "expected")}],
        "budgets": [_TIDES],
    },
    response_only=True,
)  # fmt: skip
_SET = OpenApiExample(
    "A budget that is kept to",
    value={"amount": "500.00", "thresholds": [80, 100], "blocks": True},
    request_only=True,
)
_CURRENCY = OpenApiParameter("currency", location=OpenApiParameter.PATH, description="ISO 4217, such as EUR.")


class BudgetListView(ApiView):
    """The budgets of the projects that the caller may know of."""

    required_scope = Scope.CHARGEBACK

    @extend_schema(tags=["chargeback"], operation_id="budgets_list", responses={200: BudgetsOut})
    def get(self, request: ApiRequest) -> Response:  # noqa: ARG002 - DRF's signature
        """The present month of each; of the first 500."""
        now, zone = timezone.now(), zone_named(settings.ORGANISATION_ZONE)
        projects = Project.objects.visible_to(self.person).filter(archived_at=None, budgets__isnull=False)
        chosen = list(projects.distinct().order_by("slug")[:MOST])
        told = budgets.standings_of(projects=chosen, zone=zone, now=now)
        return Response({"month": str(Month.of(now, zone)), "results": _told(told)})


class ProjectBudgetView(ApiView):
    """One project's month."""

    required_scope = Scope.CHARGEBACK

    @extend_schema(
        tags=["chargeback"], responses={200: ProjectBudgetOut, 404: ProblemOut}, examples=[_EXAMPLE]
    )
    def get(self, request: ApiRequest, slug: str) -> Response:  # noqa: ARG002 - DRF's signature
        """What is spent, what it will come to, and its budgets, one for each currency."""
        return Response(_project(access.get_project_or_404(self.person, slug)))


class BudgetDetailView(ApiView):
    """One project's budget in one currency, which its leads set."""

    required_scope = Scope.CHARGEBACK

    @extend_schema(
        tags=["chargeback"],
        parameters=[_CURRENCY],
        request=BudgetIn,
        responses={200: ProjectBudgetOut, 400: ProblemOut, 403: ProblemOut, 404: ProblemOut},
        examples=[_SET],
    )
    def put(self, request: ApiRequest, slug: str, currency: str) -> Response:
        """Set it."""
        project = access.get_project_or_404(self.person, slug, for_lead=True)
        read = BudgetIn(data=request.data)
        read.is_valid(raise_exception=True)
        try:
            minor = reconciling.read_minor(read.validated_data["amount"], currency=currency)
        except ValueError as error:
            raise Problem(str(error), code="invalid", field="amount", status_code=400) from None
        self._set(
            request, project, currency, minor,
            thresholds=read.validated_data.get("thresholds", budgets.THRESHOLDS),
            blocks=read.validated_data.get("blocks", False),
        )  # fmt: skip
        return Response(_project(project))

    @extend_schema(
        tags=["chargeback"],
        parameters=[_CURRENCY],
        responses={204: None, 400: ProblemOut, 403: ProblemOut, 404: ProblemOut},
    )
    def delete(self, request: ApiRequest, slug: str, currency: str) -> Response:
        """Take it away."""
        project = access.get_project_or_404(self.person, slug, for_lead=True)
        self._set(request, project, currency, None, thresholds=(), blocks=False)
        return Response(status=status.HTTP_204_NO_CONTENT)

    def _set(
        self, request: ApiRequest, project: Project, currency: str, minor: int | None, **said: Any
    ) -> None:
        try:
            budgets.set_budget(
                project=project,
                currency=currency,
                minor=minor,
                actor=self.person,
                now=timezone.now(),
                source_ip=source_ip(request),
                **said,
            )
        except UnableToBudget as unable:
            raise Problem(unable.message, code="invalid", field=unable.field, status_code=400) from None


def _project(project: Project) -> dict[str, Any]:
    now, zone = timezone.now(), zone_named(settings.ORGANISATION_ZONE)
    told = budgets.forecasts(project=project, zone=zone, now=now)
    rows = budgets.standings(project=project, zone=zone, now=now, told=told)
    return {
        "project": project.slug,
        "month": str(Month.of(now, zone)),
        "forecasts": [_forecast(one) for one in told.values()],
        "budgets": _told(rows),
    }


def _told(rows: Iterable[Standing]) -> list[dict[str, Any]]:
    return [_budget(row.budget, row) for row in rows]


def _budget(budget: Budget, row: Standing) -> dict[str, Any]:
    return {
        **_forecast(row.forecast),
        "project": budget.project.slug,
        "amount": f"{budget.amount:f}",
        "thresholds": budget.thresholds,
        "blocks": budget.blocks,
        "percent": row.percent,
        "expected_percent": row.expected_percent,
        "changed_at": budget.changed_at,
    }


def _forecast(told: Forecast) -> dict[str, str]:
    return {
        "currency": told.currency,
        "spent": f"{told.rounded_spent:f}",
        "expected": f"{told.rounded_expected:f}",
    }
