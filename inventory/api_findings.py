"""REST over findings, diagnosis tasks and platform contracts. Scope `inventory`.

Administrators and auditors read, administrators change.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from inventory import contract
from inventory.api import InventoryListView
from inventory.coverage import coverage_of
from inventory.findings import handling, search, words
from inventory.models import Cluster, DiagnosisTask, Finding, PlatformChange, PlatformContract
from inventory.views.findings import FindingRow, finding_rows
from portal.access import demand_administrator, may_read_everything
from portal.accounts import audit
from portal.accounts.models import ApiToken, User
from portal.api import ApiView, Problem

# --- what is answered ------------------------------------------------------------------------------


class FindingOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    cluster = serializers.CharField()
    kind = serializers.CharField()
    severity = serializers.CharField(help_text="`bad`, `warning` or `info`.")
    state = serializers.CharField(
        help_text="`new`, `acknowledged`, `snoozed`, `unknown` (what it needs is not observed) or `resolved`."
    )
    object_kind = serializers.CharField()
    namespace = serializers.CharField()
    name = serializers.CharField()
    subject = serializers.CharField(help_text="What identifies it from one check to the next.")
    code = serializers.CharField(help_text="Which sentence it is; `params` stand in it.")
    params = serializers.DictField()
    words = serializers.CharField(help_text="The sentence, in the caller's language.")
    since = serializers.DateTimeField(allow_null=True, help_text="When it began, as the cluster says.")
    first_seen_at = serializers.DateTimeField()
    last_seen_at = serializers.DateTimeField()
    unknown_since = serializers.DateTimeField(allow_null=True)
    resolved_at = serializers.DateTimeField(allow_null=True)
    acknowledged_at = serializers.DateTimeField(allow_null=True)
    handled_by = serializers.CharField(allow_null=True)
    snoozed_until = serializers.DateTimeField(allow_null=True)
    note = serializers.CharField()


class TaskOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    cluster = serializers.CharField()
    subject = serializers.CharField(help_text="The device.")
    finding = serializers.IntegerField(help_text="The latest finding that it is about.")
    words = serializers.CharField()
    state = serializers.CharField(help_text="`open`, `in-work` or `done`.")
    owner = serializers.CharField(allow_null=True)
    note = serializers.CharField()
    opened_at = serializers.DateTimeField()
    done_at = serializers.DateTimeField(allow_null=True)


class HandleIn(serializers.Serializer[Any]):
    note = serializers.CharField(required=False, default="", allow_blank=True, max_length=handling.MAX_NOTE)


class SnoozeIn(HandleIn):
    days = serializers.IntegerField(min_value=1, max_value=handling.MAX_SNOOZE.days)


class TaskIn(serializers.Serializer[Any]):
    state = serializers.ChoiceField(choices=DiagnosisTask.State.choices)
    owner = serializers.CharField(required=False, allow_null=True, default=None, help_text="A user name.")
    note = serializers.CharField(required=False, default="", allow_blank=True, max_length=handling.MAX_NOTE)


class TermsIn(serializers.Serializer[Any]):
    group = serializers.CharField(required=False, default="", allow_blank=True, max_length=63)
    kubernetes = serializers.CharField(required=False, default="", allow_blank=True, max_length=200)
    kubelet = serializers.CharField(required=False, default="", allow_blank=True, max_length=200)
    runtime = serializers.CharField(required=False, default="", allow_blank=True, max_length=200)
    drivers = serializers.DictField(child=serializers.CharField(max_length=200), required=False, default=dict)


class VersionOut(serializers.Serializer[Any]):
    version = serializers.CharField()
    count = serializers.IntegerField()
    admitted = serializers.BooleanField()


class PartOut(serializers.Serializer[Any]):
    part = serializers.CharField(help_text="`kubernetes`, `kubelet`, `runtime` or `driver:NAME`.")
    expected = serializers.CharField()
    observed = VersionOut(many=True)
    state = serializers.CharField(help_text="`met`, `broken`, `not-observed` or `not-expected`.")


class ChangeOut(serializers.Serializer[Any]):
    part = serializers.CharField()
    before = serializers.ListField(child=serializers.CharField(), allow_null=True)
    after = serializers.ListField(child=serializers.CharField())
    seen_at = serializers.DateTimeField()


class ContractOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    group = serializers.CharField()
    as_of = serializers.DateTimeField(allow_null=True)
    in_step = serializers.BooleanField(help_text="Whether what is observed is present fact.")
    parts = PartOut(many=True)
    changes = ChangeOut(many=True, help_text="The latest first.")


CHANGES_TOLD = 100


class _Guarded(ApiView):
    """Only for those who read everything; changes only by administrators."""

    required_scope = ApiToken.Scope.INVENTORY

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        _guard(self.person, changes=request.method not in {"GET", "HEAD", "OPTIONS"})

    def valid(self, kind: type[serializers.Serializer[Any]]) -> Mapping[str, Any]:
        """The body, checked. Raises a ValidationError."""
        serializer = kind(data=self.request.data)
        serializer.is_valid(raise_exception=True)
        values: Mapping[str, Any] = serializer.validated_data
        return values


def _guard(person: User, *, changes: bool) -> None:
    if changes:
        demand_administrator(person)
    if not may_read_everything(person):
        raise PermissionDenied(_("Only administrators and auditors may see this."))


# --- findings --------------------------------------------------------------------------------------

FINDING_PARAMETERS = [
    OpenApiParameter("state", str, enum=list(search.STATES), description="`new` unless given."),
    OpenApiParameter("kind", str),
    OpenApiParameter("severity", str),
    OpenApiParameter("cluster", str),
    OpenApiParameter("q", str, description="Words in the object's name, namespace or subject."),
]


@extend_schema_view(get=extend_schema(parameters=FINDING_PARAMETERS, tags=["findings"]))
class FindingListView(_Guarded, InventoryListView):
    """What is wrong, the latest first, by the filters of the page."""

    serializer_class = FindingOut
    ordering = ("-first_seen_at", "-id")  # type: ignore[assignment] # a tuple is as good

    def get_queryset(self) -> QuerySet[Finding]:
        if getattr(self, "swagger_fake_view", False):
            return Finding.objects.none()
        wanted = search.FindingFilter.parse(self.request.query_params)
        rows = wanted.rows(now=timezone.now()).select_related("cluster", "acknowledged_by")
        return rows.defer("cluster__kubeconfig_encrypted")

    def tell(self, page: Sequence[Finding]) -> Sequence[Any]:
        return [_finding(row) for row in finding_rows(page, now=timezone.now())]


class FindingDetailView(_Guarded):
    @extend_schema(responses=FindingOut, tags=["findings"])
    def get(self, _request: Request, pk: int) -> Response:
        """One finding."""
        return _answer(_get(pk))


class FindingAcknowledgeView(_Guarded):
    @extend_schema(request=HandleIn, responses=FindingOut, tags=["findings"])
    def post(self, request: Request, pk: int) -> Response:
        """Somebody knows of it."""
        values = self.valid(HandleIn)
        return _handled(request, pk, self.person, handling.acknowledge, note=values["note"])


class FindingSnoozeView(_Guarded):
    @extend_schema(request=SnoozeIn, responses=FindingOut, tags=["findings"])
    def post(self, request: Request, pk: int) -> Response:
        """Put it off for some days."""
        values = self.valid(SnoozeIn)
        until = timezone.now() + timedelta(days=values["days"])
        return _handled(request, pk, self.person, handling.snooze, note=values["note"], until=until)


class FindingReopenView(_Guarded):
    @extend_schema(request=None, responses=FindingOut, tags=["findings"])
    def post(self, request: Request, pk: int) -> Response:
        """Take back that it was acknowledged or put off."""
        return _handled(request, pk, self.person, handling.take_back)


def _get(pk: int) -> Finding:
    rows = Finding.objects.filter(opened_at__isnull=False).select_related("cluster", "acknowledged_by")
    return get_object_or_404(rows.defer("cluster__kubeconfig_encrypted"), pk=pk)


def _handled(request: Request, pk: int, actor: User, change: Any, **values: Any) -> Response:
    try:
        change(
            finding=_get(pk),
            actor=actor,
            now=timezone.now(),
            source_ip=audit.source_ip(request),
            **values,
        )
    except handling.UnableToHandle as refused:
        raise Problem(refused.message, code="not_now", field=refused.field, status_code=409) from refused
    return _answer(_get(pk))


def _answer(finding: Finding) -> Response:
    (row,) = finding_rows([finding], now=timezone.now())
    return Response(FindingOut(_finding(row)).data)


def _finding(row: FindingRow) -> dict[str, Any]:
    finding = row.finding
    names = (
        *("id", "kind", "severity", "object_kind", "namespace", "name", "subject", "code", "params", "since"),
        *("first_seen_at", "last_seen_at", "unknown_since", "resolved_at", "acknowledged_at"),
        *("snoozed_until", "note"),
    )
    return {
        **{name: getattr(finding, name) for name in names},
        "cluster": finding.cluster.name,
        "state": row.state,
        "words": row.words,
        "handled_by": finding.acknowledged_by.username if finding.acknowledged_by else None,
    }


# --- diagnosis tasks -------------------------------------------------------------------------------


@extend_schema_view(
    get=extend_schema(
        parameters=[OpenApiParameter("state", str, enum=DiagnosisTask.State.values)], tags=["findings"]
    )
)
class TaskListView(_Guarded, InventoryListView):
    """Diagnosis tasks, the latest first; those that are not done unless `state` says otherwise."""

    serializer_class = TaskOut
    ordering = ("-opened_at", "-id")  # type: ignore[assignment] # a tuple is as good

    def get_queryset(self) -> QuerySet[DiagnosisTask]:
        state = self.request.GET.get("state", "")
        tasks = _tasks()
        return (
            tasks.filter(state=state) if state in DiagnosisTask.State.values else tasks.filter(done_at=None)
        )

    def tell(self, page: Sequence[DiagnosisTask]) -> Sequence[Any]:
        return [_task(task) for task in page]


class TaskDetailView(_Guarded):
    @extend_schema(responses=TaskOut, tags=["findings"])
    def get(self, _request: Request, pk: int) -> Response:
        """One diagnosis task."""
        return Response(TaskOut(_task(get_object_or_404(_tasks(), pk=pk))).data)

    @extend_schema(request=TaskIn, responses=TaskOut, tags=["findings"])
    def put(self, request: Request, pk: int) -> Response:
        """Give it a state, an owner and a note."""
        task = get_object_or_404(_tasks(), pk=pk)
        values = self.valid(TaskIn)
        owner = User.objects.filter(username=values["owner"]).first() if values["owner"] else None
        if values["owner"] and owner is None:
            raise serializers.ValidationError({"owner": _("There is no such person.")})
        try:
            handling.change_task(
                task=task,
                state=values["state"],
                owner=owner,
                note=values["note"],
                actor=self.person,
                now=timezone.now(),
                source_ip=audit.source_ip(request),
            )
        except handling.UnableToHandle as refused:
            raise Problem(refused.message, code="not_now", field=refused.field, status_code=409) from refused
        return Response(TaskOut(_task(_tasks().get(pk=pk))).data)


def _tasks() -> QuerySet[DiagnosisTask]:
    return DiagnosisTask.objects.select_related("cluster", "finding", "owner").defer(
        "cluster__kubeconfig_encrypted"
    )


def _task(task: DiagnosisTask) -> dict[str, Any]:
    return {
        "id": task.pk,
        "cluster": task.cluster.name,
        "subject": task.subject,
        "finding": task.finding_id,
        "words": words.in_words(task.finding),
        "state": task.state,
        "owner": task.owner.username if task.owner else None,
        "note": task.note,
        "opened_at": task.opened_at,
        "done_at": task.done_at,
    }


# --- contracts -------------------------------------------------------------------------------------


class ContractView(_Guarded):
    @extend_schema(responses=ContractOut, tags=["findings"])
    def get(self, _request: Request, name: str) -> Response:
        """What a cluster should run, what it runs, and what changed lately."""
        return _contract(_cluster(name))

    @extend_schema(request=TermsIn, responses=ContractOut, tags=["findings"])
    def put(self, request: Request, name: str) -> Response:
        """Write the contract anew: what is left out is no longer expected."""
        cluster = _cluster(name)
        terms = contract.Terms(**self.valid(TermsIn))
        try:
            contract.save(
                cluster=cluster,
                terms=terms,
                actor=self.person,
                now=timezone.now(),
                source_ip=audit.source_ip(request),
            )
        except contract.UnableToSaveContract as refused:
            raise serializers.ValidationError({refused.field: refused.message}) from refused
        return _contract(cluster)


def _cluster(name: str) -> Cluster:
    return get_object_or_404(Cluster.objects.defer("kubeconfig_encrypted"), name=name)


def _contract(cluster: Cluster) -> Response:
    found = PlatformContract.objects.filter(cluster=cluster).first()
    coverage = coverage_of(cluster, cluster.streams.all(), now=timezone.now())
    changes = PlatformChange.objects.filter(cluster=cluster).order_by("-seen_at", "-pk")[:CHANGES_TOLD]
    told = {
        "cluster": cluster.name,
        "group": found.group if found else "",
        "as_of": coverage.as_of,
        "in_step": coverage.in_step,
        "parts": contract.compare(found, contract.observe(cluster)),
        "changes": list(changes),
    }
    return Response(ContractOut(told).data)
