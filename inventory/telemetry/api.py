"""REST over where a cluster's metrics come from, and over what its drivers say of themselves.

Everybody reads what drivers say (scope `inventory`); the source and its queries are for administrators and
auditors to read, and for administrators to change (scope `administration`). Tokens are never told.
"""

from collections.abc import Mapping
from typing import Any

from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from inventory.models import Cluster, MetricQuery, MetricSource
from inventory.telemetry import configuring, reading
from inventory.telemetry.asking import Address
from inventory.telemetry.configuring import UnableToConfigure, WantedQuery, WantedSource
from inventory.telemetry.problems import Problem, UnableToAsk
from inventory.telemetry.showing import monitoring_of
from inventory.telemetry.trying import BAD, EMPTY, GOOD, LEFT_OUT, try_out
from inventory.views.monitoring import queries_to_try
from portal.accounts import audit
from portal.accounts.models import ApiToken
from portal.api import ApiView
from portal.api import Problem as Refusal

TRIAL_STATES = ((GOOD, GOOD), (EMPTY, EMPTY), (BAD, BAD), (LEFT_OUT, LEFT_OUT))


class MonitoringProblemOut(serializers.Serializer[Any]):
    code = serializers.CharField(help_text="Stable: `timeout`, `denied`, `rejected`, `no-device`, …")
    said = serializers.CharField(help_text="The cause, in the caller's language.")
    cure = serializers.CharField(help_text="The way out.")


class MetricQueryIn(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=configuring.MAX_NAME)
    kind = serializers.ChoiceField(choices=MetricQuery.Kind.choices, default=MetricQuery.Kind.DRIVERS)
    expression = serializers.CharField(
        max_length=configuring.MAX_EXPRESSION,
        help_text="PromQL; `$cluster` stands for the label that tells the cluster.",
    )
    unit = serializers.ChoiceField(choices=MetricQuery.Unit.choices, default=MetricQuery.Unit.NUMBER)
    subject_label = serializers.CharField(
        max_length=63, required=False, default="", allow_blank=True, source="label",
        help_text="Names the device, or the driver.",
    )  # fmt: skip
    node_label = serializers.CharField(
        max_length=63, required=False, default="", allow_blank=True,
        help_text="Names the node, where the device is named by its PCI address.",
    )  # fmt: skip
    enabled = serializers.BooleanField(default=True)


class MetricQueryOut(MetricQueryIn):
    id = serializers.IntegerField()
    answered_at = serializers.DateTimeField(allow_null=True)
    samples = serializers.IntegerField(help_text="How many it brought last; 0: no data.")
    matched = serializers.IntegerField(help_text="Devices of the mirror among them.")
    strangers = serializers.ListField(child=serializers.CharField(), help_text="Some that are none.")
    read_until = serializers.DateTimeField(allow_null=True)
    problem = MonitoringProblemOut(allow_null=True)


class MonitoringIn(serializers.Serializer[Any]):
    url = serializers.CharField(max_length=configuring.MAX_URL)
    token = serializers.CharField(
        max_length=configuring.MAX_TOKEN, required=False, allow_null=True, default=None, allow_blank=True,
        write_only=True, help_text="Left out: as it is. Empty: none.",
    )  # fmt: skip
    ca = serializers.CharField(
        max_length=configuring.MAX_CA, required=False, default="", allow_blank=True, help_text="PEM."
    )
    cluster_label = serializers.CharField(
        max_length=63, required=False, default="", allow_blank=True, source="label",
        help_text="What tells the cluster from others; put for `$cluster` in every query.",
    )  # fmt: skip
    cluster_value = serializers.CharField(
        max_length=253, required=False, default="", allow_blank=True, source="label_value"
    )
    enabled = serializers.BooleanField(default=True)
    idle_percent = serializers.IntegerField(default=5, min_value=1, max_value=100)
    idle_hours = serializers.IntegerField(
        default=0, min_value=0, max_value=configuring.MAX_IDLE_HOURS, help_text="0: nobody is told."
    )
    keep_days = serializers.IntegerField(
        default=60, min_value=configuring.KEPT_DAYS[0], max_value=configuring.KEPT_DAYS[1]
    )


class MonitoringOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    url = serializers.CharField()
    with_token = serializers.BooleanField()
    ca = serializers.CharField()
    cluster_label = serializers.CharField(source="label")
    cluster_value = serializers.CharField(source="label_value")
    enabled = serializers.BooleanField()
    idle_percent = serializers.IntegerField()
    idle_hours = serializers.IntegerField()
    keep_days = serializers.IntegerField()
    answered_at = serializers.DateTimeField(allow_null=True)
    failures = serializers.IntegerField(help_text="In a row.")
    due_at = serializers.DateTimeField(allow_null=True)
    use_known_since = serializers.DateTimeField(allow_null=True)
    problem = MonitoringProblemOut(allow_null=True)
    queries = MetricQueryOut(many=True)


class TrialOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    state = serializers.ChoiceField(choices=TRIAL_STATES)
    said = serializers.CharField()
    cure = serializers.CharField()


class MonitoringTrialOut(serializers.Serializer[Any]):
    results = TrialOut(many=True)


class DriverMetricOut(serializers.Serializer[Any]):
    driver = serializers.CharField(help_text="Empty: of no single driver.")
    name = serializers.CharField()
    labels = serializers.CharField()
    value = serializers.FloatField()
    unit = serializers.ChoiceField(choices=MetricQuery.Unit.choices)
    read_at = serializers.DateTimeField(allow_null=True)
    stale = serializers.BooleanField(help_text="It does not tell of the present.")


class DriverMetricsOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    configured = serializers.BooleanField()
    answered_at = serializers.DateTimeField(allow_null=True)
    results = DriverMetricOut(many=True)
    no_data = serializers.ListField(
        child=serializers.CharField(), help_text="Queries that brought nothing, which is not zero."
    )


_EXAMPLE = OpenApiExample(
    "a Prometheus of several clusters",
    value={
        "url": "https://prometheus.example.org",
        "token": "…",
        "cluster_label": "cluster",
        "cluster_value": "berlin",
        "idle_percent": 5,
        "idle_hours": 12,
    },
    request_only=True,
)


class _Guarded(ApiView):
    """Read by administrators and auditors, changed by administrators."""

    required_scope = ApiToken.Scope.INVENTORY

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if request.method in {"GET", "HEAD", "OPTIONS"}:
            self.reader()
        else:
            self.administrator()

    def valid(self, kind: type[serializers.Serializer[Any]]) -> Mapping[str, Any]:
        """The body, checked. Raises a ValidationError."""
        serializer = kind(data=self.request.data)
        serializer.is_valid(raise_exception=True)
        values: Mapping[str, Any] = serializer.validated_data
        return values


class MonitoringView(_Guarded):
    @extend_schema(responses=MonitoringOut, tags=["monitoring"])
    def get(self, _request: Request, name: str) -> Response:
        """Where the metrics of a cluster come from, and how asking goes."""
        return Response(_told(_source(name)))

    @extend_schema(request=MonitoringIn, responses=MonitoringOut, tags=["monitoring"], examples=[_EXAMPLE])
    def put(self, request: Request, name: str) -> Response:
        """Say where they come from; a new source begins with the default queries."""
        try:
            configuring.save(
                cluster=_cluster(name),
                wanted=WantedSource(**self.valid(MonitoringIn)),
                actor=self.person,
                now=timezone.now(),
                source_ip=audit.source_ip(request),
            )
        except UnableToConfigure as refused:
            raise _invalid(refused, "url") from refused
        return Response(_told(_source(name)))

    @extend_schema(responses={204: None}, tags=["monitoring"])
    def delete(self, request: Request, name: str) -> Response:
        """Forget the source and its queries; what was measured stays for its time."""
        configuring.remove(
            source=_source(name),
            actor=self.person,
            now=timezone.now(),
            source_ip=audit.source_ip(request),
        )
        return Response(status=204)


class MonitoringTryView(_Guarded):
    required_scope = ApiToken.Scope.ADMINISTRATION
    post_talks_to_cluster = True

    @extend_schema(
        request=MonitoringIn, responses=MonitoringTrialOut, tags=["monitoring"], examples=[_EXAMPLE]
    )
    def post(self, _request: Request, name: str) -> Response:
        """Ask an address on trial, with the queries of the cluster's source. Nothing is saved."""
        cluster = _cluster(name)
        source = MetricSource.objects.filter(cluster=cluster).first()
        try:
            wanted = configuring.checked(WantedSource(**self.valid(MonitoringIn)), source=source)
        except UnableToConfigure as refused:
            raise _invalid(refused, "url") from refused
        token = wanted.token or ""
        if wanted.token is None and source is not None:
            try:
                token = reading.address_of(source).token
            except UnableToAsk as unable:
                raise Refusal(str(unable), code=unable.problem.code, status_code=409) from None
        tried = try_out(
            cluster=cluster,
            address=Address(wanted.url, token=token, ca=wanted.ca),
            label=wanted.label,
            label_value=wanted.label_value,
            queries=queries_to_try(source),
            now=timezone.now(),
        )
        return Response(MonitoringTrialOut({"results": tried}).data)


