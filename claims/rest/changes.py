"""REST of changes of requests under /api/v1/: asking for one, deciding, conditions."""

import uuid
from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiExample, extend_schema, extend_schema_view
from rest_framework import exceptions, serializers, status
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims.asks import judging as asks
from claims.asks.reading import WHOLE
from claims.changes import changing as changes
from claims.changes import decisions as change_decisions
from claims.changes.told import decidable_changes, related
from claims.changes.wanted import UnableToChangeRequest
from claims.models import Decision, RequestChange
from claims.requests import approvals
from claims.requests.approvals import UnableToDecide, Verdict
from claims.requests.browse import get_request_or_404
from claims.rest.answers import ProblemOut
from claims.views.changes import asker_is_another, condition_of, get_change_or_404
from portal.accounts.audit import source_ip
from portal.accounts.models import ApiToken
from portal.api import ApiListView, ApiView, Problem

Scope = ApiToken.Scope


class ChangeIn(serializers.Serializer[Any]):
    """What shall be different; what is left out stays."""

    duration = serializers.IntegerField(
        min_value=1, required=False, help_text="The whole time, from the first device on."
    )
    duration_unit = serializers.ChoiceField(choices=list(asks.UNITS), required=False, default="hours")
    count = serializers.IntegerField(min_value=1, max_value=asks.MAX_COUNT, required=False)
    min_memory = serializers.CharField(required=False, max_length=32)
    purpose = serializers.CharField(required=False, max_length=asks.MAX_PURPOSE)
    release = serializers.ChoiceField(
        choices=RequestChange.Release.choices,
        required=False,
        help_text="When the request gives its devices back, if a new one has to take its place.",
    )
    reason = serializers.CharField(max_length=changes.MAX_REASON)


class ConditionIn(serializers.Serializer[Any]):
    """An approval on a condition names what would be approved; a rejection needs a comment."""

    comment = serializers.CharField(required=False, max_length=approvals.MAX_COMMENT)
    count = serializers.IntegerField(min_value=1, max_value=asks.MAX_COUNT, required=False)
    duration = serializers.IntegerField(min_value=1, required=False)
    duration_unit = serializers.ChoiceField(choices=list(asks.UNITS), required=False, default="hours")


class CommentIn(serializers.Serializer[Any]):
    comment = serializers.CharField(max_length=approvals.MAX_COMMENT)


class ChangeDecisionOut(serializers.Serializer[Any]):
    role = serializers.ChoiceField(choices=Decision.Role.choices)
    verdict = serializers.ChoiceField(choices=Decision.Verdict.choices)
    person = serializers.CharField(source="person.username")
    comment = serializers.CharField()
    at = serializers.DateTimeField()


class RequestChangeOut(serializers.Serializer[Any]):
    key = serializers.UUIDField()
    request = serializers.UUIDField(source="request.key")
    origin = serializers.ChoiceField(choices=RequestChange.Origin.choices)
    person = serializers.CharField(source="person.username")
    reason = serializers.CharField()
    current = serializers.DictField(help_text="What is: count, min_memory, duration_hours, purpose.")
    wanted = serializers.DictField(help_text="What it shall be.")
    offered = serializers.DictField(help_text="What an approver would agree to instead; empty: nothing else.")
    approval = serializers.CharField(help_text="Who has to agree: none, lead, administrator or both.")
    replaces = serializers.BooleanField(help_text="Whether a new request takes the place of the first.")
    release = serializers.ChoiceField(choices=RequestChange.Release.choices)
    successor = serializers.UUIDField(source="successor.key", default=None, allow_null=True)
    state = serializers.ChoiceField(choices=RequestChange.State.choices)
    message = serializers.CharField(help_text="Why it failed or was rejected.")
    decisions = ChangeDecisionOut(many=True, source="decisions.all")
    created_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)


_ANSWERS = {200: RequestChangeOut, 400: ProblemOut, 403: ProblemOut, 404: ProblemOut, 409: ProblemOut}
EXAMPLE = OpenApiExample(
    "Two days more",
    value={"duration": 5, "duration_unit": "days", "reason": "The last epoch takes longer than thought"},
    request_only=True,
)
CONDITION = OpenApiExample(
    "Less time", value={"duration": 2, "duration_unit": "days", "comment": "Others wait"}, request_only=True
)


