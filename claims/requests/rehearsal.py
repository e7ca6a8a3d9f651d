"""A request as the cluster meets it: its manifest, and the trial that it passes before it is accepted."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from django.utils.translation import gettext as _

from claims.asks.reading import WHOLE
from claims.asks.values import UnableToSubmit
from claims.models import Request
from claims.quotas.cluster import ENTITLED_PREFIX
from claims.requests import manifests, submission
from inventory.models import Cluster
from portal.kube import errors

# What a rehearsed Pod would run; it never does.
PROBE_IMAGE = "registry.k8s.io/pause:3.10"

# Opens a connection that is closed after use.
Connect = Callable[[Cluster], AbstractContextManager[submission.Writer]]


def owner_of(request: Request) -> manifests.Owner:
    """What the request's objects say about where they come from."""
    return manifests.Owner(
        key=str(request.key),
        project=request.project.slug,
        requester=request.requester.get_username(),
        cost_centre=request.project.cost_centre,
        purpose=request.purpose,
    )


def manifest_of(request: Request) -> manifests.Manifest:
    """The claim or template as it is sent; of an entitlement the Pod that is rehearsed."""
    if request.shape == Request.Shape.ENTITLEMENT:
        return manifests.probe_pod(
            name=f"{request.object_name}-probe",
            namespace=request.namespace,
            owner=owner_of(request),
            image=PROBE_IMAGE,
            resource=request.extended_resource,
            count=request.count,
            node_selector=request.node_selector,
            tolerations=request.tolerations,
        )
    build = manifests.claim if request.shape == Request.Shape.CLAIM else manifests.claim_template
    manifest = build(
        name=request.object_name,
        namespace=request.namespace,
        owner=owner_of(request),
        spec=request.spec,
    )
    return manifests.for_version(manifest, api_version(request.cluster))


def api_version(cluster: Cluster) -> str:
    """The version of claims that the cluster serves, as its follower found out."""
    return str(cluster.served.get("resourceclaims") or manifests.API_VERSION)


def rehearse(request: Request, *, connect: Connect) -> None:
    """Let the cluster judge the request's object on trial. Raises UnableToSubmit, at the field that the
    refusal is about. Talks to the cluster: not inside a transaction."""
    try:
        with connect(request.cluster) as client:
            if request.shape == Request.Shape.ENTITLEMENT:
                submission.rehearse_pod(client, manifest_of(request))
            else:
                submission.rehearse(client, manifest_of(request))
    except errors.ClusterError as error:
        if isinstance(error, errors.Forbidden) and f"exceeded quota: {ENTITLED_PREFIX}" in error.message:
            # The desk's own, of the entitlements so far: it grows with this one.
            return
        raise UnableToSubmit(_by_field(error, request)) from error


def _by_field(error: errors.ClusterError, request: Request) -> dict[str, list[str]]:
    """Which field of the form the cluster's refusal is about."""
    said = error.message
    what = "flavor" if request.flavor is not None else "device_class"
    match error:
        case errors.Invalid():
            return _by_cause(error, what)
        case submission.ClassMissing():
            parts = [part.get("device_class") for part in request.options.get("parts", ())]
            if error.name == request.device_class:
                name = what
            else:
                name = "parts" if error.name in parts else "alternatives"
        case submission.FieldsDropped() | submission.NameTaken():
            name = WHOLE
        case errors.Forbidden() if "status unknown for quota" in said:
            name = "cluster"
            said = f"{said} {_('Nothing was submitted; try again.')}"
        case errors.Forbidden() if "exceeded quota" in said:
            name = "count"
        case errors.Forbidden() | errors.NotFound():
            name = "namespace"
        case _:
            name = "cluster"
            said = f"{said} {_('Nothing was submitted; try again.')}"
    return {name: [said]}


def _by_cause(error: errors.Invalid, what: str) -> dict[str, list[str]]:
    fields = (
        ("deviceClassName", what),
        ("count", "count"),
        ("selectors", "min_memory"),
        ("namespace", "namespace"),
    )
    found: dict[str, list[str]] = {}
    for cause in error.causes:
        name = next((name for part, name in fields if part in cause.field), WHOLE)
        found.setdefault(name, []).append(f"{cause.field}: {cause.message}")
    return found or {WHOLE: [error.message]}
