"""REST of what happens to statements: into review, back, closed; credit notes and adjustments.

The same rules as the pages': finance and administrators keep the accounts.
"""

from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import exceptions, serializers, status
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims.models import Adjustment, Statement
from claims.money import adjusting, closing, reconciling, statements
from claims.money.adjusting import UnableToAdjust
from claims.money.closing import MOVES, UnableToMove
from claims.money.months import Month, NoMonth, zone_named
from claims.rest.answers import ProblemOut
from portal import access, texts
from portal.accounts.audit import source_ip
from portal.accounts.models import ApiToken, Project
from portal.api import ApiListView, ApiView, Problem

Scope = ApiToken.Scope
ACTIONS, ACTIONS_FOR_ALL = ("review", "reopen", "close"), ("review", "close")
REFUSED = {400: ProblemOut, 403: ProblemOut, 404: ProblemOut, 409: ProblemOut}
PROJECT = OpenApiParameter("project", description="Slug: only this project's.")


def plain_text(text: str) -> None:
    """A validator of texts that are kept."""
    try:
        texts.plain(text)
    except texts.UncleanText as unclean:
        raise exceptions.ValidationError(unclean.message) from None


class MoveIn(serializers.Serializer[Any]):
    action = serializers.ChoiceField(choices=ACTIONS, help_text="`close` is for good.")


class MovedOut(serializers.Serializer[Any]):
    project = serializers.CharField(allow_null=True)
    month = serializers.CharField()
    state = serializers.ChoiceField(choices=Statement.State.choices)
    digest = serializers.CharField(help_text="Of what it was closed with; else empty.")


_CLOSE = OpenApiExample("Closed, for good", value={"action": "close"}, request_only=True)


class StatementMoveView(ApiView):
    """Put a project's statement into review, take it back, or close it."""

    required_scope = Scope.CHARGEBACK

    @extend_schema(
        tags=["chargeback"], request=MoveIn, responses={200: MovedOut, **REFUSED}, examples=[_CLOSE]
    )
    def post(self, request: ApiRequest, month: str, slug: str) -> Response:
        """For finance and administrators. 409: it is in another state, or something is undecided."""
        access.demand_keeper_of_accounts(self.person)
        return _moved(self, request, access.get_project_or_404(self.person, slug), month)


class StatementNobodyMoveView(ApiView):
    """The same for what nobody is known to pay, and idle time."""

    required_scope = Scope.CHARGEBACK

    @extend_schema(
        tags=["chargeback"], request=MoveIn, responses={200: MovedOut, **REFUSED}, examples=[_CLOSE]
    )
    def post(self, request: ApiRequest, month: str) -> Response:
        """For finance and administrators."""
        access.demand_keeper_of_accounts(self.person)
        return _moved(self, request, None, month)


class RefusedOut(serializers.Serializer[Any]):
    project = serializers.CharField(allow_null=True)
    message = serializers.CharField()


class MovedAllOut(serializers.Serializer[Any]):
    moved = serializers.IntegerField()
    refused = RefusedOut(many=True, help_text="Why the others stay as they are.")


class MoveAllIn(serializers.Serializer[Any]):
    action = serializers.ChoiceField(choices=ACTIONS_FOR_ALL)


class StatementMoveAllView(ApiView):
    """All statements of a month into review, or closed: each by itself."""

    required_scope = Scope.CHARGEBACK

    @extend_schema(
        tags=["chargeback"], request=MoveAllIn, responses={200: MovedAllOut, **REFUSED}, examples=[_CLOSE]
    )
    def post(self, request: ApiRequest, month: str) -> Response:
        """For finance and administrators. Those in another state are passed over."""
        access.demand_keeper_of_accounts(self.person)
        wanted = month_of(month, field="month")
        moved, refused = closing.move_all(
            projects=[*statements.visible(self.person, month=wanted), None],
            month=wanted,
            zone=zone_named(settings.ORGANISATION_ZONE),
            action=read_body(MoveAllIn, request)["action"],
            actor=self.person,
            now=timezone.now(),
            source_ip=source_ip(request),
        )
        told = [{"project": one.slug if one else None, "message": why} for one, why in refused]
        return Response({"moved": moved, "refused": told})


def _moved(view: ApiView, request: ApiRequest, project: Project | None, month: str) -> Response:
    action = read_body(MoveIn, request)["action"]
    common: dict[str, Any] = {
        "project": project, "month": month_of(month, field="month"),
        "zone": zone_named(settings.ORGANISATION_ZONE), "actor": view.person, "now": timezone.now(),
        "source_ip": source_ip(request),
    }  # fmt: skip
    try:
        row = closing.move(**common, action=action) if action in MOVES else closing.close(**common)
    except UnableToMove as unable:
        raise Problem(unable.message, code="not_moved", status_code=409) from None
    return Response(
        {
            "project": project.slug if project else None,
            "month": row.month,
            "state": row.state,
            "digest": row.digest,
        }
    )


# --- adjustments --------------------------------------------------------------------------------------


class AdjustmentIn(serializers.Serializer[Any]):
    project = serializers.CharField(max_length=80, help_text="Slug.")
    month = serializers.CharField(max_length=7, help_text="In which it counts: an open one.")
    amount = serializers.CharField(max_length=20, help_text="A decimal; less than 0 is a credit note.")
    currency = serializers.CharField(max_length=3, help_text="ISO 4217.")
    reason = serializers.CharField(max_length=500, validators=[plain_text])
    refers_to = serializers.CharField(
        max_length=7, required=False, help_text="The month of the statement that it makes good."
    )


class AdjustmentOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    project = serializers.CharField(source="project.slug")
    month = serializers.CharField()
    amount = serializers.SerializerMethodField()
    currency = serializers.CharField()
    reason = serializers.CharField()
    refers_to = serializers.CharField(source="refers_to.month", default=None, allow_null=True)
    state = serializers.ChoiceField(choices=Adjustment.State.choices)
    proposed_at = serializers.DateTimeField()
    proposed_by = serializers.CharField(source="proposed_by.username")
    decided_at = serializers.DateTimeField(allow_null=True)
    decided_by = serializers.CharField(source="decided_by.username", default=None, allow_null=True)
    decision_note = serializers.CharField()

    def get_amount(self, row: Adjustment) -> str:
        return f"{row.amount:f}"


class DecideIn(serializers.Serializer[Any]):
    approve = serializers.BooleanField()
    note = serializers.CharField(required=False, allow_blank=True, max_length=500, validators=[plain_text])


_CREDIT = OpenApiExample(
    "A credit note",
    value={"project": "tides", "month": "2026-11", "amount": "-12.50", "currency": "EUR",
           "reason": "A node was broken.", "refers_to": "2026-10"},
    request_only=True,
)  # fmt: skip


class AdjustmentListView(ApiListView):
    """Credit notes and adjustments of the projects whose costs the caller may see, the latest first."""

    required_scope = Scope.CHARGEBACK
    serializer_class = AdjustmentOut
    ordering = ("-proposed_at", "-id")

    def get_queryset(self) -> QuerySet[Adjustment]:
        rows = Adjustment.objects.select_related("project", "refers_to", "proposed_by", "decided_by")
        return of_projects(self, rows)

    @extend_schema(tags=["chargeback"], parameters=[PROJECT])
    def get(self, request: ApiRequest, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        tags=["chargeback"],
        request=AdjustmentIn,
        responses={201: AdjustmentOut, **REFUSED},
        examples=[_CREDIT],
    )
    def post(self, request: ApiRequest) -> Response:
        """Propose one; it counts once a second person has agreed. For finance and administrators."""
        access.demand_keeper_of_accounts(self.person)
        said = read_body(AdjustmentIn, request)
        project = access.get_project_or_404(self.person, said["project"])
        refers_to = None
        if month := said.get("refers_to"):
            wanted = month_of(month, field="refers_to")
            refers_to = Statement.objects.filter(project=project, month=str(wanted)).first()
            if refers_to is None:
                raise exceptions.ValidationError({"refers_to": [_("There is no statement of that month.")]})
        try:
            made = adjusting.propose(
                project=project,
                month=month_of(said["month"], field="month"),
                minor=reconciling.read_minor(said["amount"], currency=said["currency"]),
                currency=said["currency"],
                reason=texts.plain(said["reason"]),
                refers_to=refers_to,
                actor=self.person,
                now=timezone.now(),
                source_ip=source_ip(request),
                zone=zone_named(settings.ORGANISATION_ZONE),
            )
        except ValueError as error:
            raise exceptions.ValidationError({"amount": [str(error)]}) from None
        except UnableToAdjust as unable:
            raise Problem(unable.message, code="not_adjusted", field=unable.field, status_code=409) from None
        return Response(AdjustmentOut(made).data, status=status.HTTP_201_CREATED)


class AdjustmentDecideView(ApiView):
    """Agree to an adjustment that somebody else has proposed, or not."""

    required_scope = Scope.CHARGEBACK

    @extend_schema(tags=["chargeback"], request=DecideIn, responses={200: AdjustmentOut, **REFUSED})
    def post(self, request: ApiRequest, pk: int) -> Response:
        """For finance and administrators."""
        access.demand_keeper_of_accounts(self.person)
        row = row_or_404(Adjustment.objects.all(), pk)
        said = read_body(DecideIn, request)
        try:
            adjusting.decide(
                adjustment=row,
                approve=said["approve"],
                note=texts.plain(said.get("note", "")),
                actor=self.person,
                now=timezone.now(),
                source_ip=source_ip(request),
                zone=zone_named(settings.ORGANISATION_ZONE),
            )
        except UnableToAdjust as unable:
            raise Problem(unable.message, code="not_decided", status_code=409) from None
        row.refresh_from_db()
        return Response(AdjustmentOut(row).data)


# --- inside -------------------------------------------------------------------------------------------


def month_of(text: str, *, field: str) -> Month:
    """A month that was sent; raises ValidationError."""
    try:
        return Month.parse(text[:40])
    except NoMonth as error:
        raise exceptions.ValidationError({field: [str(error)]}) from None


def read_body(serializer: type[serializers.Serializer[Any]], request: ApiRequest) -> dict[str, Any]:
    """What was sent; raises ValidationError."""
    read = serializer(data=request.data)
    read.is_valid(raise_exception=True)
    said: dict[str, Any] = read.validated_data
    return said


def of_projects(view: ApiView, rows: QuerySet[Any]) -> QuerySet[Any]:
    """Rows of the projects that the caller may see, or of the one that they ask for."""
    if getattr(view, "swagger_fake_view", False):
        return rows.none()
    rows = rows.filter(project__in=Project.objects.visible_to(view.person))
    if slug := view.request.query_params.get("project", "")[:80]:
        return rows.filter(project=access.get_project_or_404(view.person, slug))
    return rows


def row_or_404(rows: QuerySet[Any], pk: int) -> Any:
    """A row by its number, however large that is."""
    if pk >= 2**63:
        raise Http404
    return get_object_or_404(rows, pk=pk)
