"""The history of DeviceClasses: noted when the desk writes and when the mirror sees a change.

A class has drifted when its newest version was made without the desk and differs from the newest *agreed*
one: what the desk wrote, what somebody adopted, or what was there when the desk first looked.
"""

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.utils.translation import gettext as _

from inventory import describe
from inventory.models import ClassProposal, ClassVersion, Cluster, DeviceClass
from portal.accounts import audit
from portal.accounts.models import User
from portal.dra import model as dra

Source = ClassVersion.Source
Spec = Mapping[str, Any]
MAX_REASON = 1000
# Annotations that tools keep for themselves.
TOOLS = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})


class UnableToAdopt(Exception):
    """`message` says why, for people."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True)
class DiffLine:
    """`kind` is "added", "removed" or "" (the same in both)."""

    kind: str
    text: str


@dataclass(frozen=True)
class Drift:
    """What was agreed, and what the class became without the desk."""

    agreed: ClassVersion
    now: ClassVersion

    @property
    def diff(self) -> Sequence[DiffLine]:
        return diff(told(self.agreed), told(self.now))


# --- noting -------------------------------------------------------------------------------------------


def note_seen(
    *, cluster_id: int, changes: Sequence[tuple[DeviceClass | None, DeviceClass]], now: datetime
) -> None:
    """The mirror saw these classes (before, after). What the desk noted already is not noted again."""
    changed = [(old, new) for old, new in changes if old is None or _whole(old) != _whole(new)]
    latest = _latest(cluster_id, {new.name for _, new in changed})
    rows = []
    for old, new in changed:
        known = latest.get(new.name)
        if known is None and old is not None:
            rows.append(_version(old, at=now, source=Source.FIRST))
        first = known is None and old is None
        if known is None or known.deleted or _differ(known, new):
            rows.append(_version(new, at=now, source=Source.FIRST if first else Source.SEEN))
    ClassVersion.objects.bulk_create(rows, ignore_conflicts=True)


def note_gone(*, cluster_id: int, rows: Sequence[DeviceClass], now: datetime) -> None:
    """The mirror lost these classes."""
    latest = _latest(cluster_id, {row.name for row in rows})
    gone = [row for row in rows if row.name not in latest or not latest[row.name].deleted]
    ClassVersion.objects.bulk_create(
        [_version(row, at=now, source=Source.SEEN, deleted=True) for row in gone], ignore_conflicts=True
    )


def note_written(
    *,
    cluster: Cluster,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    actor: User,
    now: datetime,
    reason: str,
    proposal: ClassProposal | None = None,
) -> None:
    """The desk wrote: `before` and `after` are the objects as the cluster answered; None = there is none.
    If the mirror was faster, the version that it saw becomes the desk's."""
    body = after if after is not None else before
    assert body is not None
    name = str(body["metadata"]["name"])
    with transaction.atomic():
        if before is not None and not ClassVersion.objects.filter(cluster=cluster, name=name).exists():
            ClassVersion.objects.create(
                cluster=cluster,
                name=name,
                at=now,
                source=Source.FIRST,
                spec=spec_of(before),
                **_keys(before),
                **_texts(before),
            )
        ClassVersion.objects.update_or_create(
            cluster=cluster,
            **_keys(body),
            deleted=after is None,
            defaults={
                "source": Source.DESK,
                "actor": actor,
                "reason": reason[:MAX_REASON],
                "proposal": proposal,
            },
            create_defaults={
                "name": name,
                "at": now,
                "source": Source.DESK,
                "spec": spec_of(body),
                **_texts(body),
                "actor": actor,
                "reason": reason[:MAX_REASON],
                "proposal": proposal,
            },
        )


def adopt(
    *,
    cluster: Cluster,
    name: str,
    version: int,
    actor: User,
    now: datetime,
    reason: str = "",
    source_ip: str | None = None,
) -> None:
    """Agree with what the class became without the desk. `version` is the key of what was looked at: raises
    UnableToAdopt when it is another by now."""
    with transaction.atomic():
        drift = drift_of(cluster, name)
        if drift is None:
            raise UnableToAdopt(_("The class is as it was agreed: there is nothing to adopt."))
        if drift.now.pk != version:
            raise UnableToAdopt(_("The class was changed again meanwhile. Look at the difference anew."))
        ClassVersion.objects.create(
            cluster=cluster,
            name=name,
            uid=drift.now.uid,
            resource_version=drift.now.resource_version,
            at=now,
            source=Source.ADOPTED,
            deleted=drift.now.deleted,
            spec=drift.now.spec,
            labels=drift.now.labels,
            annotations=drift.now.annotations,
            actor=actor,
            reason=reason[:MAX_REASON],
        )
        audit.record(
            now=now,
            actor=actor,
            action="device_class.adopt",
            target=cluster,
            target_kind="deviceclass",
            target_id=f"{cluster.pk}/{name}"[:64],
            target_name=f"{cluster.name}/{name}",
            before=drift.agreed.spec,
            after=drift.now.spec,
            source_ip=source_ip,
        )


