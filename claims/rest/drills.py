"""REST of lifecycle drills, under /api/v1/."""

import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from django.db.models import QuerySet
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiExample, extend_schema, extend_schema_view
from rest_framework import exceptions, serializers, status
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims.asks.reading import WrongValue, read_text
from claims.drill import report, starting
from claims.drill.starting import UnableToDrill
from claims.drill.steps import STEPS
from claims.models import Drill
from claims.rest.answers import ProblemOut
from claims.views.drills import drill_or_404, run_as
from claims.views.poolmoves import plan_or_404
from portal.accounts.models import ApiToken
from portal.api import ApiListView, ApiView

Scope = ApiToken.Scope
T = TypeVar("T")


class DrillIn(serializers.Serializer[Any]):
    """A drill on a pool. Judged by the same rules as the form; all of it may be left out."""

    namespace = serializers.CharField(
        required=False, max_length=63, help_text=f"Of no project; left out: {starting.NAMESPACE}."
    )
    part = serializers.ChoiceField(choices=list(starting.PARTS), required=False)
    tolerations = serializers.ListField(child=serializers.DictField(), required=False)
    step_seconds = serializers.IntegerField(required=False, min_value=5, max_value=3600)
    ask_hours = serializers.IntegerField(required=False, min_value=1, max_value=336)
    questions = serializers.ListField(
        child=serializers.CharField(max_length=40),
        required=False,
        help_text=f"Some of: {', '.join(step.code for step in STEPS)}.",
    )
    last_device = serializers.CharField(
        required=False, help_text="The pool's name, where the drill would take the last free device."
    )


class DrillOut(serializers.Serializer[Any]):
    key = serializers.UUIDField()
    plan = serializers.IntegerField(source="plan_id")
    pool = serializers.CharField(source="plan.name")
    cluster = serializers.CharField(source="cluster.name")
    namespace = serializers.CharField()
    device_class = serializers.CharField()
    node_selector = serializers.DictField()
    image = serializers.CharField()
    state = serializers.ChoiceField(choices=Drill.State.choices)
    cancelled = serializers.BooleanField()
    message = serializers.CharField(help_text="What the cluster answers while it cannot go on.")
    last_device = serializers.BooleanField(help_text="It may take the last free device.")
    person = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)
    clean_at = serializers.DateTimeField(allow_null=True, help_text="When nothing of it was left.")


class DrillDetailOut(DrillOut):
    steps = serializers.ListField(
        child=serializers.DictField(), help_text="Question, verdict, and every observation with its time."
    )


class DrillAnswerIn(serializers.Serializer[Any]):
    question = serializers.ChoiceField(choices=[step.code for step in STEPS])
    did = serializers.BooleanField(help_text="true: it was done; false: skip the question.")


EXAMPLE = OpenApiExample(
    "What the desk proves by itself",
    value={"namespace": "claimdesk-drill", "questions": ["claim-created", "devices-chosen", "freed"]},
    request_only=True,
)
_REFUSED = {400: ProblemOut, 403: ProblemOut, 404: ProblemOut}


class _Drills(ApiView):
    # Changing something needs the scope of administration: `portal.rest_defaults`.
    required_scope = Scope.INVENTORY

    def change(self, change: Callable[[], T]) -> T:
        """Makes the change; what the domain refuses becomes a problem document."""
        try:
            return change()
        except UnableToDrill as error:
            raise exceptions.ValidationError(error.errors) from error

    def answer(self, key: uuid.UUID, *, code: int = status.HTTP_200_OK) -> Response:
        return Response(report.document(drill_or_404(key)), status=code)


@extend_schema_view(get=extend_schema(tags=["migration"]))
class DrillListView(ApiListView, _Drills):
    """Drills of a pool, latest first; for administrators and auditors."""

    serializer_class = DrillOut
    ordering = ("-id",)

    def get_queryset(self) -> QuerySet[Drill]:
        if getattr(self, "swagger_fake_view", False):
            return Drill.objects.none()
        self.reader()
        plan = plan_or_404(self.kwargs["pk"])
        return plan.drills.select_related("cluster", "plan", "person").order_by("-id")

    @extend_schema(
        tags=["migration"],
        request=DrillIn,
        responses={201: DrillDetailOut, **_REFUSED},
        examples=[EXAMPLE],
    )
    def post(self, _request: ApiRequest, pk: int) -> Response:
        """Start a drill on a pool; the cluster judges its objects first."""
        self.administrator()
        plan = plan_or_404(pk)
        terms = self.change(lambda: starting.read_drill(self.values()))
        drill = self.change(lambda: starting.start(plan=plan, terms=terms, **run_as(), **self.who()))
        return self.answer(drill.key, code=status.HTTP_201_CREATED)


class DrillDetailView(_Drills):
    @extend_schema(tags=["migration"], responses={200: DrillDetailOut, 403: ProblemOut, 404: ProblemOut})
    def get(self, _request: ApiRequest, key: uuid.UUID) -> Response:
        """A drill with all its evidence."""
        self.reader()
        return self.answer(key)


class DrillAnswerView(_Drills):
    @extend_schema(tags=["migration"], request=DrillAnswerIn, responses={200: DrillDetailOut, **_REFUSED})
    def post(self, _request: ApiRequest, key: uuid.UUID) -> Response:
        """Say that an operator did what the drill asks for, or skip the question."""
        self.administrator()
        drill, values = drill_or_404(key), self.values()
        if not isinstance(values.get("did"), bool):
            raise exceptions.ValidationError({"did": [_("true or false.")]})
        try:
            code = read_text(values, "question", limit=40)
        except WrongValue as error:
            raise exceptions.ValidationError({"question": [str(error)]}) from error
        self.change(lambda: starting.answer(drill=drill, code=code, did=values["did"], **self.who()))
        return self.answer(key)


class DrillCancelView(_Drills):
    @extend_schema(tags=["migration"], request=None, responses={200: DrillDetailOut, **_REFUSED})
    def post(self, _request: ApiRequest, key: uuid.UUID) -> Response:
        """Call it off: what is open is skipped, and all that it made is removed."""
        self.administrator()
        starting.cancel(drill=drill_or_404(key), **self.who())
        return self.answer(key)
