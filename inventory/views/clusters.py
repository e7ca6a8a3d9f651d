"""Clusters: how far the mirror is in step with each, what went wrong, and adding or pausing one."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.core.paginator import Paginator
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.views.decorators.http import require_safe

from inventory.counted import CountedResource, counted_resources
from inventory.coverage import Coverage, coverage_of, coverage_of_all
from inventory.models import Cluster, DeviceTaintRule, Node, Pool, Stream, SyncProblem
from inventory.tallies import Tally, tallies
from portal import htmx
from portal.access import may_administer, may_read_everything, person

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


@require_safe
def cluster_list(request: HttpRequest) -> HttpResponse:
    """All clusters with their state; a fixed number of queries."""
    coverage = coverage_of_all(now=timezone.now())
    counted = tallies(coverage)
    nodes = dict(Node.objects.order_by().values_list("cluster").annotate(Count("pk")))
    problems = dict(SyncProblem.objects.order_by().values_list("cluster").annotate(Count("pk")))
    rows = [
        ClusterRow(
            cluster=c.cluster,
            coverage=c,
            tally=counted[pk],
            nodes=nodes.get(pk, 0),
            problems=problems.get(pk, 0),
        )
        for pk, c in coverage.items()
    ]
    context = {"rows": rows, "may_administer": may_administer(person(request))}
    return htmx.render(request, "inventory/cluster_list.html", context, partial="clusters")


@require_safe
def cluster_detail(request: HttpRequest, name: str) -> HttpResponse:
    """One cluster: the state of every stream, what could not be read, pools that are unfit, counted units."""
    cluster = get_object_or_404(Cluster.objects.defer("kubeconfig_encrypted"), name=name)
    streams = sorted(cluster.streams.all(), key=_stream_place)
    coverage = coverage_of(cluster, streams, now=timezone.now())
    viewer = person(request)
    problems = cluster.problems.order_by("-seen_at", "pk")
    unfit = Pool.objects.filter(cluster=cluster).exclude(complete=True, problem="").order_by("driver", "name")
    advertising = Node.objects.filter(cluster=cluster).exclude(capacity={}).order_by("name")
    page = Paginator(advertising, NODES_PER_PAGE).get_page(request.GET.get("page"))
    counted = counted_resources(list(page.object_list))
    context = {
        "cluster": cluster,
        "coverage": coverage,
        "streams": streams,
        "tally": tallies({cluster.pk: coverage}, devices=cluster.devices.all())[cluster.pk],
        "node_count": Node.objects.filter(cluster=cluster).count(),
        "problem_count": problems.count(),
        "problems": _problems(list(problems[:PROBLEMS_SHOWN]), names=may_read_everything(viewer)),
        "unfit_count": unfit.count(),
        "unfit": unfit[:POOLS_SHOWN],
        "taint_rules": DeviceTaintRule.objects.filter(cluster=cluster).order_by("name")[:RULES_SHOWN],
        "page": page,
        "counted": [CountedRow(node, counted.get(node.pk, ())) for node in page.object_list],
        "may_administer": may_administer(viewer),
        # Where the API server is and how the desk signs in there is for those who run it.
        "sees_connection": may_read_everything(viewer),
    }
    return htmx.render(request, "inventory/cluster_detail.html", context, partial="live")


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
