"""REST of node pools that go from a Device Plugin to DRA, under /api/v1/."""

from collections.abc import Callable
from typing import Any, TypeVar

from django.db.models import QuerySet
from django.http import Http404
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import exceptions, serializers, status
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims.asks.reading import WrongValue, read_flag, read_integer, read_text
from claims.models import Placement, PoolPlan, PoolPlanEntry
from claims.money.costs import Period
from claims.poolmoves import checklist, export, planner, plans, stages, switching
from claims.poolmoves.plans import UnableToPlan
from claims.rest.answers import ProblemOut
from claims.views.poolmoves import plan_or_404
from claims.views.statements import zone
from portal.accounts.models import ApiToken
from portal.api import ApiListView, ApiView, Problem

Scope = ApiToken.Scope
T = TypeVar("T")


class PoolPlanIn(serializers.Serializer[Any]):
    """A node pool that goes from a Device Plugin to DRA. Judged by the same rules as the form."""

    cluster = serializers.CharField()
    name = serializers.CharField(max_length=63)
    labels = serializers.DictField(child=serializers.CharField(), help_text="Labels of its nodes.")
    canary_labels = serializers.DictField(
        child=serializers.CharField(), required=False, help_text="Labels of the nodes where DRA is tried."
    )
    extended_resource = serializers.CharField(help_text='Such as "nvidia.com/gpu".')
    device_class = serializers.CharField()
    driver = serializers.CharField(
        required=False, allow_blank=True, help_text="Empty: any driver of the vendor."
    )
    way = serializers.ChoiceField(choices=PoolPlan.Way.choices, required=False, allow_blank=True)
    reason = serializers.CharField(
        required=False, allow_blank=True, help_text="The reason of the business; needed before the canary."
    )


class PoolPlanOut(PoolPlanIn):
    id = serializers.IntegerField(source="pk")
    cluster = serializers.CharField(source="cluster.name")
    stage = serializers.ChoiceField(choices=PoolPlan.Stage.choices)
    version = serializers.IntegerField(help_text="Send it with a change: an older one is refused.")
    created_at = serializers.DateTimeField()
    changed_at = serializers.DateTimeField()


class PoolPlanChangeIn(PoolPlanIn):
    version = serializers.IntegerField(min_value=1, help_text="That of the plan that was looked at.")


class PoolStageIn(serializers.Serializer[Any]):
    stage = serializers.ChoiceField(choices=PoolPlan.Stage.choices)
    why = serializers.CharField(max_length=stages.MAX_WHY)
    version = serializers.IntegerField(min_value=1)


class PoolSwitchIn(serializers.Serializer[Any]):
    to = serializers.ChoiceField(
        choices=Placement.Stage.choices, required=False, help_text="Left out: as the pool's stage asks for."
    )
    undo = serializers.IntegerField(required=False, help_text="Back to before this entry of the history.")
    seen = serializers.CharField(help_text="`seen` of the effect that was looked at.")
    why = serializers.CharField(max_length=stages.MAX_WHY)


class PoolSignIn(serializers.Serializer[Any]):
    item = serializers.ChoiceField(choices=[item.key for item in checklist.ITEMS if item.signable])
    note = serializers.CharField(max_length=checklist.MAX_NOTE)
    settled = serializers.BooleanField(default=True, help_text="false: it no longer holds.")


class PlannerOut(PoolPlanOut):
    """The plan with all that the mirror shows; null stands for what has no data."""

    in_step = serializers.BooleanField()
    as_of = serializers.DateTimeField(allow_null=True)
    period = serializers.DictField()
    inventories = serializers.DictField(help_text="Both inventories node by node, with each difference.")
    depends_on_plugin = serializers.DictField(help_text="Workloads, quotas, queues, classes.")
    pods = serializers.DictField(help_text="Of the canary and of the other nodes.")
    billing = serializers.DictField(help_text="Of the canary and of the other nodes, same period.")
    flavors = serializers.ListField(child=serializers.DictField())
    checklist = serializers.ListField(child=serializers.DictField())
    history = serializers.ListField(child=serializers.DictField())


class PoolEffectOut(serializers.Serializer[Any]):
    seen = serializers.CharField()
    places = serializers.ListField(child=serializers.DictField())


class PoolEntryOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    kind = serializers.ChoiceField(choices=PoolPlanEntry.Kind.choices)
    at = serializers.DateTimeField()
    person = serializers.CharField(allow_null=True)
    why = serializers.CharField()
    facts = serializers.DictField()


