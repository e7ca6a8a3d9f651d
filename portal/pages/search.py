"""One box that finds devices, requests and claims by their names and numbers."""

import contextlib
import uuid

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from claims.models import Request
from inventory.browse import DeviceSearch, FleetFacts, product_name, told_state
from inventory.filters import DeviceFilter, clean_text
from inventory.models import Claim, NamespaceBinding
from portal import access, htmx
from portal.accounts.models import Project, User

SHOWN = 10


@require_safe
def search(request: HttpRequest) -> HttpResponse:
    """The best ten of each kind, with links to the full lists."""
    user, now = access.person(request), timezone.now()
    text = clean_text(request.GET.get("q", ""))
    context: dict[str, object] = {"text": text}
    if text:
        devices = DeviceSearch(DeviceFilter(text=text), facts=FleetFacts.load(now=now))
        profiles, coverage = devices.facts.profiles, devices.facts.coverage
        context |= {
            "device_total": devices.total,
            "devices": [
                {
                    "device": device,
                    "product": product_name(profiles[device.profile_id]),
                    "cluster": coverage[device.cluster_id].cluster,
                    "state": told_state(device, coverage),
                }
                for device in devices.page(offset=0, limit=SHOWN)
            ],
            "requests": _requests(user, text)[:SHOWN],
            "claims": _claims(user, text)[:SHOWN],
            "projects": Project.objects.visible_to(user)
            .filter(Q(name__icontains=text) | Q(slug__icontains=text))
            .order_by("name")[:SHOWN],
        }
    return htmx.render(request, "pages/search.html", context, partial="results")


def _requests(user: User, text: str) -> "QuerySet[Request]":
    """Requests that the person may see, by purpose, class, object name, namespace or key."""
    found = (
        Q(purpose__icontains=text)
        | Q(device_class__icontains=text)
        | Q(object_name__icontains=text)
        | Q(namespace__icontains=text)
    )
    # Not a whole key: its first digits are part of the object name.
    with contextlib.suppress(ValueError):
        found |= Q(key=uuid.UUID(text))
    visible = Request.objects.visible_to(user).filter(found)
    return visible.select_related("project", "cluster").order_by("-created_at", "-pk")


def _claims(user: User, text: str) -> "QuerySet[Claim]":
    """Claims on the clusters, by name, namespace or uid; only those of projects that one may see."""
    claims = Claim.objects.filter(Q(name__icontains=text) | Q(namespace__icontains=text) | Q(uid=text))
    if not access.may_read_everything(user):
        own = Q(pk__in=())
        bindings = NamespaceBinding.objects.filter(
            valid_until=None, project__in=Project.objects.detailed_to(user)
        )
        for cluster, namespace in bindings.values_list("cluster", "namespace"):
            own |= Q(cluster=cluster, namespace=namespace)
        claims = claims.filter(own)
    return (
        claims.select_related("cluster")
        .defer("spec", "status")
        .order_by("cluster__name", "namespace", "name")
    )
