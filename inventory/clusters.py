"""Clusters: getting to know one, reaching it, letting it go."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.utils.translation import gettext as _

from inventory import bindings, sealing
from inventory.follow.discovery import discover
from inventory.looking import LookingClient
from inventory.models import Cluster, Stream
from portal import access
from portal.accounts import audit
from portal.accounts.models import User
from portal.kube import errors
from portal.kube.client import Client
from portal.kube.config import Credentials
from portal.kube.resources import ACCESS_REVIEWS, AMBIGUOUS_GROUPS, NAMESPACES, Resource

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

# What the desk writes in the namespaces of projects: (verb, API group, resource).
WRITE = (
    ("create", "resource.k8s.io", "resourceclaims"),
    ("create", "resource.k8s.io", "resourceclaimtemplates"),
    ("create", "", "pods"),
)
# Where rights are given namespace by namespace, so many are asked about: three calls each.
NAMESPACES_ASKED = 50


class UnableToAddCluster(Exception):
    """`field` is the form field at fault ("" = none), `message` says why, for people."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


class UnableToRemoveCluster(Exception):
    """The cluster has to stay; `message` says why and what to do instead."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True)
class Introduction:
    """What a cluster told about itself. `uid` is "" where it may not be read; `missing` lists rights that
    the desk needs and the account lacks, such as "list pods"."""

    url: str
    version: str
    uid: str
    served: Mapping[str, str]
    missing: Sequence[str]


# --- reaching -----------------------------------------------------------------------------------------


def credentials_of(cluster: Cluster) -> Credentials:
    """Where a cluster's credentials come from. Raises BadCredentials."""
    context = cluster.kubeconfig_context
    if cluster.credentials == Cluster.Credentials.IN_CLUSTER:
        return Credentials.in_cluster()
    if cluster.credentials == Cluster.Credentials.KUBECONFIG:
        return Credentials.from_kubeconfig(cluster.kubeconfig_path, context=context)
    return Credentials.from_text(sealing.unseal(cluster.kubeconfig_encrypted or b""), context=context)


def client_for(cluster: Cluster) -> Client:
    """A client of the cluster, to be closed after use. Raises BadCredentials; makes no call yet."""
    kind = LookingClient if access.only_looks() else Client
    return kind(credentials_of(cluster), timeout=settings.CLUSTER_TIMEOUT.total_seconds())


def introduce(client: Client, *, namespaces: Iterable[str] = ()) -> Introduction:
    """Ask a cluster what it is and what we may do there: read it all, and write in `namespaces`. Raises
    ClusterError."""
    version = client.version()
    found = discover(client)
    served = {stream: resource.api_version for stream, resource in found.items()}
    return Introduction(
        url=client.url[:500],
        version=str(version.get("gitVersion", ""))[:40],
        uid=_uid(client),
        served=served,
        missing=_missing(client, found.values(), sorted(namespaces)),
    )


def connect(*, cluster: Cluster, now: datetime, client: Client | None = None) -> Introduction:
    """Contact a cluster and remember what it told. Raises ClusterError (see `note_failure`)."""
    namespaces = bindings.namespaces_on(cluster, at=now)
    if client is None:
        with client_for(cluster) as own:
            introduction = introduce(own, namespaces=namespaces)
    else:
        introduction = introduce(client, namespaces=namespaces)
    if cluster.uid and introduction.uid and cluster.uid != introduction.uid:
        # Another cluster behind the same address: no saved version means anything there.
        Stream.objects.filter(cluster=cluster).update(resource_version="", listed_at=None)
    _remember(cluster, introduction, now=now)
    fields = ["api_url", "server_version", "uid", "served", "missing_permissions", "contacted_at"]
    if cluster.state != Cluster.State.SYNCED:
        cluster.state, cluster.message = Cluster.State.SYNCING, ""
        fields += ["state", "message"]
    cluster.save(update_fields=fields)
    return introduction


def note_failure(*, cluster_id: int, error: errors.ClusterError) -> None:
    """Show on the cluster why it could not be reached."""
    state = Cluster.State.UNREACHABLE
    if isinstance(error, errors.BadCredentials):
        state = Cluster.State.MISCONFIGURED
    elif isinstance(error, errors.Unauthorized | errors.Forbidden):
        state = Cluster.State.REFUSED
    Cluster.objects.filter(pk=cluster_id).update(state=state, message=error.message[:2000])


