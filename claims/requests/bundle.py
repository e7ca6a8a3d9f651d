"""The files of a request: what the desk sends to the cluster, and what people copy to use it, each ready for
``kubectl apply -f``; for the other of the two ways, too, where its flavor is served by both."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from django.utils.translation import gettext as _

from claims.asks.queueing import KUEUE_REFUSES, queues_of
from claims.catalogue.stock import wish_of
from claims.models import Placement, Request
from claims.requests import manifests, snippets
from claims.requests.rehearsal import api_version, manifest_of, owner_of
from claims.requests.snippets import Use
from claims.requests.story import use_of

Backend, Shape = Request.Backend, Request.Shape


@dataclass(frozen=True, kw_only=True)
class File:
    """One YAML file. `slug` names it in addresses; `kubectl` = it can be applied as it is."""

    slug: str
    title: str
    filename: str
    text: str
    kubectl: bool = True


@dataclass(frozen=True, kw_only=True)
class Way:
    """A request by one of the two ways; `used` = the one by which it is served."""

    backend: str
    used: bool
    files: Sequence[File]
    # Why Kueue would not admit a Job of it; "" = it would, or there is no queue.
    not_queued: str = ""


def ways_of(request: Request) -> list[Way]:
    """By the way that is used, and by the other where the flavor has both at that place."""
    found = [_way(request, use_of(request), used=True)]
    if (other := _other(request)) is not None:
        found.append(other)
    return found


def file_of(request: Request, slug: str) -> File | None:
    """One file by its slug; those of the other way begin with "other-"."""
    for way in ways_of(request):
        for file in way.files:
            if slug == (file.slug if way.used else f"other-{file.slug}"):
                return file
    return None


def _way(request: Request, use: Use, *, used: bool, manifest: manifests.Manifest | None = None) -> Way:
    by_plugin = use.shape == Shape.ENTITLEMENT
    spec = request.spec if used else ((manifest or {}).get("spec") or {})
    refused = snippets.kueue_refuses(use.shape, spec)
    if used and not by_plugin:
        manifest = manifest_of(request)
    return Way(
        backend=Backend.PLUGIN if by_plugin else Backend.DRA,
        used=used,
        files=list(_files(request, use, manifest, queued=not refused)),
        not_queued=str(KUEUE_REFUSES[refused]) if refused and _queues(request) else "",
    )


def _files(
    request: Request, use: Use, manifest: manifests.Manifest | None, *, queued: bool
) -> Iterator[File]:
    name = request.object_name
    if manifest is not None:
        yield _file("claim", manifest["kind"], f"{name}.yaml", manifest)
    yield _file("pod", _("Pod"), f"{name}-pod.yaml", snippets.pod(use))
    yield _file("job", _("Job"), f"{name}-job.yaml", snippets.job(use))
    if queued:
        for queue in _queues(request):
            title = _("Job for the queue %(queue)s of Kueue") % {"queue": queue}
            made = snippets.kueue_job(use, queue=queue)
            yield _file(f"kueue-{queue}", title, f"{name}-kueue-{queue}.yaml", made)
    profile = snippets.jupyterhub_profile(use, title=f"{request.object_name}: {request.purpose[:60]}")
    hub = _file("jupyterhub", _("Profile for JupyterHub"), f"{name}-jupyterhub.yaml", profile)
    yield replace(hub, kubectl=False)


def _file(slug: str, title: str, filename: str, manifest: manifests.Manifest) -> File:
    return File(slug=slug, title=title, filename=filename, text=manifests.as_yaml(manifest))


def _queues(request: Request) -> list[str]:
    """The queue that was chosen; else all of the namespace."""
    if chosen := request.options.get("queue"):
        return [str(chosen)]
    return [queue.name for queue in queues_of(request.cluster, request.namespace)]


def _other(request: Request) -> Way | None:
    if request.flavor is None or request.options.keys() - {"queue"}:
        # What was chosen beyond the ordinary, only one of the two can do.
        return None
    rows = Placement.objects.filter(flavor=request.flavor, cluster=request.cluster, pool=request.pool)
    placement = rows.select_related("cluster", "flavor").first()
    if placement is None or not (placement.device_class and placement.extended_resource):
        return None
    use = replace(use_of(request), node_selector=placement.node_selector, tolerations=placement.tolerations)
    if request.backend == Backend.DRA:
        use = replace(use, shape=Shape.ENTITLEMENT.value, resource=placement.extended_resource)
        return _way(request, use, used=False)
    use = replace(use, shape=Shape.CLAIM.value, resource="")
    claim = manifests.claim(
        name=request.object_name,
        namespace=request.namespace,
        owner=owner_of(request),
        spec=manifests.claim_spec(wish_of(placement, count=request.count, min_memory=request.min_memory)),
    )
    claim = manifests.for_version(claim, api_version(request.cluster))
    return _way(request, use, used=False, manifest=claim)
