"""One class on one cluster: rehearsed, then written, by server-side apply as the field manager `claimdesk`.

Apply tells which fields belong to another manager, and is asked with the resourceVersion that was looked at:
what somebody else changed meanwhile is a conflict and never overwritten. What apply cannot do is remove a
field that somebody else set; such a removal replaces the whole object, again only in the version that was
looked at, and only where the field is the desk's own or taken over.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from inventory import class_history
from inventory.classes import GATES
from inventory.follow.discovery import preferred
from inventory.models import ProposalTarget
from portal.kube import errors
from portal.kube.client import Client
from portal.kube.resources import DEVICE_CLASSES, Resource

FIELD_MANAGER = "claimdesk"
Outcome = ProposalTarget.Outcome
Spec = Mapping[str, Any]
Labels = Mapping[str, str]
_HOLDER = re.compile(r'conflict with "([^"]+)"')


class Refused(Exception):
    """The cluster does not take it, or cannot be asked. `dropped` fields have the gate that they hang on
    ("" = not known); `managers` own fields that would change."""

    def __init__(
        self,
        outcome: str,
        message: str,
        *,
        dropped: Sequence[Mapping[str, str]] = (),
        managers: Sequence[str] = (),
        answer: Spec | None = None,
    ) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.message = message
        self.dropped = dropped
        self.managers = managers
        self.answer = answer

    @classmethod
    def by(cls, error: errors.ClusterError) -> "Refused":
        """What an error of the cluster means for a change."""
        message = error.message
        if isinstance(error, errors.Invalid):
            outcome = Outcome.INVALID
        elif isinstance(error, errors.Forbidden | errors.Unauthorized):
            outcome = Outcome.FORBIDDEN
            message += " " + _("Run there: kubectl apply -f deploy/rbac.yaml")
        elif isinstance(error, errors.Conflict | errors.NotFound):
            outcome = Outcome.CHANGED
        elif isinstance(error, errors.Unreachable | errors.BadCredentials | errors.TooManyRequests):
            outcome = Outcome.UNREACHABLE
        else:
            outcome = Outcome.ERROR
        return cls(outcome, message)


@dataclass(frozen=True)
class Present:
    """What the class is on the cluster; `spec` is None where there is none. `body` as it was answered."""

    spec: Spec | None = None
    labels: Labels = field(default_factory=dict)
    uid: str = ""
    version: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)

    def is_what(self, wanted: Spec | None, labels: Labels | None) -> bool:
        """Whether it is so already."""
        return self.spec == wanted and (wanted is None or labels is None or dict(self.labels) == dict(labels))


@dataclass(frozen=True)
class Way:
    """How the cluster would take it, as its rehearsal has shown."""

    replace: bool
    force: bool
    answer: Spec | None


def resource_of(client: Client) -> Resource:
    """Device classes in the best version that the cluster serves. Raises Refused."""
    found = preferred(client).get(DEVICE_CLASSES.plural)
    if found is None:
        raise Refused(Outcome.ERROR, _("The cluster does not serve DeviceClasses."))
    return found


def look(client: Client, resource: Resource, name: str) -> Present:
    """What the class is now. Raises ClusterError."""
    try:
        body = client.get(resource, name)
    except errors.NotFound:
        return Present()
    metadata = body.get("metadata") or {}
    return Present(
        spec=class_history.spec_of(body),
        labels=dict(metadata.get("labels") or {}),
        uid=str(metadata.get("uid", "")),
        version=str(metadata.get("resourceVersion", "")),
        body=body,
    )


def rehearse(
    client: Client,
    resource: Resource,
    name: str,
    *,
    present: Present,
    wanted: Spec | None,
    labels: Labels | None,
    take_over: bool,
) -> Way:
    """Have the cluster say what it would make of it; nothing is changed. Raises Refused and ClusterError."""
    if wanted is None:
        client.delete(resource, name, uid=present.uid, resource_version=present.version, dry_run=True)
        return Way(replace=False, force=False, answer=None)
    body = _intent(resource, name, present, wanted, labels)
    force = take_over
    try:
        answer = _apply(client, resource, name, body, force=force, dry_run=True)
    except errors.Conflict as error:
        managers = holders(error)
        if not managers or managers != [FIELD_MANAGER]:
            raise _conflict(error, managers) from error
        # What the desk itself wrote by other means is its own.
        force = True
        answer = _apply(client, resource, name, body, force=True, dry_run=True)
    replace = False
    if left := _left(answer, wanted, labels):
        others = sorted(_owners(present.body, left) - {FIELD_MANAGER})
        if others and not take_over:
            raise Refused(
                Outcome.CONFLICT,
                _("%(fields)s would stay: %(managers)s set it.")
                % {"fields": ", ".join(sorted(left)), "managers": ", ".join(others)},
                managers=others,
                answer=class_history.spec_of(answer),
            )
        replace = True
        answer = client.replace(resource, name, _replacement(resource, present, wanted, labels), dry_run=True)
    told = class_history.spec_of(answer)
    _check_kept(wanted, told)
    return Way(replace=replace, force=force, answer=told)


def write(
    client: Client,
    resource: Resource,
    name: str,
    *,
    way: Way,
    present: Present,
    wanted: Spec | None,
    labels: Labels | None,
) -> Mapping[str, Any] | None:
    """Do what was rehearsed; the object as it is then, None after a deletion. Raises Refused and
    ClusterError."""
    if wanted is None:
        client.delete(resource, name, uid=present.uid, resource_version=present.version)
        return None
    if way.replace:
        return client.replace(resource, name, _replacement(resource, present, wanted, labels))
    body = _intent(resource, name, present, wanted, labels)
    try:
        made = _apply(client, resource, name, body, force=way.force, dry_run=False)
    except errors.Conflict as error:
        raise _conflict(error, holders(error)) from error
    if class_history.spec_of(made) != wanted:
        # Somebody made one of this name since the rehearsal, which was about none.
        raise Refused(Outcome.CHANGED, _("Somebody else made a class of this name at the same moment."))
    return made


# --- bodies -------------------------------------------------------------------------------------------


def _apply(
    client: Client, resource: Resource, name: str, body: Mapping[str, Any], *, force: bool, dry_run: bool
) -> Mapping[str, Any]:
    return client.apply(resource, name, body, field_manager=FIELD_MANAGER, force=force, dry_run=dry_run)


def _intent(
    resource: Resource, name: str, present: Present, wanted: Spec, labels: Labels | None
) -> dict[str, Any]:
    """What apply is asked for. What the desk applied before and asks for no longer is removed, so labels that
    are to stay are asked for again."""
    metadata: dict[str, Any] = {"name": name}
    asked = _own_labels(present) if labels is None else dict(labels)
    if asked:
        metadata["labels"] = asked
    if present.spec is not None:
        metadata |= {"uid": present.uid, "resourceVersion": present.version}
    return {
        "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": dict(wanted),
    }  # fmt: skip


def _replacement(resource: Resource, present: Present, wanted: Spec, labels: Labels | None) -> dict[str, Any]:
    """The object as it was looked at, with another spec."""
    metadata = {k: v for k, v in (present.body.get("metadata") or {}).items() if k != "managedFields"}
    if labels is not None:
        metadata["labels"] = dict(labels)
    return {
        "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": dict(wanted),
    }  # fmt: skip


# --- reading answers ----------------------------------------------------------------------------------


def holders(error: errors.Conflict) -> list[str]:
    """The field managers that an apply ran into; none where the conflict is another."""
    causes = error.details.get("causes")
    said = (
        [str(c.get("message", "")) for c in causes if isinstance(c, dict)] if isinstance(causes, list) else []
    )
    return sorted({found.group(1) for text in said if (found := _HOLDER.search(text))})


def _conflict(error: errors.Conflict, managers: Sequence[str]) -> Refused:
    others = [name for name in managers if name != FIELD_MANAGER]
    if others:
        said = _("Fields belong to %(managers)s.") % {"managers": ", ".join(others)}
        return Refused(Outcome.CONFLICT, f"{said} {error.message}", managers=others)
    return Refused(Outcome.CHANGED, _("Somebody changed the class meanwhile."))


def _check_kept(wanted: Spec, told: Spec) -> None:
    """A field that does not come back was dropped: its gate is off. Raises Refused."""
    dropped = [
        {"field": name, "gate": GATES.get(name, "")}
        for name, value in wanted.items()
        if told.get(name) != value
    ]
    if dropped:
        named = ", ".join(
            f"{entry['field']} ({entry['gate']})" if entry["gate"] else entry["field"] for entry in dropped
        )
        raise Refused(
            Outcome.DROPPED,
            _("The cluster would not keep: %(fields)s. Where a feature gate is named, it is off there.")
            % {"fields": named},
            dropped=dropped,
            answer=told,
        )


def _left(answer: Mapping[str, Any], wanted: Spec, labels: Labels | None) -> set[str]:
    """What would stay although it is not wanted: "extendedResourceName", "label tier"."""
    left = {name for name in class_history.spec_of(answer) if name not in wanted}
    if labels is not None:
        there = (answer.get("metadata") or {}).get("labels") or {}
        left |= {f"label {name}" for name in there if name not in labels}
    return left


def _owners(body: Mapping[str, Any], left: Iterable[str]) -> set[str]:
    """Managers of these fields."""
    found = set()
    for manager, _operation, fields in _managed(body):
        spec = fields.get("f:spec") or {}
        labels = (fields.get("f:metadata") or {}).get("f:labels") or {}
        for name in left:
            label = name.removeprefix("label ")
            if (f"f:{label}" in labels) if label != name else (f"f:{name}" in spec):
                found.add(manager)
    return found


def _own_labels(present: Present) -> dict[str, str]:
    """Labels that the desk has applied."""
    own: dict[str, str] = {}
    for manager, operation, fields in _managed(present.body):
        if (manager, operation) == (FIELD_MANAGER, "Apply"):
            labels = (fields.get("f:metadata") or {}).get("f:labels") or {}
            own |= {name: value for name, value in present.labels.items() if f"f:{name}" in labels}
    return own


def _managed(body: Mapping[str, Any]) -> Iterable[tuple[str, str, Mapping[str, Any]]]:
    for entry in (body.get("metadata") or {}).get("managedFields") or ():
        yield (
            str(entry.get("manager", "")), str(entry.get("operation", "")), entry.get("fieldsV1") or {},
        )  # fmt: skip