def note_defect(*, cluster_id: int, error: Exception) -> None:
    """Show on the cluster that following it failed for a reason of our own."""
    message = _("Following this cluster failed: %(error)s. It is tried again; the log says more.") % {
        "error": f"{type(error).__name__}: {error}"[:500]
    }
    Cluster.objects.filter(pk=cluster_id).update(state=Cluster.State.SYNCING, message=message)


def _remember(cluster: Cluster, introduction: Introduction, *, now: datetime) -> None:
    cluster.api_url = introduction.url
    cluster.server_version = introduction.version
    cluster.uid = introduction.uid or cluster.uid
    cluster.served = dict(introduction.served)
    cluster.missing_permissions = list(introduction.missing)
    cluster.contacted_at = now


def _uid(client: Client) -> str:
    try:
        found = client.get(NAMESPACES, "kube-system")
    except (errors.Forbidden, errors.NotFound):
        return ""
    return str((found.get("metadata") or {}).get("uid", ""))[:64]


def _missing(client: Client, followed: Iterable[Resource], namespaces: Sequence[str]) -> list[str]:
    """Rights that the desk needs and the account lacks; what the cluster does not serve is not missed."""
    reading = [(verb, found.group, found.plural) for found in followed for verb in ("list", "watch")]
    missing = []
    try:
        for verb, group, resource in reading:
            if not _may(client, verb=verb, group=group, resource=resource):
                named = f"{resource}.{group}" if group in AMBIGUOUS_GROUPS else resource
                missing.append(f"{verb} {named}")
        for verb, group, resource in WRITE:
            if namespaces and _may(client, verb=verb, group=group, resource=resource):
                continue
            missing += [
                f"{verb} {resource} in {namespace}"
                for namespace in namespaces[:NAMESPACES_ASKED]
                if not _may(client, verb=verb, group=group, resource=resource, namespace=namespace)
            ]
    except (errors.Forbidden, errors.NotFound, errors.Invalid):
        # The cluster does not tell; what is missing will show when it is needed.
        return []
    return missing


def _may(client: Client, *, verb: str, group: str, resource: str, namespace: str = "") -> bool:
    attributes = {"verb": verb, "group": group, "resource": resource}
    if namespace:
        attributes["namespace"] = namespace
    body: dict[str, Any] = {
        "apiVersion": ACCESS_REVIEWS.api_version,
        "kind": ACCESS_REVIEWS.kind,
        "spec": {"resourceAttributes": attributes},
    }
    answer = client.create(ACCESS_REVIEWS, body)
    return bool((answer.get("status") or {}).get("allowed"))


# --- adding and removing ------------------------------------------------------------------------------


def add(
    *,
    name: str,
    now: datetime,
    kubeconfig_path: str = "",
    kubeconfig_text: str = "",
    context: str = "",
    region: str = "",
    actor: User | None = None,
    source_ip: str | None = None,
) -> Cluster:
    """Add a cluster after it has answered: with a kubeconfig file of the operator, a kubeconfig text (stored
    encrypted), or, with neither, the portal's own service account. Raises UnableToAddCluster; nothing is
    stored then. `actor` None: somebody at the portal's own shell.
    """
    if not NAME.fullmatch(name):
        raise UnableToAddCluster(
            "name",
            _("A name has up to 63 lower-case letters, digits and hyphens, and no hyphen at its ends."),
        )
    if Cluster.objects.filter(name=name).exists():
        raise UnableToAddCluster("name", _("There is a cluster of this name already."))
    if len(region) > 63:
        raise UnableToAddCluster("region", _("A region has at most 63 characters."))
    cluster = Cluster(
        name=name, region=region, kubeconfig_path=kubeconfig_path, kubeconfig_context=context, created_at=now
    )
    field = _choose_credentials(cluster, kubeconfig_text)
    try:
        with client_for(cluster) as client:
            introduction = introduce(client)
    except errors.BadCredentials as error:
        about_context = "context" in error.message and bool(context)
        raise UnableToAddCluster("context" if about_context else field, error.message) from error
    except errors.ClusterError as error:
        raise UnableToAddCluster(field, error.message) from error
    # Twice followed, its devices would be counted, held and charged twice.
    twin = Cluster.objects.filter(uid=introduction.uid).first() if introduction.uid else None
    if twin is not None:
        said = _("This cluster is followed already, as “%(name)s”.") % {"name": twin.name}
        raise UnableToAddCluster(field, said)
    _remember(cluster, introduction, now=now)
    cluster.state = Cluster.State.SYNCING
    try:
        with transaction.atomic():
            cluster.save(force_insert=True)
            _record(
                cluster, "cluster.add", actor=actor, now=now, source_ip=source_ip, after=_connection(cluster)
            )
    except IntegrityError as error:
        raise UnableToAddCluster("name", _("There is a cluster of this name already.")) from error
    return cluster