def _latest(cluster_id: int, names: Collection[str]) -> dict[str, ClassVersion]:
    newest = ClassVersion.objects.filter(cluster_id=cluster_id, name__in=names).order_by().values("name")
    keys = list(newest.annotate(newest=Max("pk")).values_list("newest", flat=True))
    return {version.name: version for version in ClassVersion.objects.filter(pk__in=keys)}


def _version(row: DeviceClass, **fields: Any) -> ClassVersion:
    return ClassVersion(
        cluster_id=row.cluster_id,
        name=row.name,
        uid=row.uid,
        resource_version=row.resource_version,
        spec=row.spec,
        labels=row.labels,
        annotations=own_annotations(row.annotations),
        **fields,
    )


def own_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """Annotations without those that tools keep for themselves and write at every turn."""
    return {key: text for key, text in annotations.items() if key not in TOOLS}


def _whole(row: DeviceClass) -> tuple[Any, ...]:
    return row.spec, row.labels, own_annotations(row.annotations)


def _differ(known: ClassVersion, row: DeviceClass) -> bool:
    """Whether a class is another than a version says; of labels that it does not tell, nothing is said."""
    spec, labels, annotations = _whole(row)
    return (
        known.spec != spec
        or (known.labels is not None and known.labels != labels)
        or (known.annotations is not None and known.annotations != annotations)
    )


def _texts(body: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    metadata = body["metadata"]
    return {
        "labels": dict(metadata.get("labels") or {}),
        "annotations": own_annotations(metadata.get("annotations") or {}),
    }


def _keys(body: Mapping[str, Any]) -> dict[str, str]:
    metadata = body["metadata"]
    return {
        "uid": str(metadata.get("uid", "")),
        "resource_version": str(metadata.get("resourceVersion", "")),
    }


def spec_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of an object of the API, in the same form as the mirror keeps it."""
    try:
        found: dict[str, Any] = dra.encode(dra.decode_object(dict(body)).spec)
    except dra.Malformed:
        found = dict(body.get("spec") or {})
    return found


# --- reading ------------------------------------------------------------------------------------------


def drift_of(cluster: Cluster, name: str) -> Drift | None:
    """What changed without the desk and nobody has adopted; None while the class is as agreed."""
    versions = ClassVersion.objects.filter(cluster=cluster, name=name).order_by("-pk")
    now = versions.first()
    if now is None or now.source != Source.SEEN:
        return None
    agreed = versions.exclude(source=Source.SEEN).first()
    if agreed is None or alike(agreed, now):
        return None
    return Drift(agreed=agreed, now=now)


def alike(one: ClassVersion, other: ClassVersion) -> bool:
    """Whether two versions say the same, as far as both tell."""
    pairs = ((one.labels, other.labels), (one.annotations, other.annotations))
    return (one.spec, one.deleted) == (other.spec, other.deleted) and all(
        a == b for a, b in pairs if a is not None and b is not None
    )


def told(version: ClassVersion | None) -> Spec | None:
    """What a version says the class is, with labels and annotations where it has any; None where it says that
    there is none."""
    if version is None or version.deleted:
        return None
    return whole(version.spec, version.labels, version.annotations)


def whole(
    spec: Spec, labels: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = None
) -> Spec:
    """A spec with the labels and annotations above it, to be read."""
    metadata = {"labels": labels, "annotations": annotations}
    return {**{key: dict(texts) for key, texts in metadata.items() if texts}, **spec}


def diff(before: Spec | None, after: Spec | None) -> Sequence[DiffLine]:
    """Two specs as YAML, line by line; None is no class at all."""
    return text_diff(*(describe.as_yaml(spec) if spec is not None else "" for spec in (before, after)))


def text_diff(before: str, after: str) -> Sequence[DiffLine]:
    """Two texts, line by line."""
    kinds = {"+ ": "added", "- ": "removed", "  ": ""}
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    return [DiffLine(kinds[line[:2]], line[2:]) for line in lines if line[:2] in kinds]
