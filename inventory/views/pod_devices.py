"""Pods' devices: which nodes of a cluster tell which Pod has which device, and their tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe
from django_stubs_ext import StrOrPromise

from inventory.models import Cluster, Node, PodDeviceNode, PodDeviceToken
from inventory.node_reports import Refused, refused
from inventory.podresources import tokens
from inventory.podresources.intake import state_of
from inventory.podresources.listing import STATE_LABELS, in_states, with_devices, without_source
from inventory.views.node_tokens import (
    Crumb,
    NodeTokenForm,
    Surroundings,
    TokenRow,
    answer_form,
    answer_revocation,
    token_rows,
)
from portal import csvs, lists
from portal.access import may_administer, person, require_administrator, require_reader_of_everything
from portal.lists import Choice, Column, Listing

TONES = {"current": "good", "silent": "bad", "never": "plain"}
COLUMNS = (
    Column("name", gettext_lazy("Node"), order=("name", "source"), fixed=True, css="cd-nowrap"),
    Column("source", gettext_lazy("Told by"), order=("source", "name")),
    Column("state", gettext_lazy("State")),
    Column("reported", gettext_lazy("Reported"), order=("received_at",), css="cd-nowrap", nullable=True),
    Column("devices", gettext_lazy("Devices"), css="cd-number"),
    Column("clock", gettext_lazy("Clock of the node"), order=("clock_skew_ms",), nullable=True),
    Column("collector", gettext_lazy("Collector"), order=("collector", "name")),
)
# Who may not revoke tokens has no use for them.
TOKENS = Column("tokens", gettext_lazy("Tokens"))
CSV_HEADER = (
    *("cluster", "node", "told_by", "state", "received_at", "devices", "clock_skew_ms", "collector"),
    *("refused_at", "refusal"),
)


@dataclass(frozen=True)
class NodeRow:
    node: PodDeviceNode
    state: str
    tone: str
    state_label: StrOrPromise
    refused: Refused | None
    devices: int
    # Whether the mirror has a node of this name.
    mirrored: bool
    tokens: Sequence[TokenRow]


@require_safe
@require_reader_of_everything
def pod_device_nodes(request: HttpRequest, name: str) -> HttpResponseBase:
    """The sources of a cluster, by node, with their state and why reports of theirs are refused."""
    cluster, now = _cluster(name), timezone.now()
    administers = may_administer(person(request))
    states = in_states(cluster, now=now)
    listing = _listing(states, tokens=administers)
    if (back := listing.remembered(request)) is not None:
        return back
    state = listing.read(request)
    sources = PodDeviceNode.objects.filter(cluster=cluster)
    narrowed = with_devices(state.narrowed(sources))
    if state.wants_csv:
        told = _told(cluster, list(state.ordered(narrowed)), now=now, tokens=False)
        return csvs.download(f"pod-devices-{name}.csv", CSV_HEADER, (_line(cluster, row) for row in told))
    page = state.page(narrowed)
    context = {
        "cluster": cluster,
        "page": page,
        "rows": _told(cluster, list(page.object_list), now=now, tokens=administers),
        "facets": state.facets(sources),
        "without": without_source(cluster),
        "may_administer": administers,
    }
    return lists.answer(request, "inventory/pod_device_nodes.html", context, state=state)


@never_cache
@require_administrator
@require_http_methods(["GET", "HEAD", "POST"])
def pod_device_token(request: HttpRequest, name: str) -> HttpResponse:
    """The form for a token of one of the cluster's nodes."""
    cluster = _cluster(name)
    form = NodeTokenForm(request.POST or None, initial={"node": request.GET.get("node")})
    return answer_form(request, form=form, sort=tokens.TOKENS, around=_around(name), cluster=cluster)


@require_administrator
@require_http_methods(["GET", "HEAD", "POST"])
def pod_device_token_revoke(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    """Asks, then ends a node's token."""
    rows = PodDeviceToken.objects.select_related("node__cluster").defer("node__cluster__kubeconfig_encrypted")
    token = get_object_or_404(rows, pk=pk, node__cluster__name=name)
    return answer_revocation(request, token=token, sort=tokens.TOKENS, around=_around(name))


def _cluster(name: str) -> Cluster:
    return get_object_or_404(Cluster.objects.defer("kubeconfig_encrypted"), name=name)


def _around(cluster: str) -> Surroundings:
    crumbs = (
        Crumb(reverse("cluster-list"), _("Clusters")),
        Crumb(reverse("cluster-detail", args=[cluster]), cluster),
        Crumb(reverse("cluster-pod-devices", args=[cluster]), _("Pods' devices")),
    )
    return Surroundings(crumbs, "deploy/podresources-collector", _node_url)


def _node_url(cluster: str, node: str) -> str:
    return f"{reverse('cluster-pod-devices', args=[cluster])}?{urlencode({'q': node})}"


# --- rows --------------------------------------------------------------------------------------------


def _listing(states: Mapping[str, Q], *, tokens: bool) -> Listing:
    return Listing(
        "pod-devices",
        columns=(*COLUMNS, TOKENS) if tokens else COLUMNS,
        facets=(
            Choice("state", gettext_lazy("State"), conditions=states, labels=STATE_LABELS),
            Choice(
                "source",
                gettext_lazy("Told by"),
                column="source",
                labels=dict(PodDeviceNode.Source.choices),
            ),
            Choice(
                "refused",
                gettext_lazy("Reports"),
                conditions={"yes": Q(refused_at__isnull=False)},
                labels={"yes": gettext_lazy("refused")},
            ),
        ),
        search=("name",),
        sort="name",
    )


def _told(cluster: Cluster, nodes: Sequence[PodDeviceNode], *, now: datetime, tokens: bool) -> list[NodeRow]:
    """Rows in a fixed number of queries."""
    names = {node.name for node in nodes}
    mirrored = set(Node.objects.filter(cluster=cluster, name__in=names).values_list("name", flat=True))
    issued = _tokens([node.pk for node in nodes], now=now) if tokens else {}
    return [_row(node, now=now, mirrored=mirrored, tokens=issued.get(node.pk, ())) for node in nodes]


def _tokens(nodes: Sequence[int], *, now: datetime) -> Mapping[int, Sequence[TokenRow]]:
    return token_rows(tokens.TOKENS, nodes, now=now, revoked=False)


def _row(node: PodDeviceNode, *, now: datetime, mirrored: set[str], tokens: Sequence[TokenRow]) -> NodeRow:
    state = state_of(node, now=now)
    return NodeRow(
        node=node,
        state=state,
        tone=TONES[state],
        state_label=STATE_LABELS[state],
        refused=refused(node.refused_at, node.refusal),
        devices=getattr(node, "held", 0),
        mirrored=node.name in mirrored,
        tokens=tokens,
    )


def _line(cluster: Cluster, row: NodeRow) -> tuple[Any, ...]:
    node = row.node
    return (
        *(cluster.name, node.name, node.source, row.state),
        node.received_at.isoformat() if node.received_at else "",
        *(row.devices, node.clock_skew_ms, node.collector),
        node.refused_at.isoformat() if node.refused_at else "",
        node.refusal,
    )