class MonitoringQueriesView(_Guarded):
    required_scope = ApiToken.Scope.ADMINISTRATION

    @extend_schema(request=MetricQueryIn, responses={201: MetricQueryOut}, tags=["monitoring"])
    def post(self, request: Request, name: str) -> Response:
        """Add a query."""
        return Response(_saved(self, request, _source(name), None), status=201)


class MonitoringQueryView(_Guarded):
    @extend_schema(request=MetricQueryIn, responses=MetricQueryOut, tags=["monitoring"])
    def put(self, request: Request, name: str, pk: int) -> Response:
        """Change a query."""
        source = _source(name)
        return Response(_saved(self, request, source, get_object_or_404(source.queries, pk=pk)))

    @extend_schema(responses={204: None}, tags=["monitoring"])
    def delete(self, request: Request, name: str, pk: int) -> Response:
        """Remove a query; what it measured stays for its time."""
        rows = _source(name).queries.select_related("source__cluster")
        configuring.remove_query(
            query=get_object_or_404(rows, pk=pk),
            actor=self.person,
            now=timezone.now(),
            source_ip=audit.source_ip(request),
        )
        return Response(status=204)


class DriverMetricsView(ApiView):
    required_scope = ApiToken.Scope.INVENTORY

    @extend_schema(responses=DriverMetricsOut, tags=["monitoring"])
    def get(self, _request: Request, name: str) -> Response:
        """What drivers and Kubernetes said of themselves when they were read last."""
        cluster = _cluster(name)
        found = monitoring_of(cluster, now=timezone.now())
        results = [
            {
                "driver": driver.driver,
                "name": answer.query.name,
                "labels": figure.about,
                "value": figure.value,
                "unit": figure.unit,
                "read_at": answer.query.answered_at,
                "stale": answer.stale,
            }
            for driver in (found.drivers if found else ())
            for answer in driver.answers
            for figure in answer.figures
        ]
        told = {
            "cluster": cluster.name,
            "configured": found is not None,
            "answered_at": found.source.answered_at if found else None,
            "results": results,
            "no_data": [answer.query.name for answer in (found.silent if found else ())],
        }
        return Response(DriverMetricsOut(told).data)


def _invalid(refused: UnableToConfigure, whole: str) -> serializers.ValidationError:
    called = {
        "label": "subject_label" if whole == "name" else "cluster_label",
        "label_value": "cluster_value",
    }
    return serializers.ValidationError({called.get(refused.field, refused.field) or whole: refused.message})


def _saved(view: _Guarded, request: Request, source: MetricSource, query: MetricQuery | None) -> Any:
    try:
        saved = configuring.save_query(
            source=source,
            wanted=WantedQuery(**view.valid(MetricQueryIn)),
            query=query,
            actor=view.person,
            now=timezone.now(),
            source_ip=audit.source_ip(request),
        )
    except UnableToConfigure as refused:
        raise _invalid(refused, "name") from refused
    return MetricQueryOut(_query(saved)).data


def _told(source: MetricSource) -> Any:
    names = (
        *("url", "ca", "label", "label_value", "enabled", "idle_percent", "idle_hours", "keep_days"),
        *("answered_at", "failures", "due_at"),
    )
    told = {name: getattr(source, name) for name in names} | {
        "cluster": source.cluster.name,
        "with_token": source.token_encrypted is not None,
        "use_known_since": source.since,
        "problem": _problem(source),
        "queries": [_query(query) for query in source.queries.order_by("position", "pk")],
    }
    return MonitoringOut(told).data


def _query(query: MetricQuery) -> dict[str, Any]:
    names = (
        *("id", "name", "kind", "expression", "unit", "label", "node_label", "enabled"),
        *("answered_at", "samples", "matched", "strangers", "read_until"),
    )
    return {name: getattr(query, name) for name in names} | {"problem": _problem(query)}


def _problem(row: MetricSource | MetricQuery) -> dict[str, str] | None:
    problem = Problem.read(row.problem)
    return (
        problem
        if problem is None
        else {"code": problem.code, "said": str(problem.said), "cure": str(problem.cure)}
    )


def _source(name: str) -> MetricSource:
    rows = MetricSource.objects.select_related("cluster").defer("cluster__kubeconfig_encrypted")
    return get_object_or_404(rows, cluster__name=name)


def _cluster(name: str) -> Cluster:
    return get_object_or_404(Cluster.objects.defer("kubeconfig_encrypted"), name=name)
