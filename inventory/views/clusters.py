"""Clusters: how far the mirror is in step with each, what went wrong, and adding or pausing one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.core.paginator import Paginator
from django.db.models import Count, QuerySet
from django.http import Http404, HttpRequest, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from inventory import contract
from inventory import inner_tables as inner
from inventory.counted import CountedResource, counted_resources
from inventory.coverage import Coverage, coverage_of, coverage_of_all
from inventory.models import Cluster, DeviceTaintRule, Node, Pool, Stream, SyncProblem
from inventory.tallies import Tally, tallies
from inventory.telemetry.showing import monitoring_of
from portal import csvs, htmx, lists, tables
from portal.access import may_administer, may_read_everything, person
from portal.lists import Choice, Column, Listing

PROBLEMS_SHOWN = 50
POOLS_SHOWN = 50
RULES_SHOWN = 50
NODES_PER_PAGE = 25
# The order in which a person asks: what is there, who has it, what surrounds it.
RESOURCE_ORDER = (
    "resourceslices",
    "deviceclasses",
    "resourceclaims",
    "resourceclaimtemplates",
    "pods",
    "nodes",
    "devicetaintrules",
    "namespaces",
    "resourcequotas",
    "jobs",
)


@dataclass(frozen=True)
class ClusterRow:
    cluster: Cluster
    coverage: Coverage
    tally: Tally
    nodes: int
    problems: int


@dataclass(frozen=True)
class StreamRow:
    stream: Stream
    # Objects of it that could not be read.
    problems: int


@dataclass(frozen=True)
class CountedRow:
    node: Node
    units: Sequence[CountedResource]


@dataclass(frozen=True)
class ProblemRow:
    """An object that could not be read; of a project's objects only those who read everything see which."""

    problem: SyncProblem
    name: str
    path: str
    reason: str


LISTING = Listing(
    "clusters",
    columns=(
        Column("name", _("Cluster"), order=("name",), fixed=True),
        Column("state", _("State"), order=("state", "name")),
        Column("version", _("Kubernetes"), order=("server_version", "name")),
        Column("nodes", _("Nodes"), css="cd-number"),
        Column("devices", _("Devices"), css="cd-number"),
        Column("use", _("In use")),
        Column("problems", _("Problems"), css="cd-number"),
        Column("region", _("Region"), order=("region", "name"), shown=False),
        Column("contact", _("Last contact"), order=("contacted_at",), shown=False, nullable=True),
    ),
    facets=(
        Choice("state", _("State"), column="state", labels=dict(Cluster.State.choices)),
        Choice("region", _("Region"), column="region"),
    ),
    search=("name", "region", "server_version"),
    sort="name",
)
CSV_HEADER = (
    *("cluster", "region", "state", "in_step", "as_of", "kubernetes", "nodes"),
    *("free", "partly", "held", "unavailable", "unknown", "partitions", "problems"),
)


@require_safe
def cluster_list(request: HttpRequest) -> HttpResponseBase:
    """All clusters with their state; a fixed number of queries."""
    if (chosen := LISTING.remembered(request)) is not None:
        return chosen
    state = LISTING.read(request)
    clusters = state.narrowed(Cluster.objects.only("pk"))
    if state.wants_csv:
        rows = cluster_rows(list(state.ordered(clusters)))
        return csvs.download("clusters.csv", CSV_HEADER, map(_line, rows))
    page = state.page(clusters)
    context = {
        "page": page,
        "rows": cluster_rows(list(page.object_list)),
        "facets": state.facets(Cluster.objects.all()),
        "may_administer": may_administer(person(request)),
    }
    return lists.answer(request, "inventory/cluster_list.html", context, state=state, partial="clusters")


def cluster_rows(clusters: Sequence[Cluster]) -> list[ClusterRow]:
    """What the list tells of these clusters."""
    coverage = coverage_of_all(now=timezone.now())
    counted = tallies(coverage)
    nodes = dict(Node.objects.order_by().values_list("cluster").annotate(Count("pk")))
    problems = dict(SyncProblem.objects.order_by().values_list("cluster").annotate(Count("pk")))
    return [
        ClusterRow(
            cluster=coverage[pk].cluster,
            coverage=coverage[pk],
            tally=counted[pk],
            nodes=nodes.get(pk, 0),
            problems=problems.get(pk, 0),
        )
        for pk in (cluster.pk for cluster in clusters)
        if pk in coverage
    ]


def _line(row: ClusterRow) -> tuple[Any, ...]:
    counts = row.tally.whole
    return (
        *(row.cluster.name, row.cluster.region, row.cluster.state, row.coverage.in_step),
        row.coverage.as_of.isoformat() if row.coverage.as_of else "",
        *(row.cluster.server_version, row.nodes),
        *(counts.get(state, 0) for state in ("free", "partly", "held", "unavailable", "unknown")),
        *(row.tally.partition_total, row.problems),
    )