_POOL = {
    "cluster": "main",
    "name": "a100",
    "labels": {"cloud.example.org/pool": "a100"},
    "canary_labels": {"cloud.example.org/pool": "a100-canary"},
    "extended_resource": "nvidia.com/gpu",
    "device_class": "gpu.nvidia.com",
    "driver": "gpu.nvidia.com",
    "way": "dra",
    "reason": "Groups share cards by memory, which the plugin cannot bill.",
}
EXAMPLE = OpenApiExample("A pool of A100 nodes", value=_POOL, request_only=True)
CHANGE_EXAMPLE = OpenApiExample(
    "A pool of A100 nodes, as it was looked at", value={**_POOL, "version": 3}, request_only=True
)
SWITCH_EXAMPLE = OpenApiExample(
    "To DRA, as it was looked at",
    value={"to": "dra", "seen": "0123456789abcdef0123456789abcdef", "why": "The canary ran for a week."},
    request_only=True,
)
_REFUSED = {400: ProblemOut, 403: ProblemOut, 404: ProblemOut, 409: ProblemOut}
_PERIOD = [
    OpenApiParameter("from", OpenApiTypes.STR, description="Beginning of the period that is compared."),
    OpenApiParameter("to", OpenApiTypes.STR, description="Its end; without both, this month."),
]


class _Plans(ApiView):
    # Changing something needs the scope of administration: `portal.rest_defaults`.
    required_scope = Scope.INVENTORY

    def text(self, name: str, limit: int) -> str:
        """A text of the body."""
        try:
            return read_text(self.values(), name, limit=limit)
        except WrongValue as error:
            raise exceptions.ValidationError({name: [str(error)]}) from error

    def number(self, name: str) -> int | None:
        """A whole number of the body."""
        try:
            return read_integer(self.values(), name)
        except WrongValue as error:
            raise exceptions.ValidationError({name: [str(error)]}) from error

    def change(self, change: Callable[[], T]) -> T:
        """Makes the change; what the domain refuses becomes a problem document."""
        try:
            return change()
        except UnableToPlan as error:
            if error.conflict:
                said = " ".join(text for many in error.errors.values() for text in many)
                raise Problem(said, code="conflict", status_code=409) from error
            raise exceptions.ValidationError(error.errors) from error

    def look(self, plan: PoolPlan) -> planner.Planner:
        now = timezone.now()
        period = Period.parse(self.request.query_params, now=now, zone=zone())
        if period.errors:
            raise exceptions.ValidationError(dict(period.errors))
        return planner.look(plan, start=period.start, end=period.end, now=now)

    def answer(self, plan: PoolPlan) -> Response:
        return Response(export.document(self.look(plan), entries=planner.history(plan)))


@extend_schema_view(get=extend_schema(tags=["migration"]))
class MigrationListView(ApiListView, _Plans):
    """Node pools with their stage; for administrators and auditors."""

    serializer_class = PoolPlanOut
    ordering = ("id",)

    def get_queryset(self) -> QuerySet[PoolPlan]:
        if getattr(self, "swagger_fake_view", False):
            return PoolPlan.objects.none()
        self.reader()
        return PoolPlan.objects.select_related("cluster").order_by("id")

    @extend_schema(
        tags=["migration"],
        request=PoolPlanIn,
        responses={201: PoolPlanOut, **_REFUSED},
        examples=[EXAMPLE],
    )
    def post(self, _request: ApiRequest) -> Response:
        """Plan a further pool."""
        self.administrator()
        terms = self.change(lambda: plans.read_plan(self.values()))
        made = self.change(lambda: plans.save(plan=None, terms=terms, **self.who()))
        return Response(PoolPlanOut(made).data, status=status.HTTP_201_CREATED)