def _choose_credentials(cluster: Cluster, text: str) -> str:
    """Set where the credentials come from; the form field that they came from."""
    if cluster.kubeconfig_path and text:
        raise UnableToAddCluster("kubeconfig_text", _("Give a path or a text, not both."))
    if len(cluster.kubeconfig_path) > 1000:
        raise UnableToAddCluster("kubeconfig_path", _("This path is too long."))
    if len(cluster.kubeconfig_context) > 253:
        raise UnableToAddCluster("context", _("This name of a context is too long."))
    if cluster.kubeconfig_path:
        cluster.credentials = Cluster.Credentials.KUBECONFIG
        return "kubeconfig_path"
    if text:
        cluster.credentials = Cluster.Credentials.STORED
        try:
            # What cannot be used is not stored either.
            Credentials.from_text(text, context=cluster.kubeconfig_context).open()
            cluster.kubeconfig_encrypted = sealing.seal(text)
        except errors.BadCredentials as error:
            raise UnableToAddCluster("kubeconfig_text", error.message) from error
        return "kubeconfig_text"
    cluster.credentials = Cluster.Credentials.IN_CLUSTER
    return ""


def remove(
    *, cluster: Cluster, now: datetime, actor: User | None = None, source_ip: str | None = None
) -> None:
    """Forget a cluster and everything mirrored of it. Raises UnableToRemoveCluster where history hangs on
    it."""
    try:
        with transaction.atomic():
            _record(
                cluster,
                "cluster.remove",
                actor=actor,
                now=now,
                source_ip=source_ip,
                before=_connection(cluster),
            )
            cluster.delete()
    except ProtectedError as error:
        raise UnableToRemoveCluster(
            _("History or requests refer to this cluster. Disable it instead: it is no longer followed then.")
        ) from error


def set_enabled(
    *,
    cluster: Cluster,
    enabled: bool,
    now: datetime,
    actor: User | None = None,
    source_ip: str | None = None,
) -> None:
    """Follow a cluster, or stop following it; its follower notices within seconds."""
    state = Cluster.State.SYNCING if enabled else Cluster.State.DISABLED
    with transaction.atomic():
        rows = Cluster.objects.filter(pk=cluster.pk).exclude(enabled=enabled)
        if rows.update(enabled=enabled, state=state, message=""):
            _record(
                cluster,
                "cluster.enable" if enabled else "cluster.disable",
                actor=actor,
                now=now,
                source_ip=source_ip,
                before={"enabled": not enabled},
                after={"enabled": enabled},
            )


def request_sync(
    *, cluster: Cluster, now: datetime, actor: User | None = None, source_ip: str | None = None
) -> None:
    """Have everything listed anew ("sync now")."""
    with transaction.atomic():
        Cluster.objects.filter(pk=cluster.pk).update(relist_requested_at=now)
        _record(
            cluster,
            "cluster.sync",
            actor=actor,
            now=now,
            source_ip=source_ip,
            before={"relist_requested_at": cluster.relist_requested_at},
            after={"relist_requested_at": now},
        )


def _connection(cluster: Cluster) -> dict[str, Any]:
    """What the audit trail keeps of a cluster: never its credentials."""
    return {
        "region": cluster.region,
        "credentials": cluster.credentials,
        "context": cluster.kubeconfig_context,
        "api_url": cluster.api_url,
    }


def _record(
    cluster: Cluster,
    action: str,
    *,
    actor: User | None,
    now: datetime,
    source_ip: str | None,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    audit.record(
        now=now,
        actor=actor,
        action=action,
        target=cluster,
        before=before,
        after=after,
        source_ip=source_ip,
    )
