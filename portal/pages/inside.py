"""Pages of what runs inside a namespace: a Pod, a claim as the cluster has it, a piece of work, and the
namespace itself. Only for the people of its project, administrators and auditors; a stranger gets 404."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.core.paginator import Paginator
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from claims.models import Allocation, Request, RequestClaim
from inventory import describe, inside, works
from inventory.coverage import coverage_of
from inventory.findings import search, words
from inventory.models import Claim, Cluster, Finding, Node, Pod
from inventory.namespaces import NamespaceSeen, namespace_seen
from inventory.owners import Descent, descent_of
from inventory.podresources.naming import devices_of_pods
from portal import htmx
from portal.access import may_read_everything, person
from portal.accounts.models import User

PAST_SHOWN = 20
CLAIMS_PER_PAGE = 25
FINDINGS_SHOWN = 10


@dataclass(frozen=True)
class FindingLink:
    """Something that is wrong with what a page is about, for those who read findings."""

    finding: Finding
    label: str
    words: str


@require_safe
def pod_detail(request: HttpRequest, cluster: str, namespace: str, name: str) -> HttpResponse:
    """A Pod that uses devices: where it is, which devices it has, how they are, what went wrong."""
    now, viewer = timezone.now(), person(request)
    found = _cluster(cluster)
    pod = inside.seen_or_404(
        Pod.objects.all(), viewer=viewer, now=now, cluster=found, namespace=namespace, name=name
    )
    (seen,) = inside.pods_seen([pod])
    descent = descent_of([pod])[pod.pk]
    context = _common(found, namespace, viewer=viewer, now=now) | {
        "pod": pod,
        "seen": seen,
        "health": inside.health_of(pod, seen.uses),
        "physical": devices_of_pods(cluster_id=found.pk, pod_uids=[pod.uid]).get(pod.uid, ()),
        "events": inside.events_of([pod]),
        "descent": descent,
        "work_links": _work_links(found, namespace, descent),
        "node": Node.objects.filter(cluster=found, name=pod.node_name).first() if pod.node_name else None,
        "requests": _requests(found, [use.claim.uid for use in seen.uses if use.claim], viewer=viewer),
        "findings": _findings(found, viewer, kinds=("pod",), namespace=namespace, names=[name]),
    }
    return htmx.render(request, "pages/pod.html", context, partial="live")


@require_safe
def claim_detail(request: HttpRequest, cluster: str, namespace: str, name: str) -> HttpResponse:
    """A ResourceClaim as the cluster has it: what it asks for, what it got, who reserves it."""
    now, viewer = timezone.now(), person(request)
    found = _cluster(cluster)
    claim = inside.seen_or_404(
        Claim.objects.all(), viewer=viewer, now=now, cluster=found, namespace=namespace, name=name
    )
    pods = inside.pods_naming(claim)
    context = _common(found, namespace, viewer=viewer, now=now) | {
        "claim": claim,
        "results": inside.claim_results(claim, pods),
        "consumers": inside.consumers_of(claim),
        "pods": pods,
        "owner_pod": next((pod for pod in pods if pod.uid == claim.owner_pod_uid), None),
        "events": inside.events_of(pods),
        "asked_by": _requests(found, [claim.uid], viewer=viewer).get(claim.uid),
        "spec": describe.as_yaml(claim.spec),
        "past": _past(found, claim),
        "findings": _findings(found, viewer, kinds=("claim",), namespace=namespace, names=[name]),
    }
    return htmx.render(request, "pages/claim.html", context, partial="live")


@require_safe
def workload_detail(request: HttpRequest, cluster: str, namespace: str, kind: str, name: str) -> HttpResponse:
    """A Job, PodGroup, Workload or whatever owns Pods: how much of what it needs it has."""
    now, viewer = timezone.now(), person(request)
    found = _cluster(cluster)
    _see_namespace(found, namespace, viewer=viewer, now=now)
    work = works.find(cluster=found, namespace=namespace, kind=kind, name=name)
    if work is None:
        raise Http404
    uids = [use.claim.uid for seen in work.members for use in seen.uses if use.claim]
    context = _common(found, namespace, viewer=viewer, now=now) | {
        "work": work,
        "events": inside.events_of([seen.pod for seen in work.members]),
        "requests": list(dict.fromkeys(_requests(found, uids, viewer=viewer).values())),
        "findings": _findings(
            found,
            viewer,
            kinds=("workload",),
            namespace=namespace,
            names=[name],
            prefix=f"{namespace}/{kind}/",
        ),
    }
    return htmx.render(request, "pages/workload.html", context, partial="live")


@require_safe
def namespace_detail(request: HttpRequest, cluster: str, name: str) -> HttpResponse:
    """A namespace: whose it is and was, what it may use, and what it uses."""
    now, viewer = timezone.now(), person(request)
    found = _cluster(cluster)
    seen = _see_namespace(found, name, viewer=viewer, now=now)
    page = Paginator(seen.claims.order_by("-allocated", "name"), CLAIMS_PER_PAGE).get_page(
        request.GET.get("page")
    )
    claims = list(page.object_list)
    context = _common(found, name, viewer=viewer, now=now) | {
        "seen": seen,
        "page": page,
        "claims": claims,
        "results": inside.results_of(claims),
        "asked_by": _requests(found, [claim.uid for claim in claims], viewer=viewer),
        "findings": _findings(found, viewer, namespace=name),
    }
    return htmx.render(request, "pages/namespace.html", context, partial="live")


# --- what the pages share -------------------------------------------------------------------------


def _cluster(name: str) -> Cluster:
    return get_object_or_404(Cluster.objects.defer("kubeconfig_encrypted"), name=name)


def _see_namespace(cluster: Cluster, name: str, *, viewer: User, now: datetime) -> NamespaceSeen:
    """The namespace, if the viewer may look into it and there is anything of that name. Raises Http404."""
    seen = namespace_seen(cluster=cluster, name=name, viewer=viewer, now=now)
    if seen is None:
        raise Http404
    return seen


def _common(cluster: Cluster, namespace: str, *, viewer: User, now: datetime) -> dict[str, object]:
    return {
        "cluster": cluster,
        "namespace": namespace,
        "coverage": coverage_of(cluster, cluster.streams.all(), now=now),
        "reads_all": may_read_everything(viewer),
        "now": now,
    }


def _requests(cluster: Cluster, uids: Collection[str], *, viewer: User) -> Mapping[str, Request]:
    """Requests behind claims that the reader may see, by the claim's uid."""
    if not uids:
        return {}
    rows = RequestClaim.objects.filter(
        cluster=cluster, claim_uid__in=uids, request__in=Request.objects.visible_to(viewer)
    )
    return {row.claim_uid: row.request for row in rows.select_related("request__requester")}


