"""CDI: which nodes report, what does not fit on one of them, and the nodes' tokens for administrators."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django import forms
from django.db.models import Exists, OuterRef
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe
from django_stubs_ext import StrOrPromise

from inventory.cdi import tokens, words
from inventory.cdi.comparison import Finding
from inventory.cdi.facts import Judged, judge_nodes
from inventory.cdi.listing import visible_files, visible_findings
from inventory.models import CdiNode, CdiSpecFile, CdiToken, Cluster, Device, Node
from inventory.node_reports import Refused, refused
from inventory.views.node_tokens import (
    Crumb,
    NodeTokenForm,
    Surroundings,
    TokenRow,
    answer_form,
    answer_revocation,
    token_rows,
)
from portal import csvs, htmx, lists
from portal.access import may_administer, may_read_everything, person, require_administrator
from portal.lists import Choice, Column, Listing

PAGE_SIZE = 50
FILES_SHOWN = 200
TONES = {"bad": "bad", "warning": "wait", "info": "plain"}


@dataclass(frozen=True)
class FindingRow:
    tone: str
    severity: StrOrPromise
    message: str


@dataclass(frozen=True)
class ProblemRow:
    path: str
    warns: bool
    message: str


@dataclass(frozen=True)
class FileRow:
    file: CdiSpecFile
    problems: list[ProblemRow]


@dataclass(frozen=True)
class NodeRow:
    judged: Judged
    state_label: StrOrPromise
    why: str
    refused: Refused | None
    findings: list[FindingRow]


class TokenForm(NodeTokenForm):
    cluster = forms.ModelChoiceField(
        label=gettext_lazy("Cluster"),
        queryset=Cluster.objects.defer("kubeconfig_encrypted").order_by("name"),
        to_field_name="name",
        empty_label=None,
    )
    field_order = ("cluster", "node", "lifetime")


LISTING = Listing(
    "cdi",
    columns=(
        Column("name", gettext_lazy("Node"), order=("name", "cluster__name"), fixed=True, css="cd-nowrap"),
        Column("state", gettext_lazy("State")),
        Column("findings", gettext_lazy("What does not fit")),
        Column("runtime", gettext_lazy("Runtime")),
        Column("reported", gettext_lazy("Reported"), order=("received_at",), css="cd-nowrap", nullable=True),
        Column("cluster", gettext_lazy("Cluster"), order=("cluster__name", "name")),
    ),
    facets=(Choice("cluster", gettext_lazy("Cluster"), column="cluster__name"),),
    search=("name",),
    sort="name",
)
CSV_HEADER = ("cluster", "node", "state", "why", "findings", "runtime", "runtime_version", "received_at")


@require_safe
def cdi_list(request: HttpRequest) -> HttpResponseBase:
    """Nodes that may report, by name, with their state and their worst findings."""
    several = Cluster.objects.count() > 1
    listing = LISTING if several else LISTING.without("cluster")
    if (back := listing.remembered(request)) is not None:
        return back
    detailed = may_read_everything(person(request))
    state = listing.read(request)
    nodes = state.narrowed(CdiNode.objects.all())
    if state.wants_csv:
        told = _told(list(state.ordered(nodes)), detailed=detailed)
        return csvs.download("cdi.csv", CSV_HEADER, map(_line, told))
    page = state.page(nodes)
    context = {
        "page": page,
        "rows": _told(list(page.object_list), detailed=detailed),
        "facets": state.facets(CdiNode.objects.all()),
        "silent": _without_collector(),
        "may_administer": may_administer(person(request)),
    }
    return lists.answer(request, "inventory/cdi_list.html", context, state=state)


def _told(nodes: Sequence[CdiNode], *, detailed: bool) -> list[NodeRow]:
    return [_node_row(judged, detailed=detailed) for judged in judge_nodes(nodes, now=timezone.now())]


def _line(row: NodeRow) -> tuple[Any, ...]:
    judged = row.judged
    return (
        *(judged.cluster.name, judged.node.name, judged.verdict.state, row.why),
        "; ".join(str(finding.message) for finding in row.findings),
        *(judged.runtime.get("name", ""), judged.runtime.get("version", "")),
        judged.node.received_at.isoformat() if judged.node.received_at else "",
    )


def _without_collector() -> int:
    """Nodes with DRA devices that no token was ever issued for."""
    reporting = CdiNode.objects.filter(cluster=OuterRef("cluster"), name=OuterRef("name"))
    published = Device.objects.filter(cluster=OuterRef("cluster"), node_name=OuterRef("name"))
    return Node.objects.filter(~Exists(reporting), Exists(published)).count()


@require_safe
def cdi_detail(request: HttpRequest, cluster: str, name: str) -> HttpResponse:
    """One node: what does not fit, the spec files, directories, the runtime."""
    viewer = person(request)
    detailed = may_read_everything(viewer)
    now = timezone.now()
    node = get_object_or_404(CdiNode, cluster__name=cluster, name=name)
    judged = judge_nodes([node], now=now)[0]
    files = visible_files(judged, detailed=detailed)
    context = {
        "row": _node_row(judged, detailed=detailed),
        "node": judged.node,
        "cluster": judged.cluster,
        "runtime": judged.runtime,
        "files": [_file_row(file) for file in files[:FILES_SHOWN]],
        "more_files": max(0, len(files) - FILES_SHOWN),
        "hidden": len(judged.files) - len(files),
        "detailed": detailed,
        "tokens": _tokens(node, now=now) if may_administer(viewer) else [],
        "may_administer": may_administer(viewer),
    }
    return htmx.render(request, "inventory/cdi_detail.html", context)


@never_cache
@require_administrator
@require_http_methods(["GET", "HEAD", "POST"])
def cdi_token(request: HttpRequest) -> HttpResponse:
    """The form for a node's token; the answer to the POST shows its text this once."""
    initial = {"cluster": request.GET.get("cluster"), "node": request.GET.get("node")}
    form = TokenForm(request.POST or None, initial=initial)
    return answer_form(request, form=form, sort=tokens.TOKENS, around=_around())


