"""REST over drains: administrators take the steps, auditors read, holders see their part and answer."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiExample, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from inventory.coverage import coverage_of
from inventory.models import Drain, DrainHolder
from inventory.models.taints import NO_EXECUTE
from inventory.taints import answers, drains, emptiness
from inventory.taints.answers import UnableToAnswer, get_drain_or_404, get_holder_or_404, holders_for
from inventory.taints.api_answers import (
    DrainDetailOut,
    DrainHolderOut,
    DrainOut,
    drain_answer,
    holder_answer,
)
from inventory.taints.api_maintenance import PlaceIn, where_of
from inventory.taints.blast import blast_of
from inventory.taints.drains import LIVING, MAX_MESSAGE, MAX_REASON, MovedMeanwhile, UnableToDrain
from inventory.taints.history import taint_of
from inventory.taints.places import UnableToPlace, selectors_at
from portal.access import may_read_everything
from portal.accounts import audit
from portal.accounts.models import ApiToken
from portal.api import ApiListView, ApiView, Problem


class DrainIn(serializers.Serializer[Any]):
    place = PlaceIn()
    reason = serializers.CharField(max_length=MAX_REASON)


class StepIn(serializers.Serializer[Any]):
    version = serializers.IntegerField(min_value=0, max_value=2**31 - 1)


class AskIn(StepIn):
    message = serializers.CharField(max_length=MAX_MESSAGE, required=False, default="", allow_blank=True)
    wanted_by = serializers.DateTimeField(required=False, allow_null=True, default=None)


class EvictIn(StepIn):
    looked = serializers.CharField(
        max_length=63,
        help_text="The digest of what NoExecute would do there: another by now is a conflict, and tells it.",
    )


class HandOverIn(StepIn):
    ends_at = serializers.DateTimeField()
    reason = serializers.CharField(max_length=MAX_REASON, required=False, default="", allow_blank=True)


class AnswerIn(serializers.Serializer[Any]):
    answer = serializers.ChoiceField(choices=[c for c in DrainHolder.Answer.choices if c[0]])
    by = serializers.DateTimeField(required=False, allow_null=True, default=None)
    note = serializers.CharField(max_length=answers.MAX_NOTE, required=False, default="", allow_blank=True)


@extend_schema_view(get=extend_schema(tags=["drains"]))
class DrainListView(ApiListView):
    """What is being emptied and what was, the latest first; for holders those that concern them."""

    required_scope = ApiToken.Scope.INVENTORY
    serializer_class = DrainOut
    ordering = "-id"

    def get_queryset(self) -> QuerySet[Drain]:
        rows = Drain.objects.select_related("cluster", "maintenance").defer("cluster__kubeconfig_encrypted")
        if getattr(self, "swagger_fake_view", False):
            return rows.none()
        if may_read_everything(self.person):
            return rows
        mine = DrainHolder.objects.filter(project__in=_projects(self.person))
        return rows.filter(pk__in=mine.values("drain"))

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:  # noqa: ARG002 - DRF's own
        page: Sequence[Drain] = self.paginate_queryset(self.filter_queryset(self.get_queryset())) or []
        return self.get_paginated_response(DrainOut([drain_answer(row) for row in page], many=True).data)

    @extend_schema(
        request=DrainIn,
        responses={201: DrainDetailOut},
        tags=["drains"],
        examples=[
            OpenApiExample(
                "a node",
                value={
                    "place": {"cluster": "physics", "scope": "node", "node": "gpu-01"},
                    "reason": "new fans",
                },
                request_only=True,
            )
        ],
    )
    def post(self, request: Request) -> Response:
        """Begin: collect who is there. Nothing happens on the cluster yet."""
        self.administrator()
        serializer = DrainIn(data=request.data)
        serializer.is_valid(raise_exception=True)
        values = serializer.validated_data
        try:
            drain = drains.open_drain(
                where=where_of(values["place"]), reason=values["reason"], actor=self.person,
                now=timezone.now(), source_ip=audit.source_ip(request),
            )  # fmt: skip
        except UnableToDrain as refused:
            raise _problem(refused) from refused
        return _told(self.person, drain, status=201)


class DrainDetailView(ApiView):
    required_scope = ApiToken.Scope.INVENTORY

    @extend_schema(responses=DrainDetailOut, tags=["drains"])
    def get(self, _request: Request, key: UUID) -> Response:
        """One drain, with the holders that the caller may see."""
        return _told(self.person, get_drain_or_404(self.person, key))


class _StepView(ApiView):
    required_scope = ApiToken.Scope.INVENTORY
    post_talks_to_cluster = True

    def take(
        self, request: Request, key: UUID, kind: type[StepIn], step: Callable[..., object], *names: str
    ) -> Response:
        """Read the body, take the step with its values, and tell how it is then."""
        self.administrator()
        serializer = kind(data=request.data)
        serializer.is_valid(raise_exception=True)
        values = serializer.validated_data
        drain = get_drain_or_404(self.person, key)
        try:
            step(
                drain=drain, seen_version=values["version"], actor=self.person, now=timezone.now(),
                source_ip=audit.source_ip(request), **{name: values[name] for name in names},
            )  # fmt: skip
        except UnableToDrain as refused:
            raise _problem(refused) from refused
        drain.refresh_from_db()
        return _told(self.person, drain)


class DrainAskView(_StepView):
    @extend_schema(request=AskIn, responses=DrainDetailOut, tags=["drains"])
    def post(self, request: Request, key: UUID) -> Response:
        """Ask the holders to leave."""
        return self.take(request, key, AskIn, drains.ask, "message", "wanted_by")


class DrainCloseView(_StepView):
    @extend_schema(request=StepIn, responses=DrainDetailOut, tags=["drains"])
    def post(self, request: Request, key: UUID) -> Response:
        """Let nobody new in: taint the devices with NoSchedule."""
        return self.take(request, key, StepIn, drains.close)


class DrainEvictView(_StepView):
    @extend_schema(request=EvictIn, responses=DrainDetailOut, tags=["drains"])
    def post(self, request: Request, key: UUID) -> Response:
        """Have the Pods that are still there evicted."""
        self.administrator()
        serializer = EvictIn(data=request.data)
        serializer.is_valid(raise_exception=True)
        drain, now = get_drain_or_404(self.person, key), timezone.now()
        try:
            selectors = selectors_at(drain)
        except UnableToPlace as refused:
            raise Problem(refused.message, code="drain_refused", status_code=409) from refused
        blast = blast_of(
            cluster=drain.cluster, selectors=selectors, taint=taint_of(drain, NO_EXECUTE), now=now,
            coverage=coverage_of(drain.cluster, drain.cluster.streams.all(), now=now),
        )  # fmt: skip
        if serializer.validated_data["looked"] != blast.digest:
            raise Problem(
                _("What it would do has changed since it was looked at."), code="effect_changed",
                field="looked", status_code=409, digest=blast.digest, evicted=len(blast.evicted),
            )  # fmt: skip
        return self.take(request, key, EvictIn, drains.evict)


class DrainHandOverView(_StepView):
    @extend_schema(request=HandOverIn, responses=DrainDetailOut, tags=["drains"])
    def post(self, request: Request, key: UUID) -> Response:
        """What is empty goes into maintenance."""
        return self.take(request, key, HandOverIn, drains.hand_over, "ends_at", "reason")


class DrainFinishView(_StepView):
    @extend_schema(request=StepIn, responses=DrainDetailOut, tags=["drains"])
    def post(self, request: Request, key: UUID) -> Response:
        """Back into service, or given up; its taints go."""
        return self.take(request, key, StepIn, drains.finish)


class DrainAnswerView(ApiView):
    required_scope = ApiToken.Scope.REQUESTS

    @extend_schema(
        request=AnswerIn,
        responses=DrainHolderOut,
        tags=["drains"],
        examples=[
            OpenApiExample(
                "by tonight", value={"answer": "by", "by": "2026-12-01T20:00:00Z"}, request_only=True
            )
        ],
    )
    def post(self, request: Request, key: UUID) -> Response:
        """A holder says until when, that one is done, or that one cannot leave."""
        serializer = AnswerIn(data=request.data)
        serializer.is_valid(raise_exception=True)
        values = serializer.validated_data
        holder = get_holder_or_404(self.person, key, for_write=True)
        try:
            answers.answer(
                holder=holder, said=values["answer"], by=values["by"], note_=values["note"],
                actor=self.person, now=timezone.now(), source_ip=audit.source_ip(request),
            )  # fmt: skip
        except UnableToAnswer as refused:
            raise Problem(refused.message, code="answer_refused", field=refused.field) from refused
        return Response(DrainHolderOut(holder_answer(holder)).data)


# --- inside -------------------------------------------------------------------------------------------


def _projects(person: Any) -> Any:
    from portal.accounts.models import Project

    return Project.objects.all().detailed_to(person)


def _problem(refused: UnableToDrain) -> Problem:
    status = 409 if isinstance(refused, MovedMeanwhile) else 422
    return Problem(refused.message, code="drain_refused", field=refused.field, status_code=status)


def _told(person: Any, drain: Drain, *, status: int = 200) -> Response:
    asks = may_read_everything(person) and drain.state in LIVING
    told = drain_answer(drain) | {
        "holders": [holder_answer(holder) for holder in holders_for(person, drain)],
        "not_empty": list(emptiness.judge(drain, now=timezone.now()).reasons) if asks else [],
    }
    return Response(DrainDetailOut(told).data, status=status)