@require_safe
def cluster_detail(request: HttpRequest, name: str) -> HttpResponseBase:
    """One cluster: the state of every stream, what could not be read, pools that are unfit, counted units."""
    if (back := tables.remembered(request, inner.OF_CLUSTER)) is not None:
        return back
    cluster = get_object_or_404(Cluster.objects.defer("kubeconfig_encrypted"), name=name)
    if wanted := tables.csv_wanted(request):
        return _csv(wanted, cluster, sees_all=may_read_everything(person(request)))
    streams = sorted(cluster.streams.all(), key=_stream_place)
    coverage = coverage_of(cluster, streams, now=timezone.now())
    viewer = person(request)
    problems = cluster.problems.order_by("-seen_at", "pk")
    troubled = dict(problems.order_by().values_list("resource").annotate(Count("pk")))
    unfit = _unfit(cluster)
    advertising = _advertising(cluster)
    page = Paginator(advertising, NODES_PER_PAGE).get_page(request.GET.get("page"))
    counted = counted_resources(list(page.object_list))
    context = {
        "cluster": cluster,
        "coverage": coverage,
        "streams": [StreamRow(stream, troubled.get(stream.resource, 0)) for stream in streams],
        "contract": contract.summary(cluster) if may_read_everything(viewer) else None,
        "monitoring": monitoring_of(cluster, now=timezone.now()),
        "tally": tallies({cluster.pk: coverage}, devices=cluster.devices.all())[cluster.pk],
        "node_count": Node.objects.filter(cluster=cluster).count(),
        "problem_count": problems.count(),
        "problems": _problems(list(problems[:PROBLEMS_SHOWN]), names=may_read_everything(viewer)),
        "unfit_count": unfit.count(),
        "unfit": unfit[:POOLS_SHOWN],
        "taint_rules": DeviceTaintRule.objects.filter(cluster=cluster).order_by("name")[:RULES_SHOWN],
        "page": page,
        "counted": [CountedRow(node, counted.get(node.pk, ())) for node in page.object_list],
        "tables": tables.read(request, inner.OF_CLUSTER),
        "may_administer": may_administer(viewer),
        # Where the API server is and how the desk signs in there is for those who run it.
        "sees_connection": may_read_everything(viewer),
    }
    return htmx.render(request, "inventory/cluster_detail.html", context, partial="live")


def _unfit(cluster: Cluster) -> QuerySet[Pool]:
    return Pool.objects.filter(cluster=cluster).exclude(complete=True, problem="").order_by("driver", "name")


def _advertising(cluster: Cluster) -> QuerySet[Node]:
    return Node.objects.filter(cluster=cluster).exclude(capacity={}).order_by("name")


def _csv(wanted: str, cluster: Cluster, *, sees_all: bool) -> HttpResponseBase:
    """One of the tables inside the page, whole; as much of it as the reader may see."""
    problems = cluster.problems.order_by("-seen_at", "pk")
    header: tuple[str, ...]
    if wanted == inner.STREAMS.name:
        troubled = dict(problems.order_by().values_list("resource").annotate(Count("pk")))
        streams = sorted(cluster.streams.all(), key=_stream_place)
        rows = [(stream, troubled.get(stream.resource, 0)) for stream in streams]
        header, lines = inner.STREAM_HEADER, inner.stream_lines(rows, messages=sees_all)
    elif wanted == inner.PROBLEMS.name:
        seen = _problems(list(problems), names=sees_all)
        header = inner.PROBLEM_HEADER
        lines = inner.problem_lines((row.problem, row.name, row.path, row.reason) for row in seen)
    elif wanted == inner.POOLS.name:
        header, lines = inner.POOL_HEADER, inner.pool_lines(_unfit(cluster))
    elif wanted == inner.TAINTS.name:
        rules = DeviceTaintRule.objects.filter(cluster=cluster).order_by("name")
        header, lines = inner.TAINT_HEADER, inner.taint_lines(rules)
    elif wanted == inner.UNITS.name:
        nodes = list(_advertising(cluster))
        counted = counted_resources(nodes)
        header = inner.UNIT_HEADER
        lines = inner.unit_lines((node, counted.get(node.pk, ())) for node in nodes)
    else:
        raise Http404
    return csvs.download(f"{wanted}-{cluster.name}.csv", header, lines)


def _problems(problems: Sequence[SyncProblem], *, names: bool) -> list[ProblemRow]:
    rows = []
    for problem in problems:
        if problem.namespace and not names:
            rows.append(ProblemRow(problem, name="", path="", reason=""))
        else:
            name = "/".join(part for part in (problem.namespace, problem.name) if part)
            rows.append(ProblemRow(problem, name=name, path=problem.path, reason=problem.reason))
    return rows


def _stream_place(stream: Stream) -> tuple[int, str]:
    known = stream.resource in RESOURCE_ORDER
    return (RESOURCE_ORDER.index(stream.resource) if known else len(RESOURCE_ORDER), stream.resource)