def _past(cluster: Cluster, claim: Claim) -> Collection[Allocation]:
    """Ended allocations of the claim, the latest first."""
    rows = Allocation.objects.filter(cluster=cluster, claim_uid=claim.uid, ended_at__isnull=False)
    return list(rows.order_by("-started_at", "-pk")[:PAST_SHOWN])


def _work_links(cluster: Cluster, namespace: str, descent: Descent) -> list[tuple[str, str, str]]:
    """What a Pod is a part of, the nearest first: kind, name and page."""
    parts = [(owner.kind, owner.name) for owner in descent.owners]
    if descent.pod_group:
        parts.append(("PodGroup", descent.pod_group))
    if descent.workload is not None:
        parts.append(("Workload", descent.workload.name))
    return [
        (kind, name, reverse("workload-detail", args=[cluster.name, namespace, kind, name]))
        for kind, name in parts
    ]


def _findings(
    cluster: Cluster,
    viewer: User,
    *,
    namespace: str,
    kinds: Collection[str] = (),
    names: Collection[str] = (),
    prefix: str = "",
) -> list[FindingLink]:
    """What is wrong with it now, for those who read findings."""
    if not may_read_everything(viewer):
        return []
    wanted = Q(cluster=cluster, namespace=namespace, opened_at__isnull=False, resolved_at=None)
    if kinds:
        wanted &= Q(object_kind__in=kinds)
    if names:
        wanted &= Q(name__in=names)
    if prefix:
        wanted &= Q(subject__startswith=prefix)
    return [
        FindingLink(finding, search.kind_label(finding.kind), words.in_words(finding))
        for finding in search.worst_first(Finding.objects.filter(wanted))[:FINDINGS_SHOWN]
    ]
