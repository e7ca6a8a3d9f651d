"""DeviceTaintRules that the desk writes: rehearsed by the cluster first, and only over what was looked at.

As with classes, what comes back from the rehearsal is compared with what was sent: API servers drop fields
whose gate is off without a word. The mirror follows through the watch; `DeskRule` keeps who wanted it.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from inventory import clusters
from inventory.follow.discovery import preferred
from inventory.models import Cluster, DeskRule, Drain, Maintenance
from inventory.taints.selecting import Selector, Taint
from portal import access, texts
from portal.accounts import audit
from portal.accounts.models import User
from portal.kube import errors
from portal.kube.client import Client
from portal.kube.resources import DEVICE_TAINT_RULES, Resource

PREFIX = "claimdesk.io"
LABELS = {"app.kubernetes.io/managed-by": "claimdesk"}
REASON = f"{PREFIX}/reason"
# The label that names the maintenance or drain that a rule is for.
UPKEEP = f"{PREFIX}/upkeep"
MAX_REASON = 1000


class UnableToTaint(Exception):
    """`field` is the form field at fault ("name", "driver", "pool", "device", "key", "value", "effect",
    "confirm", "reason"; "" = none)."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


class GoneElsewhere(UnableToTaint):
    """There is no such rule (any more)."""


class ThereAlready(UnableToTaint):
    """There is a rule of this name."""


@dataclass(frozen=True, kw_only=True)
class WantedRule:
    """What a rule is to be."""

    name: str
    selector: Selector
    taint: Taint
    reason: str = ""
    # The key of the maintenance or drain that it is for.
    upkeep: str = ""

    def spec(self) -> dict[str, Any]:
        return {"deviceSelector": self.selector.spec(), "taint": self.taint.spec()}


@dataclass(frozen=True, kw_only=True)
class Deed:
    """On whose behalf a rule is written. `actor` None: by the desk, at a time that was planned."""

    actor: User | None
    now: datetime
    source_ip: str | None = None
    maintenance: Maintenance | None = None
    drain: Drain | None = None


def create_rule(
    *, cluster: Cluster, wanted: WantedRule, deed: Deed, confirmed: str = "", rehearse_only: bool = False
) -> None:
    """Make a rule after its rehearsal. One that selects everything needs `confirmed`, the cluster's name.
    Raises UnableToTaint."""
    _check(cluster, wanted, confirmed)
    with changing(cluster) as client:
        resource = _resource(client)
        body = _body(resource, {"name": wanted.name, **_marks(wanted)}, wanted.spec())
        _compare(body, client.create(resource, body, dry_run=True))
        if rehearse_only:
            return
        made = client.create(resource, body)
    note_made(cluster=cluster, wanted=wanted, made=made, deed=deed)


def update_rule(
    *,
    cluster: Cluster,
    wanted: WantedRule,
    seen_version: str,
    deed: Deed,
    confirmed: str = "",
    rehearse_only: bool = False,
) -> None:
    """Change a rule after its rehearsal, if it is still of the resourceVersion that was looked at. Another
    taint begins anew, also for those who tolerate it for some seconds. Raises UnableToTaint."""
    _check(cluster, wanted, confirmed)
    with changing(cluster) as client:
        resource = _resource(client)
        current = client.get(resource, wanted.name)
        before = dict(current.get("spec") or {})
        metadata = dict(current.get("metadata") or {}) | {"resourceVersion": seen_version}
        if wanted.reason:
            metadata["annotations"] = {**(metadata.get("annotations") or {}), REASON: wanted.reason}
        spec = wanted.spec()
        if _same_taint(before.get("taint") or {}, spec["taint"]):
            spec["taint"] = before["taint"]
        body = _body(resource, metadata, spec)
        _compare(body, client.replace(resource, wanted.name, body, dry_run=True))
        if rehearse_only:
            return
        client.replace(resource, wanted.name, body)
    with transaction.atomic():
        rows = DeskRule.objects.filter(cluster=cluster, name=wanted.name, removed_at=None)
        rows.update(effect=wanted.taint.effect, **({"reason": wanted.reason} if wanted.reason else {}))
        _record(cluster, "taint_rule.update", wanted.name, deed=deed, before=before, after=wanted.spec())


def delete_rule(*, cluster: Cluster, name: str, deed: Deed, uid: str = "") -> None:
    """Delete a rule, with `uid` only that very one. Raises UnableToTaint (GoneElsewhere: there is none)."""
    with changing(cluster) as client:
        resource = _resource(client)
        current = client.get(resource, name)
        found = str((current.get("metadata") or {}).get("uid", ""))
        if uid and found != uid:
            raise GoneElsewhere("", _("Meanwhile there is another rule of this name."))
        client.delete(resource, name, uid=found, dry_run=True)
        client.delete(resource, name, uid=found)
    with transaction.atomic():
        note_gone(cluster=cluster, name=name, now=deed.now)
        _record(cluster, "taint_rule.delete", name, deed=deed, before=dict(current.get("spec") or {}))