class RequestChangesView(ApiView):
    """Changes of one request."""

    required_scope = Scope.REQUESTS
    # One change of a request is open at a time: what is sent again is refused, not done again.
    post_talks_to_cluster = True

    @extend_schema(tags=["changes"], responses={200: RequestChangeOut(many=True), 404: ProblemOut})
    def get(self, _request: ApiRequest, key: uuid.UUID) -> Response:
        """What was asked to be different, the latest first."""
        found = get_request_or_404(self.person, key)
        rows = related(RequestChange.objects.filter(request=found)).order_by("-created_at", "-pk")
        return Response(RequestChangeOut(rows, many=True).data)

    @extend_schema(
        tags=["changes"], request=ChangeIn, responses={201: RequestChangeOut, **_ANSWERS}, examples=[EXAMPLE]
    )
    def post(self, request: ApiRequest, key: uuid.UUID) -> Response:
        """Ask for a change. Where nobody has to agree, it is done at once."""
        found = get_request_or_404(self.person, key, for_write=True)
        try:
            made = changes.ask(
                request=found,
                user=self.person,
                values=_body(request),
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        except UnableToChangeRequest as error:
            raise _refused(error) from error
        return Response(_answer(made), status=status.HTTP_201_CREATED)


@extend_schema_view(get=extend_schema(tags=["changes"]))
class ChangeListView(ApiListView):
    """Changes that wait for a decision in projects that the caller leads, the oldest first; all of them for
    administrators and auditors."""

    required_scope = Scope.REQUESTS
    serializer_class = RequestChangeOut
    ordering = ("created_at", "id")

    def get_queryset(self) -> QuerySet[RequestChange]:
        if getattr(self, "swagger_fake_view", False):
            return RequestChange.objects.none()
        return related(decidable_changes(self.person))


class _DecisionView(ApiView):
    required_scope = Scope.REQUESTS
    # A condition is tried out on the cluster; what was decided is refused a second time.
    post_talks_to_cluster = True

    def decide(self, request: ApiRequest, key: uuid.UUID, verdict: str) -> Response:
        body = _body(request)
        change = get_change_or_404(self.person, key)
        try:
            change_decisions.decide(
                change=change,
                user=self.person,
                verdict=verdict,
                comment=body.get("comment"),
                condition=condition_of(body) if verdict == Verdict.APPROVED else None,
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        except UnableToDecide as error:
            raise _undecided(error) from error
        return Response(_answer(change))


class ChangeApproveView(_DecisionView):
    @extend_schema(tags=["changes"], request=ConditionIn, responses=_ANSWERS, examples=[CONDITION])
    def post(self, request: ApiRequest, key: uuid.UUID) -> Response:
        """Agree, or agree to less: then the requester accepts or withdraws."""
        return self.decide(request, key, Verdict.APPROVED)


class ChangeRejectView(_DecisionView):
    @extend_schema(tags=["changes"], request=CommentIn, responses=_ANSWERS)
    def post(self, request: ApiRequest, key: uuid.UUID) -> Response:
        """Turn it down; the comment says why."""
        return self.decide(request, key, Verdict.REJECTED)


class ChangeAcceptView(ApiView):
    required_scope = Scope.REQUESTS

    @extend_schema(tags=["changes"], request=None, responses=_ANSWERS)
    def post(self, request: ApiRequest, key: uuid.UUID) -> Response:
        """Accept the condition of an approval. Only who asked may."""
        change = get_change_or_404(self.person, key)
        if asker_is_another(self.person, change):
            raise exceptions.PermissionDenied(_("Only who asked accepts a condition."))
        try:
            change_decisions.accept(
                change=change, user=self.person, now=timezone.now(), source_ip=source_ip(request)
            )
        except UnableToChangeRequest as error:
            raise _conflict(error) from error
        return Response(_answer(change))


class ChangeWithdrawView(ApiView):
    required_scope = Scope.REQUESTS

    @extend_schema(tags=["changes"], request=None, responses=_ANSWERS)
    def post(self, request: ApiRequest, key: uuid.UUID) -> Response:
        """Give a change up. Harmless when repeated."""
        change = get_change_or_404(self.person, key, for_write=True)
        try:
            changes.withdraw(
                change=change, user=self.person, now=timezone.now(), source_ip=source_ip(request)
            )
        except UnableToChangeRequest as error:
            raise _conflict(error) from error
        return Response(_answer(change))


class RequestOfferView(ApiView):
    required_scope = Scope.REQUESTS
    post_talks_to_cluster = True

    @extend_schema(
        tags=["approvals"],
        request=ConditionIn,
        responses={201: RequestChangeOut, **_ANSWERS},
        examples=[CONDITION],
    )
    def post(self, request: ApiRequest, key: uuid.UUID) -> Response:
        """Approve a request that waits, on a condition that its requester accepts or withdraws from."""
        body = _body(request)
        found = get_request_or_404(self.person, key)
        try:
            made = change_decisions.offer(
                request=found,
                user=self.person,
                condition=condition_of(body),
                comment=body.get("comment"),
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        except UnableToDecide as error:
            raise _undecided(error) from error
        return Response(_answer(made), status=status.HTTP_201_CREATED)


# --- inside ---------------------------------------------------------------------------------------


def _body(request: ApiRequest) -> Mapping[str, Any]:
    if not isinstance(request.data, Mapping):
        raise exceptions.ParseError(_("The body must be a JSON object."))
    return request.data


def _answer(change: RequestChange) -> Any:
    return RequestChangeOut(related(RequestChange.objects.filter(pk=change.pk)).get()).data


def _refused(error: UnableToChangeRequest) -> Exception:
    return exceptions.ValidationError(
        {("non_field_errors" if name == WHOLE else name): said for name, said in error.errors.items()}
    )


def _undecided(error: UnableToDecide) -> Exception:
    if error.field:
        return exceptions.ValidationError({error.field: [error.message]})
    return Problem(error.message, code="not_now", status_code=status.HTTP_409_CONFLICT)


def _conflict(error: UnableToChangeRequest) -> Exception:
    said = " ".join(text for texts in error.errors.values() for text in texts)
    return Problem(said, code="not_now", status_code=status.HTTP_409_CONFLICT)
