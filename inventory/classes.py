"""DeviceClasses for administrators: changes that the cluster has rehearsed first.

A change is tried as a server-side dry-run, and what comes back is compared with what was sent, because API
servers drop fields whose feature gate is off without a word. Only then is it made. The mirror follows
through the watch.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from inventory import class_history, clusters
from inventory.expression_checks import check_expression
from inventory.follow.discovery import preferred
from inventory.mirror import matching
from inventory.mirror.writer import features_of
from inventory.models import Cluster
from inventory.proposals import direct, rules
from portal import access
from portal.accounts import audit
from portal.accounts.models import User
from portal.dra.cel import CelCompileError, compile_selector
from portal.kube import errors
from portal.kube.client import Client
from portal.kube.resources import DEVICE_CLASSES, Resource

__all__ = [
    "ChangedMeanwhile",
    "UnableToChangeClass",
    "Wanted",
    "check_expression",
    "create_class",
    "delete_class",
    "restore_class",
    "update_class",
]

# Limits of resource.k8s.io/v1.
MAX_SELECTORS = 32
MAX_EXPRESSION = 10 * 1024
# Gates that a dropped field hangs on.
GATES = {"extendedResourceName": "DRAExtendedResource"}
TOOLS = class_history.TOOLS


class UnableToChangeClass(Exception):
    """`field` is the form field at fault ("name", "expressions", "extended_resource_name", "config",
    "labels", "annotations", "" = none)."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


class ChangedMeanwhile(UnableToChangeClass):
    """Somebody else changed the class since `seen_version`; `current` is the object as it is now."""

    def __init__(self, current: Mapping[str, Any]) -> None:
        said = _("Somebody changed the class meanwhile. Look at it again, then repeat your change.")
        super().__init__("", said)
        self.current = current