def note_made(*, cluster: Cluster, wanted: WantedRule, made: Mapping[str, Any], deed: Deed) -> None:
    """Keep who wanted a rule that is there now."""
    with transaction.atomic():
        DeskRule.objects.update_or_create(
            cluster=cluster,
            name=wanted.name,
            removed_at=None,
            defaults={
                "uid": str((made.get("metadata") or {}).get("uid", ""))[:64],
                "effect": wanted.taint.effect,
                "reason": wanted.reason,
                "actor": deed.actor,
                "made_at": deed.now,
                "maintenance": deed.maintenance,
                "drain": deed.drain,
            },
        )
        _record(cluster, "taint_rule.create", wanted.name, deed=deed, after=wanted.spec())


def note_gone(*, cluster: Cluster, name: str, now: datetime) -> None:
    """A rule is no longer there."""
    DeskRule.objects.filter(cluster=cluster, name=name, removed_at=None).update(removed_at=now)


def find_rule(client: Client, name: str) -> dict[str, Any] | None:
    """A rule as the cluster has it now; None where there is none. Raises ClusterError, UnableToTaint."""
    try:
        return client.get(_resource(client), name)
    except errors.NotFound:
        return None


@contextmanager
def changing(cluster: Cluster) -> Iterator[Client]:
    """A client, with what the cluster refuses renamed for the form."""
    if access.only_looks():
        raise UnableToTaint("", access.why_only_looks())
    try:
        with clusters.client_for(cluster) as client:
            yield client
    except errors.AlreadyExists as error:
        raise ThereAlready("name", _("The cluster has a rule of this name already.")) from error
    except errors.NotFound as error:
        raise GoneElsewhere("name", _("The cluster has no rule of this name (any more).")) from error
    except errors.Conflict as error:
        raise UnableToTaint(
            "", _("Somebody changed the rule meanwhile. Look at it again, then repeat your change.")
        ) from error
    except errors.Invalid as error:
        raise UnableToTaint(*_blame(error)) from error
    except errors.ClusterError as error:
        raise UnableToTaint("", error.message) from error


# --- inside -------------------------------------------------------------------------------------------


def _check(cluster: Cluster, wanted: WantedRule, confirmed: str) -> None:
    try:
        texts.plain(wanted.reason)
    except texts.UncleanText as unclean:
        raise UnableToTaint("reason", unclean.message) from None
    if wanted.selector.selects_all and confirmed.strip() != cluster.name:
        raise UnableToTaint(
            "confirm",
            _("This taints every device of the cluster: type its name, %(name)s, to confirm.")
            % {"name": cluster.name},
        )


def _blame(error: errors.Invalid) -> tuple[str, str]:
    """Form field and message for what the API server says about the object."""
    for prefix, name in (
        ("metadata.name", "name"),
        ("spec.deviceSelector.driver", "driver"),
        ("spec.deviceSelector.pool", "pool"),
        ("spec.deviceSelector.device", "device"),
        ("spec.taint.key", "key"),
        ("spec.taint.value", "value"),
        ("spec.taint.effect", "effect"),
    ):
        said = [cause.message for cause in error.causes if cause.field.startswith(prefix)]
        if said:
            return name, " ".join(said)[:1000]
    return "", error.message


def _resource(client: Client) -> Resource:
    """Rules in the best version that the cluster serves."""
    found = preferred(client).get(DEVICE_TAINT_RULES.plural)
    if found is None:
        raise UnableToTaint("", _("The cluster does not serve DeviceTaintRules."))
    return found


def _body(resource: Resource, metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {key: value for key, value in metadata.items() if key != "managedFields"},
        "spec": dict(spec),
    }


def _marks(wanted: WantedRule) -> dict[str, Any]:
    labels = LABELS | ({UPKEEP: wanted.upkeep} if wanted.upkeep else {})
    return {"labels": labels} | ({"annotations": {REASON: wanted.reason}} if wanted.reason else {})


def _same_taint(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all((one.get(name) or "") == (other.get(name) or "") for name in ("key", "value", "effect"))


def _compare(sent: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
    """A field that does not come back was dropped."""
    returned = answer.get("spec") or {}
    for part, value in sent["spec"].items():
        kept = returned.get(part) or {}
        for name, wanted in value.items():
            if kept.get(name) != wanted:
                raise UnableToTaint(
                    name, _("The cluster would not keep “%(field)s” as given.") % {"field": f"{part}.{name}"}
                )


def _record(
    cluster: Cluster,
    action: str,
    name: str,
    *,
    deed: Deed,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    audit.record(
        now=deed.now,
        actor=deed.actor,
        action=action,
        target=cluster,
        target_kind="devicetaintrule",
        target_id=f"{cluster.pk}/{name}"[:64],
        target_name=f"{cluster.name}/{name}",
        before=before,
        after=after,
        source_ip=deed.source_ip,
    )