@require_administrator
@require_http_methods(["GET", "HEAD", "POST"])
def cdi_token_revoke(request: HttpRequest, pk: int) -> HttpResponse:
    """Asks, then ends a node's token."""
    token = get_object_or_404(CdiToken.objects.select_related("node__cluster"), pk=pk)
    return answer_revocation(
        request, token=token, sort=tokens.TOKENS, around=_around(token.node.cluster.name, token.node.name)
    )


def _around(*node: str) -> Surroundings:
    crumbs = [Crumb(reverse("cdi-list"), _("CDI"))]
    if node:
        crumbs.append(Crumb(_node_url(*node), node[-1]))
    return Surroundings(tuple(crumbs), "deploy/cdi-collector", _node_url)


def _node_url(cluster: str, node: str) -> str:
    return reverse("cdi-detail", args=[cluster, node])


# --- rows --------------------------------------------------------------------------------------------


def _node_row(judged: Judged, *, detailed: bool) -> NodeRow:
    return NodeRow(
        judged=judged,
        state_label=words.STATES[judged.verdict.state],
        why=words.why_unknown(judged.verdict),
        refused=refused(judged.node.refused_at, judged.node.refusal),
        findings=[_finding_row(found) for found in visible_findings(judged, detailed=detailed)],
    )


def _finding_row(found: Finding) -> FindingRow:
    return FindingRow(TONES[found.severity], words.SEVERITIES[found.severity], words.finding(found))


def _file_row(file: CdiSpecFile) -> FileRow:
    return FileRow(
        file,
        [
            ProblemRow(found["path"], found["level"] != "error", words.problem(found))
            for found in file.problems
        ],
    )


def _tokens(node: CdiNode, *, now: datetime) -> list[TokenRow]:
    return token_rows(tokens.TOKENS, [node.pk], now=now).get(node.pk, [])