@dataclass(frozen=True)
class Wanted:
    """What an administrator asks a class to be. All `expressions` must hold; `config` is as in the API;
    labels and annotations None = as they are."""

    expressions: Sequence[str]
    extended_resource_name: str = ""
    config: Sequence[Mapping[str, Any]] = ()
    labels: Mapping[str, str] | None = None
    annotations: Mapping[str, str] | None = None

    @classmethod
    def of_spec(
        cls,
        spec: Mapping[str, Any],
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> "Wanted":
        """What a class is by its spec."""
        return cls(
            expressions=matching.expressions_of(spec),
            extended_resource_name=str(spec.get("extendedResourceName", "")),
            config=spec.get("config") or (),
            labels=labels,
            annotations=annotations,
        )

    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = {}
        if self.expressions:
            spec["selectors"] = [{"cel": {"expression": expression}} for expression in self.expressions]
        if self.config:
            spec["config"] = [dict(entry) for entry in self.config]
        if self.extended_resource_name:
            spec["extendedResourceName"] = self.extended_resource_name
        return spec

    def told(self) -> dict[str, Any]:
        """The spec, with labels and annotations where something is asked of them: for the audit trail."""
        more = {"labels": self.labels, "annotations": self.annotations}
        return self.spec() | {key: dict(texts) for key, texts in more.items() if texts is not None}


# --- changing it --------------------------------------------------------------------------------------


def create_class(
    *,
    cluster: Cluster,
    name: str,
    wanted: Wanted,
    actor: User,
    now: datetime,
    source_ip: str | None = None,
    reason: str = "",
    rehearse_only: bool = False,
) -> None:
    """Create a class after its rehearsal; with `rehearse_only` nothing but that. Raises
    UnableToChangeClass."""
    _demand_direct(rehearse_only=rehearse_only)
    check_wanted(cluster, wanted)
    with _changing(cluster) as client:
        resource = _resource(client)
        body = _body(resource, {"name": name}, wanted)
        _compare(body, client.create(resource, body, dry_run=True))
        if rehearse_only:
            return
        made = client.create(resource, body)
    with transaction.atomic():
        _note(cluster, before=None, after=made, actor=actor, now=now, reason=reason)
        _record(
            cluster,
            "device_class.create",
            name,
            after=wanted.told(),
            actor=actor,
            now=now,
            source_ip=source_ip,
        )


def update_class(
    *,
    cluster: Cluster,
    name: str,
    wanted: Wanted,
    actor: User,
    now: datetime,
    seen_version: str = "",
    source_ip: str | None = None,
    reason: str = "",
    rehearse_only: bool = False,
) -> None:
    """Change a class after its rehearsal. With `seen_version` (its resourceVersion when the form was
    filled) only if nobody changed it meanwhile. Raises UnableToChangeClass."""
    _demand_direct(rehearse_only=rehearse_only)
    check_wanted(cluster, wanted)
    with _changing(cluster) as client:
        resource = _resource(client)
        current = client.get(resource, name)
        metadata = dict(current.get("metadata") or {})
        if seen_version and metadata.get("resourceVersion", seen_version) != seen_version:
            raise ChangedMeanwhile(current)
        if seen_version:
            metadata["resourceVersion"] = seen_version
        body = _body(resource, metadata, wanted)
        try:
            _compare(body, client.replace(resource, name, body, dry_run=True))
            if rehearse_only:
                return
            made = client.replace(resource, name, body)
        except errors.Conflict as error:
            # At the same moment; the version above was the newest then.
            raise ChangedMeanwhile(client.get(resource, name)) from error
    before = current.get("spec")
    with transaction.atomic():
        _note(cluster, before=current, after=made, actor=actor, now=now, reason=reason)
        _record(
            cluster,
            "device_class.update",
            name,
            before=before if isinstance(before, dict) else {},
            after=wanted.told(),
            actor=actor,
            now=now,
            source_ip=source_ip,
        )


def restore_class(
    *,
    cluster: Cluster,
    name: str,
    spec: Mapping[str, Any],
    seen_version: str,
    actor: User,
    now: datetime,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    source_ip: str | None = None,
    reason: str = "",
    rehearse_only: bool = False,
) -> None:
    """Make a class what it was (labels and annotations too, where it is known what they were), by the same
    way as any change. `seen_version` is the resourceVersion over which that is meant; "" = there was no
    class, and one is made. Raises UnableToChangeClass."""
    arguments: dict[str, Any] = {
        "cluster": cluster,
        "name": name,
        "wanted": Wanted.of_spec(spec, labels=labels, annotations=annotations),
        "actor": actor,
        "now": now,
        "source_ip": source_ip,
        "reason": reason,
        "rehearse_only": rehearse_only,
    }
    if seen_version:
        update_class(**arguments, seen_version=seen_version)
    else:
        create_class(**arguments)


def delete_class(
    *,
    cluster: Cluster,
    name: str,
    actor: User,
    now: datetime,
    source_ip: str | None = None,
    reason: str = "",
) -> None:
    """Delete a class. Claims that name it keep what they have, but no new one will be allocated. Raises
    UnableToChangeClass."""
    _demand_direct()
    with _changing(cluster) as client:
        resource = _resource(client)
        current = client.get(resource, name)
        uid = str((current.get("metadata") or {}).get("uid", ""))
        client.delete(resource, name, uid=uid, dry_run=True)
        client.delete(resource, name, uid=uid)
    before = current.get("spec")
    with transaction.atomic():
        _note(cluster, before=current, after=None, actor=actor, now=now, reason=reason)
        _record(
            cluster,
            "device_class.delete",
            name,
            before=before if isinstance(before, dict) else {},
            actor=actor,
            now=now,
            source_ip=source_ip,
        )


def _demand_direct(*, rehearse_only: bool = False) -> None:
    """Only where classes may be changed at once; trying is free."""
    if not rehearse_only and not rules.permits_direct():
        raise UnableToChangeClass("", rules.why_no_direct())


def check_wanted(cluster: Cluster, wanted: Wanted) -> None:
    """What can be said without the cluster, and better: where in an expression the mistake is. Raises
    UnableToChangeClass."""
    if len(wanted.expressions) > MAX_SELECTORS:
        raise UnableToChangeClass(
            "expressions", _("A class has at most %(limit)d expressions.") % {"limit": MAX_SELECTORS}
        )
    features = features_of(cluster.server_version, served=cluster.served)
    for number, expression in enumerate(wanted.expressions, 1):
        if len(expression.encode()) > MAX_EXPRESSION:
            raise UnableToChangeClass("expressions", _("An expression has at most 10 KiB."))
        try:
            compile_selector(expression, features=features.gates, enforce_estimate=True)
        except CelCompileError as error:
            raise UnableToChangeClass(
                "expressions",
                _("Expression %(number)d: %(message)s") % {"number": number, "message": str(error)},
            ) from error


@contextmanager
def _changing(cluster: Cluster) -> Iterator[Client]:
    """A client, with what the cluster refuses renamed for the form."""
    if access.only_looks():
        raise UnableToChangeClass("", access.why_only_looks())
    try:
        with clusters.client_for(cluster) as client:
            yield client
    except errors.AlreadyExists as error:
        raise UnableToChangeClass("name", _("The cluster has a class of this name already.")) from error
    except errors.NotFound as error:
        raise UnableToChangeClass("name", _("The cluster has no class of this name (any more).")) from error
    except errors.Conflict as error:
        raise UnableToChangeClass(
            "", _("Somebody changed the class meanwhile. Look at it again, then repeat your change.")
        ) from error
    except errors.Invalid as error:
        raise UnableToChangeClass(*_blame(error)) from error
    except errors.ClusterError as error:
        raise UnableToChangeClass("", error.message) from error


def _blame(error: errors.Invalid) -> tuple[str, str]:
    """Form field and message for what the API server says about the object."""
    for prefix, name in (
        ("metadata.name", "name"),
        ("spec.selectors", "expressions"),
        ("spec.extendedResourceName", "extended_resource_name"),
        ("spec.config", "config"),
        ("metadata.labels", "labels"),
        ("metadata.annotations", "annotations"),
    ):
        said = [cause.message for cause in error.causes if cause.field.startswith(prefix)]
        if said:
            return name, " ".join(said)[:1000]
    return "", error.message


def _resource(client: Client) -> Resource:
    """Device classes in the best version that the cluster serves."""
    found = preferred(client).get(DEVICE_CLASSES.plural)
    if found is None:
        raise UnableToChangeClass("", _("The cluster does not serve DeviceClasses."))
    return found


def _body(resource: Resource, metadata: Mapping[str, Any], wanted: Wanted) -> dict[str, Any]:
    kept = {key: value for key, value in metadata.items() if key != "managedFields"}
    if wanted.labels is not None:
        kept["labels"] = dict(wanted.labels)
    if wanted.annotations is not None:
        # What tools keep for themselves stays; they would not know what is theirs without it.
        own = {key: text for key, text in (kept.get("annotations") or {}).items() if key in TOOLS}
        kept["annotations"] = {**own, **wanted.annotations}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": kept,
        "spec": wanted.spec(),
    }


def _compare(sent: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
    """A field that does not come back was dropped: its gate is off."""
    returned = answer.get("spec") or {}
    for name, value in sent["spec"].items():
        if returned.get(name) == value:
            continue
        field_of_form = {"selectors": "expressions", "extendedResourceName": "extended_resource_name"}
        gate = GATES.get(name)
        hint = _(" (the feature gate %(gate)s is off there)") % {"gate": gate} if gate else ""
        raise UnableToChangeClass(
            field_of_form.get(name, name),
            _("The cluster would not keep “%(field)s” as given%(hint)s.") % {"field": name, "hint": hint},
        )


def _note(cluster: Cluster, **written: Any) -> None:
    """The version, and how it came about."""
    proposal = direct.note(cluster=cluster, **written)
    class_history.note_written(cluster=cluster, proposal=proposal, **written)


def _record(
    cluster: Cluster,
    action: str,
    name: str,
    *,
    actor: User,
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
        target_kind="deviceclass",
        target_id=f"{cluster.pk}/{name}"[:64],
        target_name=f"{cluster.name}/{name}",
        before=before,
        after=after,
        source_ip=source_ip,
    )
