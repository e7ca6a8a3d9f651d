"""REST of approvals under /api/v1/: what waits for the caller's decision, and deciding."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import exceptions, serializers, status
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims.asks.reading import read_flag
from claims.models import Decision, Request
from claims.money.pricing import price_list
from claims.requests import approvals
from claims.requests.approvals import UnableToDecide, Verdict, Waiting, decidable, queue
from claims.requests.browse import get_request_or_404
from claims.rest.answers import AmountOut, CostRangeOut, ProblemOut, RequestOut, range_of
from portal import money
from portal.accounts.audit import source_ip
from portal.accounts.models import ApiToken
from portal.api import ApiListView, ApiView, Problem

Scope = ApiToken.Scope


class DecisionIn(serializers.Serializer[Any]):
    comment = serializers.CharField(
        required=False, max_length=approvals.MAX_COMMENT, help_text="A rejection needs one."
    )


class ApprovalIn(DecisionIn):
    over_quota = serializers.BooleanField(
        required=False, help_text="An administrator approves knowing that it is over a quota."
    )


class DecisionOut(serializers.Serializer[Any]):
    role = serializers.ChoiceField(choices=Decision.Role.choices)
    verdict = serializers.ChoiceField(choices=Decision.Verdict.choices)
    person = serializers.CharField(source="person.username")
    comment = serializers.CharField()
    at = serializers.DateTimeField()


class QuotaVerdictOut(serializers.Serializer[Any]):
    quota = serializers.UUIDField(source="quota.key")
    over = serializers.BooleanField(help_text="Whether it is over the quota with this request.")
    refuses = serializers.BooleanField(help_text="Whether only an administrator may approve it, knowingly.")
    words = serializers.CharField()


class WaitingOut(serializers.Serializer[Any]):
    request = RequestOut()
    decisions = DecisionOut(many=True)
    missing = serializers.ListField(
        child=serializers.ChoiceField(choices=Decision.Role.choices), help_text="Who still has to agree."
    )
    may_decide = serializers.BooleanField(help_text="Whether the caller may.")
    free = serializers.IntegerField(allow_null=True, help_text="Devices free now; null: not known.")
    others = serializers.IntegerField(help_text="Other requests for the same that wait.")
    cost = AmountOut(allow_null=True, help_text="At most, if held for the whole time; null: no price.")
    cost_ranges = CostRangeOut(many=True, help_text="From – to for each part, whichever device it will be.")
    quotas = QuotaVerdictOut(many=True, help_text="What it means for the quotas that it counts for.")


@extend_schema_view(get=extend_schema(tags=["approvals"]))
class ApprovalListView(ApiListView):
    """Requests that wait for a decision in projects that the caller leads, the oldest first; all of them for
    administrators and auditors."""

    required_scope = Scope.REQUESTS
    serializer_class = WaitingOut
    ordering = ("created_at", "id")

    def get_queryset(self) -> QuerySet[Request]:
        if getattr(self, "swagger_fake_view", False):
            return Request.objects.none()
        rows = decidable(self.person).select_related("project", "requester", "cluster", "flavor")
        return rows.defer("cluster__kubeconfig_encrypted")

    def list(self, request: ApiRequest, *args: Any, **kwargs: Any) -> Response:  # noqa: ARG002 - DRF's signature
        page: Sequence[Request] = self.paginate_queryset(self.get_queryset()) or []
        rows = queue(page, user=self.person, prices=price_list(), now=timezone.now())
        return self.get_paginated_response(WaitingOut([_waiting(row) for row in rows], many=True).data)


class _DecisionView(ApiView):
    required_scope = Scope.REQUESTS

    def decide(self, request: ApiRequest, key: uuid.UUID, verdict: str) -> Response:
        body = request.data
        if not isinstance(body, Mapping):
            raise exceptions.ParseError(_("The body must be a JSON object."))
        found = get_request_or_404(self.person, key)
        try:
            approvals.decide(
                request=found,
                user=self.person,
                verdict=verdict,
                comment=body.get("comment"),
                over_quota=read_flag(body, "over_quota"),
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        except UnableToDecide as error:
            if error.field:
                raise exceptions.ValidationError({error.field: [error.message]}) from error
            raise Problem(error.message, code="not_now", status_code=status.HTTP_409_CONFLICT) from error
        return Response(RequestOut(found).data)


_ANSWERS = {200: RequestOut, 400: ProblemOut, 403: ProblemOut, 404: ProblemOut, 409: ProblemOut}


class RequestApproveView(_DecisionView):
    @extend_schema(tags=["approvals"], request=ApprovalIn, responses=_ANSWERS)
    def post(self, request: ApiRequest, key: uuid.UUID) -> Response:
        """Agree. With the last agreement that was missing the request goes on to the cluster."""
        return self.decide(request, key, Verdict.APPROVED)


class RequestRejectView(_DecisionView):
    @extend_schema(tags=["approvals"], request=DecisionIn, responses=_ANSWERS)
    def post(self, request: ApiRequest, key: uuid.UUID) -> Response:
        """Turn it down; the comment says why."""
        return self.decide(request, key, Verdict.REJECTED)


def _waiting(row: Waiting) -> dict[str, Any]:
    cost = None
    if row.cost is not None:
        cost = {"currency": row.currency, "amount": str(money.rounded(row.cost, currency=row.currency))}
    return {
        "request": row.request,
        "decisions": row.decisions,
        "missing": row.missing,
        "may_decide": row.may_decide,
        "free": row.place.free if row.place else None,
        "others": row.others,
        "cost": cost,
        "cost_ranges": [range_of(part) for part in row.costs],
        "quotas": row.quotas,
    }
