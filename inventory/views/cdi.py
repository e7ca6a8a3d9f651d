"""CDI: which nodes report, what does not fit on one of them, and the nodes' tokens for administrators."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import Exists, OuterRef
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_safe
from django_stubs_ext import StrOrPromise

from inventory.cdi import tokens, words
from inventory.cdi.comparison import Finding
from inventory.cdi.facts import Judged, judge_nodes
from inventory.cdi.listing import visible_files, visible_findings
from inventory.models import CdiNode, CdiSpecFile, CdiToken, Cluster, Device, Node
from portal import csvs, htmx, lists
from portal.access import may_administer, may_read_everything, person, require_administrator
from portal.accounts.audit import source_ip
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
    findings: list[FindingRow]


class TokenForm(forms.Form):
    LIFETIMES = ((30, gettext_lazy("30 days")), (90, gettext_lazy("90 days")), (365, gettext_lazy("1 year")))

    cluster = forms.ModelChoiceField(
        label=gettext_lazy("Cluster"),
        queryset=Cluster.objects.defer("kubeconfig_encrypted").order_by("name"),
        to_field_name="name",
        empty_label=None,
    )
    node = forms.CharField(label=gettext_lazy("Node"), max_length=253)
    lifetime = forms.TypedChoiceField(
        label=gettext_lazy("Expires after"),
        choices=LIFETIMES,
        initial=365,
        coerce=lambda days: timedelta(days=int(days)),
    )


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
        "refusal": words.refusal(judged.node.refusal) if judged.node.refusal else "",
        "tokens": _token_rows(node, now=now) if may_administer(viewer) else [],
        "may_administer": may_administer(viewer),
    }
    return htmx.render(request, "inventory/cdi_detail.html", context)


@sensitive_variables("plain")
@never_cache
@require_administrator
@require_http_methods(["GET", "HEAD", "POST"])
def cdi_token(request: HttpRequest) -> HttpResponse:
    """The form for a node's token; the answer to the POST shows its text this once."""
    initial = {"cluster": request.GET.get("cluster"), "node": request.GET.get("node")}
    form, plain, created = TokenForm(request.POST or None, initial=initial), "", None
    if request.method == "POST" and form.is_valid():
        asked = form.cleaned_data
        try:
            created, plain = tokens.issue(
                cluster=asked["cluster"],
                node_name=asked["node"],
                lifetime=asked["lifetime"],
                actor=person(request),
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        except tokens.UnableToIssueNodeToken as unable:
            form.add_error(unable.field or None, unable.message)
    context = {"form": form, "plain": plain, "created": created}
    status = 422 if form.is_bound and created is None else 200
    return htmx.render(request, "inventory/cdi_token.html", context, status=status)


@require_administrator
@require_http_methods(["GET", "HEAD", "POST"])
def cdi_token_revoke(request: HttpRequest, pk: int) -> HttpResponse:
    """Asks, then ends a node's token."""
    token = get_object_or_404(CdiToken.objects.select_related("node__cluster"), pk=pk)
    if request.method == "POST":
        tokens.revoke(token=token, actor=person(request), now=timezone.now(), source_ip=source_ip(request))
        messages.success(request, _("The token %(token)s is revoked.") % {"token": token})
        return htmx.redirect(request, "cdi-detail", token.node.cluster.name, token.node.name)
    return htmx.render(request, "inventory/cdi_token_revoke.html", {"token": token})


# --- rows --------------------------------------------------------------------------------------------


def _node_row(judged: Judged, *, detailed: bool) -> NodeRow:
    return NodeRow(
        judged=judged,
        state_label=words.STATES[judged.verdict.state],
        why=words.why_unknown(judged.verdict),
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


@dataclass(frozen=True)
class TokenRow:
    token: CdiToken
    state: str
    state_label: str


def _token_rows(node: CdiNode, *, now: datetime) -> list[TokenRow]:
    found = CdiToken.objects.filter(node=node).select_related("created_by").order_by("-created_at", "-pk")
    return [TokenRow(token, *_token_state(token, now=now)) for token in found]


def _token_state(token: CdiToken, *, now: datetime) -> tuple[str, str]:
    if token.revoked_at is not None:
        return "revoked", _("revoked")
    if token.expires_at <= now:
        return "expired", _("expired")
    return "active", _("active")