class MigrationDetailView(_Plans):
    @extend_schema(tags=["migration"], parameters=_PERIOD, responses={200: PlannerOut, **_REFUSED})
    def get(self, _request: ApiRequest, pk: int) -> Response:
        """One pool: both inventories, what depends on the plugin, Pods, billing, flavors, checklist."""
        self.reader()
        return self.answer(plan_or_404(pk))

    @extend_schema(
        tags=["migration"],
        request=PoolPlanChangeIn,
        responses={200: PoolPlanOut, **_REFUSED},
        examples=[CHANGE_EXAMPLE],
    )
    def put(self, _request: ApiRequest, pk: int) -> Response:
        """Change what the plan says: what is left out becomes empty."""
        self.administrator()
        plan, version = plan_or_404(pk), self.number("version") or 0
        terms = self.change(lambda: plans.read_plan(self.values()))
        saved = self.change(lambda: plans.save(plan=plan, terms=terms, seen_version=version, **self.who()))
        return Response(PoolPlanOut(saved).data)

    @extend_schema(tags=["migration"], responses={204: None, **_REFUSED})
    def delete(self, _request: ApiRequest, pk: int) -> Response:
        """Drop the plan with its history and drills."""
        self.administrator()
        plan = plan_or_404(pk)
        self.change(lambda: plans.remove(plan=plan, **self.who()))
        return Response(status=status.HTTP_204_NO_CONTENT)


class MigrationStageView(_Plans):
    @extend_schema(tags=["migration"], request=PoolStageIn, responses={200: PoolPlanOut, **_REFUSED})
    def post(self, _request: ApiRequest, pk: int) -> Response:
        """One stage on, when its checklist is settled; or back."""
        self.administrator()
        plan = plan_or_404(pk)
        to, why = self.text("stage", 20), self.text("why", stages.MAX_WHY)
        version, points = self.number("version") or 0, list(self.look(plan).points)
        self.change(
            lambda: stages.move(plan=plan, to=to, why=why, seen_version=version, points=points, **self.who())
        )
        return Response(PoolPlanOut(plan).data)


class MigrationSwitchView(_Plans):
    @extend_schema(
        tags=["migration"],
        parameters=[
            OpenApiParameter("to", OpenApiTypes.STR, enum=Placement.Stage.values),
            OpenApiParameter("undo", OpenApiTypes.INT, description="An entry of the history."),
        ],
        responses={200: PoolEffectOut, **_REFUSED},
    )
    def get(self, _request: ApiRequest, pk: int) -> Response:
        """What switching the pool's flavors would do; nothing is changed."""
        self.reader()
        asked = self.request.query_params
        effect, _undoes = self.effect(plan_or_404(pk), to=asked.get("to", ""), undo=asked.get("undo", ""))
        return Response(export.effect_document(effect))

    @extend_schema(
        tags=["migration"],
        request=PoolSwitchIn,
        responses={200: PoolEntryOut, **_REFUSED},
        examples=[SWITCH_EXAMPLE],
    )
    def post(self, _request: ApiRequest, pk: int) -> Response:
        """Do what was looked at: 409 where it would no longer be the same."""
        self.administrator()
        plan, to, undo = plan_or_404(pk), self.text("to", 20), self.text("undo", 18)
        seen, why = self.text("seen", 64), self.text("why", stages.MAX_WHY)
        effect, undoes = self.effect(plan, to=to, undo=undo)
        entry = self.change(
            lambda: switching.apply(plan=plan, found=effect, seen=seen, why=why, undoes=undoes, **self.who())
        )
        return Response(export.entry_document(entry))

    def effect(self, plan: PoolPlan, *, to: str, undo: str) -> tuple[switching.Effect, PoolPlanEntry | None]:
        """The effect of what is asked for."""
        members = planner.members_now(plan)
        rows = switching.places_in(plan, members)
        undoes = None
        if undo:
            known = undo.isascii() and undo.isdigit() and len(undo) < 18
            entries = plan.entries.filter(kind=PoolPlanEntry.Kind.SWITCH)
            undoes = entries.filter(pk=int(undo)).first() if known else None
            if undoes is None or undoes.pk in switching.undone(plan):
                raise Http404
        if undoes is not None:
            targets = switching.targets_back(undoes, rows)
        elif to:
            targets = self.change(lambda: switching.targets_for(rows, to))
        else:
            targets = switching.targets_of(plan, rows, members)
        return switching.effect(plan, members, targets=targets, rows=rows), undoes


class MigrationSignView(_Plans):
    @extend_schema(tags=["migration"], request=PoolSignIn, responses={200: PlannerOut, **_REFUSED})
    def post(self, _request: ApiRequest, pk: int) -> Response:
        """Sign for a point of the checklist, or take it back."""
        self.administrator()
        plan, item, note = plan_or_404(pk), self.text("item", 40), self.text("note", checklist.MAX_NOTE)
        settled = read_flag(self.values(), "settled") if "settled" in self.values() else True
        self.change(lambda: checklist.sign(plan=plan, item=item, note=note, settled=settled, **self.who()))
        return self.answer(plan)
