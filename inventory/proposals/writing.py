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
from inventory.classes import GATES, TOOLS
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
            message += " " + _("Run there: kubectl apply -k deploy/cluster/base")
        elif isinstance(error, errors.Conflict | errors.NotFound):
            outcome = Outcome.CHANGED
        elif isinstance(error, errors.Unreachable | errors.BadCredentials | errors.TooManyRequests):
            outcome = Outcome.UNREACHABLE
        else:
            outcome = Outcome.ERROR
        return cls(outcome, message)


@dataclass(frozen=True)
class Goal:
    """What the class shall be; spec None = no class. Labels and annotations None = as they are; annotations
    that tools keep for themselves are never among them."""

    spec: Spec | None
    labels: Labels | None = None
    annotations: Labels | None = None

    @property
    def marks(self) -> Mapping[str, Labels | None]:
        """Labels and annotations by their place in the metadata."""
        return {"labels": self.labels, "annotations": self.annotations}


@dataclass(frozen=True)
class Present:
    """What the class is on the cluster; `spec` is None where there is none. `body` as it was answered."""

    spec: Spec | None = None
    labels: Labels = field(default_factory=dict)
    annotations: Labels = field(default_factory=dict)
    uid: str = ""
    version: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def marks(self) -> Mapping[str, Labels]:
        return {"labels": self.labels, "annotations": self.annotations}

    def is_what(self, goal: Goal) -> bool:
        """Whether it is so already."""
        if self.spec is None or goal.spec is None:
            return self.spec is None and goal.spec is None
        same = (wanted is None or self.marks[kind] == wanted for kind, wanted in goal.marks.items())
        return self.spec == goal.spec and all(same)


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
        annotations=_of_people(metadata.get("annotations")),
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
    goal: Goal,
    take_over: bool,
) -> Way:
    """Have the cluster say what it would make of it; nothing is changed. Raises Refused and ClusterError."""
    if goal.spec is None:
        client.delete(resource, name, uid=present.uid, resource_version=present.version, dry_run=True)
        return Way(replace=False, force=False, answer=None)
    body = _intent(resource, name, present, goal)
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
    if left := _left(answer, goal):
        others = sorted(_owners(present.body, left) - {FIELD_MANAGER})
        if others and not take_over:
            raise Refused(
                Outcome.CONFLICT,
                _("%(fields)s would stay: %(managers)s set it.")
                % {"fields": ", ".join(sorted(name for _kind, name in left)), "managers": ", ".join(others)},
                managers=others,
                answer=class_history.spec_of(answer),
            )
        replace = True
        answer = client.replace(resource, name, _replacement(resource, present, goal), dry_run=True)
    told = class_history.spec_of(answer)
    _check_kept(goal.spec, told)
    return Way(replace=replace, force=force, answer=told)


def write(
    client: Client,
    resource: Resource,
    name: str,
    *,
    way: Way,
    present: Present,
    goal: Goal,
) -> Mapping[str, Any] | None:
    """Do what was rehearsed; the object as it is then, None after a deletion. Raises Refused and
    ClusterError."""
    if goal.spec is None:
        client.delete(resource, name, uid=present.uid, resource_version=present.version)
        return None
    if way.replace:
        return client.replace(resource, name, _replacement(resource, present, goal))
    body = _intent(resource, name, present, goal)
    try:
        made = _apply(client, resource, name, body, force=way.force, dry_run=False)
    except errors.Conflict as error:
        raise _conflict(error, holders(error)) from error
    if class_history.spec_of(made) != goal.spec:
        # Somebody made one of this name since the rehearsal, which was about none.
        raise Refused(Outcome.CHANGED, _("Somebody else made a class of this name at the same moment."))
    return made


# --- bodies -------------------------------------------------------------------------------------------


def _apply(
    client: Client, resource: Resource, name: str, body: Mapping[str, Any], *, force: bool, dry_run: bool
) -> Mapping[str, Any]:
    return client.apply(resource, name, body, field_manager=FIELD_MANAGER, force=force, dry_run=dry_run)


def _intent(resource: Resource, name: str, present: Present, goal: Goal) -> dict[str, Any]:
    """What apply is asked for. What the desk applied before and asks for no longer is removed, so labels and
    annotations that are to stay are asked for again."""
    metadata: dict[str, Any] = {"name": name}
    for kind, wanted in goal.marks.items():
        if asked := _own(present, kind) if wanted is None else dict(wanted):
            metadata[kind] = asked
    if present.spec is not None:
        metadata |= {"uid": present.uid, "resourceVersion": present.version}
    return _object(resource, metadata, goal)


def _replacement(resource: Resource, present: Present, goal: Goal) -> dict[str, Any]:
    """The object as it was looked at, with what is wanted."""
    there = present.body.get("metadata") or {}
    metadata = {key: value for key, value in there.items() if key != "managedFields"}
    for kind, wanted in goal.marks.items():
        if wanted is not None:
            tools = {key: value for key, value in (there.get(kind) or {}).items() if key in TOOLS}
            metadata[kind] = {**tools, **wanted}
    return _object(resource, metadata, goal)


def _object(resource: Resource, metadata: Mapping[str, Any], goal: Goal) -> dict[str, Any]:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": dict(metadata),
        "spec": dict(goal.spec or {}),
    }


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


def _left(answer: Mapping[str, Any], goal: Goal) -> set[tuple[str, str]]:
    """What would stay although it is not wanted: ("spec", "extendedResourceName"), ("labels", "tier")."""
    wanted = goal.spec or {}
    left = {("spec", name) for name in class_history.spec_of(answer) if name not in wanted}
    metadata = answer.get("metadata") or {}
    for kind, asked in goal.marks.items():
        if asked is not None:
            left |= {(kind, name) for name in _of_people(metadata.get(kind)) if name not in asked}
    return left


def _owners(body: Mapping[str, Any], left: Iterable[tuple[str, str]]) -> set[str]:
    """Managers of these fields."""
    fields_of = [(manager, fields) for manager, _operation, fields in _managed(body)]
    return {
        manager for manager, fields in fields_of for kind, name in left if f"f:{name}" in _part(fields, kind)
    }


def _own(present: Present, kind: str) -> dict[str, str]:
    """Labels or annotations that the desk has applied."""
    own: dict[str, str] = {}
    for manager, operation, fields in _managed(present.body):
        if (manager, operation) == (FIELD_MANAGER, "Apply"):
            part = _part(fields, kind)
            own |= {name: text for name, text in present.marks[kind].items() if f"f:{name}" in part}
    return own


def _part(fields: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """The owned fields of the spec, the labels or the annotations."""
    if kind == "spec":
        return fields.get("f:spec") or {}
    return (fields.get("f:metadata") or {}).get(f"f:{kind}") or {}


def _of_people(marks: Mapping[str, Any] | None) -> dict[str, str]:
    """Without what tools keep for themselves."""
    return {str(key): str(text) for key, text in (marks or {}).items() if key not in TOOLS}


def _managed(body: Mapping[str, Any]) -> Iterable[tuple[str, str, Mapping[str, Any]]]:
    for entry in (body.get("metadata") or {}).get("managedFields") or ():
        yield (
            str(entry.get("manager", "")), str(entry.get("operation", "")), entry.get("fieldsV1") or {},
        )  # fmt: skip
