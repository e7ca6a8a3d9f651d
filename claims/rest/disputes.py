"""REST of disputes: a project's leads do not agree with a charge, finance answers, and every step is told."""

from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework import exceptions, serializers, status
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims.models import Charge, Dispute
from claims.money import disputing
from claims.money.disputing import UnableToDispute
from claims.rest.answers import ProblemOut
from claims.rest.statement_moves import PROJECT, REFUSED, of_projects, plain_text, read_body, row_or_404
from portal import access, texts
from portal.accounts.audit import source_ip
from portal.accounts.models import ApiToken
from portal.api import ApiListView, ApiView, Problem

Scope = ApiToken.Scope


class DisputeEntryOut(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    by = serializers.CharField(source="by.username")
    state = serializers.ChoiceField(choices=Dispute.State.choices, help_text="What it is from here on.")
    text = serializers.CharField()


class DisputeOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    project = serializers.CharField(source="project.slug")
    charge = serializers.IntegerField(source="charge_id")
    state = serializers.ChoiceField(choices=Dispute.State.choices)
    opened_at = serializers.DateTimeField()
    opened_by = serializers.CharField(source="opened_by.username")
    entries = DisputeEntryOut(many=True, help_text="Its course, the first step first.")


class DisputeIn(serializers.Serializer[Any]):
    text = serializers.CharField(max_length=1000, validators=[plain_text])


class DisputeAnswerIn(DisputeIn):
    state = serializers.ChoiceField(
        choices=Dispute.State.choices,
        default=Dispute.State.OPEN,
        help_text="`accepted` and `rejected` are finance's, `withdrawn` is the leads'; `open` only says.",
    )


def _disputes() -> QuerySet[Dispute]:
    return Dispute.objects.select_related("project", "opened_by").prefetch_related("entries__by")


class DisputeListView(ApiListView):
    """Disputes of the projects whose costs the caller may see, the latest first."""

    required_scope = Scope.CHARGEBACK
    serializer_class = DisputeOut
    ordering = ("-opened_at", "-id")

    def get_queryset(self) -> QuerySet[Dispute]:
        return of_projects(self, _disputes())

    @extend_schema(tags=["chargeback"], parameters=[PROJECT])
    def get(self, request: ApiRequest, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)


class ChargeDisputeView(ApiView):
    """Say that a charge is wrong."""

    required_scope = Scope.CHARGEBACK

    @extend_schema(tags=["chargeback"], request=DisputeIn, responses={201: DisputeOut, **REFUSED})
    def post(self, request: ApiRequest, pk: int) -> Response:
        """For leads of the project that pays."""
        charge = row_or_404(Charge.objects.select_related("project"), pk)
        if charge.project is None:
            raise Http404
        access.authorise(self.person, charge.project, for_lead=True)
        said = read_body(DisputeIn, request)
        try:
            made = disputing.open_dispute(
                charge=charge,
                text=texts.plain(said["text"]),
                actor=self.person,
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        except UnableToDispute as unable:
            raise Problem(unable.message, code="not_disputed", status_code=409) from None
        return Response(DisputeOut(_disputes().get(pk=made.pk)).data, status=status.HTTP_201_CREATED)


class DisputeDetailView(ApiView):
    """One dispute with its course."""

    required_scope = Scope.CHARGEBACK

    @extend_schema(tags=["chargeback"], responses={200: DisputeOut, 404: ProblemOut})
    def get(self, request: ApiRequest, pk: int) -> Response:  # noqa: ARG002 - DRF's signature
        row = row_or_404(_disputes(), pk)
        access.authorise(self.person, row.project)
        return Response(DisputeOut(row).data)

    @extend_schema(tags=["chargeback"], request=DisputeAnswerIn, responses={200: DisputeOut, **REFUSED})
    def post(self, request: ApiRequest, pk: int) -> Response:
        """Say something, or end it."""
        row = row_or_404(_disputes(), pk)
        access.authorise(self.person, row.project)
        said = read_body(DisputeAnswerIn, request)
        if said["state"] not in disputing.steps_of(self.person, row):
            raise exceptions.PermissionDenied(_("You may look at this dispute, but not answer it."))
        try:
            disputing.answer(
                dispute=row,
                state=said["state"],
                text=texts.plain(said["text"]),
                actor=self.person,
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        except UnableToDispute as unable:
            raise Problem(unable.message, code="not_answered", status_code=409) from None
        return Response(DisputeOut(_disputes().get(pk=row.pk)).data)
