"""DeviceClasses for administrators: what an expression matches, and changes that the cluster has rehearsed
first.

A change is tried as a server-side dry-run, and what comes back is compared with what was sent, because API
servers drop fields whose feature gate is off without a word. Only then is it made. The mirror follows
through the watch.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Count, Q
from django.utils.translation import gettext as _

from inventory import class_history, clusters
from inventory.follow.discovery import preferred
from inventory.mirror import matching
from inventory.mirror.writer import features_of
from inventory.models import Cluster, Device
from inventory.proposals import direct, rules
from portal import access
from portal.accounts import audit
from portal.accounts.models import User
from portal.dra.cel import CelCompileError, compile_selector
from portal.kube import errors
from portal.kube.client import Client
from portal.kube.resources import DEVICE_CLASSES, Resource

# Limits of resource.k8s.io/v1.
MAX_SELECTORS = 32
MAX_EXPRESSION = 10 * 1024
# Gates that a dropped field hangs on.
GATES = {"extendedResourceName": "DRAExtendedResource"}


class UnableToChangeClass(Exception):
    """`field` is the form field at fault ("name", "expressions", "extended_resource_name", "config", "" =
    none)."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


@dataclass(frozen=True)
class Wanted:
    """What an administrator asks a class to be. All `expressions` must hold; `config` is as in the API."""

    expressions: Sequence[str]
    extended_resource_name: str = ""
    config: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def of_spec(cls, spec: Mapping[str, Any]) -> "Wanted":
        """What a class is by its spec."""
        return cls(
            expressions=matching.expressions_of(spec),
            extended_resource_name=str(spec.get("extendedResourceName", "")),
            config=spec.get("config") or (),
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


@dataclass(frozen=True)
class Check:
    """What an expression means on a cluster. `problem` says why it does not compile (at `line` and
    `column`, from 1; 0 = the whole); `evaluation_error` is the first error that it gives for a device of
    the cluster, which would make the scheduler give up on a claim."""

    problem: str = ""
    line: int = 0
    column: int = 0
    evaluation_error: str = ""
    matched: int = 0
    free: int = 0
    profiles: Sequence[int] = field(default_factory=tuple)


# --- what it means ------------------------------------------------------------------------------------


def check_expression(*, cluster: Cluster, expression: str) -> Check:
    """Compile a CEL expression as the API server would, and count the devices of the cluster that it
    matches."""
    features = features_of(cluster.server_version, served=cluster.served)
    try:
        selector = compile_selector(expression, features=features.gates, enforce_estimate=True)
    except CelCompileError as error:
        return Check(problem=error.message, line=error.line, column=error.column)
    found = matching.match(
        matching.Expressions(selectors=(selector,)),
        matching.profiles_in(cluster.pk),
        cluster_id=cluster.pk,
    )
    matched, free = _count(cluster, found)
    return Check(
        evaluation_error=found.error,
        matched=matched,
        free=free,
        profiles=tuple(sorted(found.profiles | set(found.devices.values()))),
    )


def _count(cluster: Cluster, found: matching.Matches) -> tuple[int, int]:
    if found.devices:
        free = Device.objects.filter(
            cluster=cluster, profile__in=set(found.devices.values()), state=Device.State.FREE
        )
        return len(found.devices), len(found.devices.keys() & set(free.values_list("pk", flat=True)))
    devices = Device.objects.filter(cluster=cluster, profile__in=found.profiles)
    counted = devices.aggregate(matched=Count("pk"), free=Count("pk", filter=Q(state=Device.State.FREE)))
    return int(counted["matched"]), int(counted["free"])


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
            after=wanted.spec(),
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
        if seen_version:
            metadata["resourceVersion"] = seen_version
        body = _body(resource, metadata, wanted)
        _compare(body, client.replace(resource, name, body, dry_run=True))
        if rehearse_only:
            return
        made = client.replace(resource, name, body)
    before = current.get("spec")
    with transaction.atomic():
        _note(cluster, before=current, after=made, actor=actor, now=now, reason=reason)
        _record(
            cluster,
            "device_class.update",
            name,
            before=before if isinstance(before, dict) else {},
            after=wanted.spec(),
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
    source_ip: str | None = None,
    reason: str = "",
    rehearse_only: bool = False,
) -> None:
    """Make a class what it was, by the same way as any change. `seen_version` is the resourceVersion over
    which that is meant; "" = there was no class, and one is made. Raises UnableToChangeClass."""
    arguments: dict[str, Any] = {
        "cluster": cluster,
        "name": name,
        "wanted": Wanted.of_spec(spec),
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
