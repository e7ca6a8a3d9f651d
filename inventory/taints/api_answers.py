"""What REST tells of taints, rules, maintenance and drains."""

from collections.abc import Iterable, Mapping
from typing import Any

from rest_framework import serializers

from inventory.models import Drain, DrainHolder, Effect, Maintenance
from inventory.models.taints import Place
from inventory.taints.blast import Blast, Struck
from inventory.taints.listing import KINDS, TaintRow
from inventory.taints.places import text_of

# "" = nothing is tainted.
EFFECT_OR_NOTHING = [("", ""), *((effect, effect) for effect in Effect.values)]


class UpkeepPlaceOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    scope = serializers.ChoiceField(choices=Place.Scope.choices)
    driver = serializers.CharField()
    pool = serializers.CharField()
    node = serializers.CharField()
    devices = serializers.ListField(child=serializers.DictField(child=serializers.CharField()))
    words = serializers.CharField(help_text="In the caller's language.")


class CountOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    count = serializers.IntegerField()


class TaintOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    in_step = serializers.BooleanField(help_text="Whether this is present fact.")
    kind = serializers.ChoiceField(choices=[(kind, kind) for kind in KINDS])
    key = serializers.CharField()
    value = serializers.CharField()
    effect = serializers.CharField()
    rule = serializers.CharField(help_text="The DeviceTaintRule; empty for taints of drivers and nodes.")
    owner = serializers.CharField(help_text="The driver, or what wrote the rule first; empty: not known.")
    by_desk = serializers.BooleanField(help_text="Whether this desk made the rule.")
    made_by = serializers.CharField(allow_null=True, help_text="The person for whom the desk made it.")
    reason = serializers.CharField()
    left_over = serializers.BooleanField(help_text="What it was made for has ended.")
    since = serializers.DateTimeField(allow_null=True, help_text="Null: not known. Of several the first.")
    until = serializers.DateTimeField(allow_null=True, help_text="Of several the last.")
    undated = serializers.IntegerField(help_text="Of several, those whose time is not known.")
    count = serializers.IntegerField(help_text="Devices, or nodes.")
    devices = serializers.ListField(child=serializers.IntegerField(), help_text="Ids of the first of them.")
    nodes = serializers.ListField(child=serializers.CharField())
    held = serializers.IntegerField(help_text="Devices on which somebody is.")
    projects = CountOut(many=True)


class StruckOut(serializers.Serializer[Any]):
    namespace = serializers.CharField()
    name = serializers.CharField()
    uid = serializers.CharField()
    node = serializers.CharField()
    project = serializers.CharField(allow_null=True)
    claims = serializers.ListField(child=serializers.CharField())
    devices = serializers.ListField(child=serializers.CharField())
    after_seconds = serializers.IntegerField(
        allow_null=True, help_text="After the taint was added; null: it tolerates it for ever."
    )


class WouldWaitOut(serializers.Serializer[Any]):
    namespace = serializers.CharField()
    name = serializers.CharField()
    uid = serializers.CharField()
    fits_now = serializers.BooleanField(help_text="It could have a device now, and then no more.")


class BlastOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    as_of = serializers.DateTimeField(allow_null=True)
    in_step = serializers.BooleanField(help_text="Whether this is present fact.")
    digest = serializers.CharField(help_text="Send it as `looked` with the change that it is about.")
    selects_all = serializers.BooleanField(help_text="Every device, also those to come.")
    devices = serializers.IntegerField()
    states = serializers.DictField(child=serializers.IntegerField())
    allocated = serializers.IntegerField()
    evicted = StruckOut(many=True, help_text="Pods that leave if the effect is NoExecute.")
    staying = StruckOut(many=True)
    waiting = WouldWaitOut(many=True, help_text="Claims that would wait for one of these devices.")
    unexamined = serializers.IntegerField(help_text="Claims that wait and were not looked at.")
    requests = serializers.ListField(child=serializers.UUIDField())
    people = serializers.ListField(child=serializers.CharField())


class RuleOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    name = serializers.CharField()
    done = serializers.BooleanField(help_text="False after a rehearsal.")
    effect = BlastOut()


class MaintenanceOut(serializers.Serializer[Any]):
    key = serializers.UUIDField()
    place = UpkeepPlaceOut()
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    reason = serializers.CharField()
    effect = serializers.ChoiceField(choices=EFFECT_OR_NOTHING)
    state = serializers.ChoiceField(choices=Maintenance.State.choices)
    problem = serializers.CharField(help_text="Why the cluster does not follow; it is tried again.")
    version = serializers.IntegerField(help_text="Send it with a change.")
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)


class DrainHolderOut(serializers.Serializer[Any]):
    key = serializers.UUIDField()
    namespace = serializers.CharField()
    name = serializers.CharField()
    uid = serializers.CharField()
    counted = serializers.BooleanField(help_text="A Pod with units of a Device Plugin, not a claim.")
    things = serializers.ListField(child=serializers.CharField())
    pods = serializers.ListField(child=serializers.CharField())
    project = serializers.CharField(allow_null=True)
    request = serializers.UUIDField(allow_null=True)
    held_until = serializers.DateTimeField(allow_null=True)
    told_at = serializers.DateTimeField(allow_null=True)
    answer = serializers.ChoiceField(choices=DrainHolder.Answer.choices)
    answer_by = serializers.DateTimeField(allow_null=True)
    answer_note = serializers.CharField()
    answered_at = serializers.DateTimeField(allow_null=True)
    gone_at = serializers.DateTimeField(allow_null=True)


class DrainOut(serializers.Serializer[Any]):
    key = serializers.UUIDField()
    place = UpkeepPlaceOut()
    reason = serializers.CharField()
    state = serializers.ChoiceField(choices=Drain.State.choices)
    wanted_by = serializers.DateTimeField(allow_null=True)
    version = serializers.IntegerField(help_text="Send it with a step.")
    problem = serializers.CharField()
    empty_at = serializers.DateTimeField(allow_null=True)
    evidence = serializers.DictField(help_text="What the mirror showed when it was confirmed empty.")
    maintenance = serializers.UUIDField(allow_null=True)


class DrainDetailOut(DrainOut):
    holders = DrainHolderOut(many=True, help_text="Those that the caller may see.")
    not_empty = serializers.ListField(
        child=serializers.CharField(), help_text="Why it is not confirmed empty; for who reads everything."
    )


def place_of(place: Place) -> dict[str, Any]:
    return {
        "cluster": place.cluster.name,
        "scope": place.scope,
        "driver": place.driver,
        "pool": place.pool_name,
        "node": place.node_name,
        "devices": place.devices,
        "words": str(text_of(place)),
    }


def taint_answer(row: TaintRow) -> dict[str, Any]:
    names = ("kind", "key", "value", "effect", "rule", "since", "until", "undated", "count", "held")
    return {name: getattr(row, name) for name in names} | {
        "cluster": row.coverage.cluster.name,
        "in_step": row.coverage.in_step,
        "owner": row.owner.name,
        "by_desk": row.owner.desk,
        "made_by": row.owner.person.username if row.owner.person else None,
        "reason": row.owner.reason,
        "left_over": row.owner.left_over,
        "devices": [device.pk for device in row.named],
        "nodes": row.nodes[: len(row.named) or 20],
        "projects": [{"name": name, "count": count} for name, count in row.projects],
    }


def blast_answer(blast: Blast) -> dict[str, Any]:
    return {
        "cluster": blast.coverage.cluster.name,
        "as_of": blast.coverage.as_of,
        "in_step": blast.coverage.in_step,
        "digest": blast.digest,
        "selects_all": blast.selects_all,
        "devices": blast.devices,
        "states": blast.states,
        "allocated": blast.allocated,
        "evicted": list(_struck(blast.evicted)),
        "staying": list(_struck(blast.staying)),
        "waiting": [
            {"namespace": claim.namespace, "name": claim.name, "uid": claim.uid, "fits_now": claim.now}
            for claim in blast.waiting
        ],
        "unexamined": blast.unexamined,
        "requests": [concern.key for concern in blast.concerns],
        "people": [person.username for person in blast.people],
    }


def _struck(pods: Iterable[Struck]) -> Iterable[Mapping[str, Any]]:
    for pod in pods:
        yield {
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
            "node": pod.node,
            "project": pod.concern.project.slug if pod.concern.project else None,
            "claims": pod.claims,
            "devices": pod.devices,
            "after_seconds": None if pod.after is None else int(pod.after.total_seconds()),
        }


def maintenance_answer(found: Maintenance) -> dict[str, Any]:
    names = ("key", "starts_at", "ends_at", "reason", "effect", "state", "problem", "version")
    return {name: getattr(found, name) for name in (*names, "started_at", "ended_at")} | {
        "place": place_of(found)
    }


def drain_answer(drain: Drain) -> dict[str, Any]:
    names = ("key", "reason", "state", "wanted_by", "version", "problem", "empty_at", "evidence")
    return {name: getattr(drain, name) for name in names} | {
        "place": place_of(drain),
        "maintenance": drain.maintenance.key if drain.maintenance else None,
    }


def holder_answer(holder: DrainHolder) -> dict[str, Any]:
    names = (
        *("key", "namespace", "name", "uid", "counted", "things", "pods", "held_until", "told_at", "answer"),
        *("answer_by", "answer_note", "answered_at", "gone_at"),
    )
    return {name: getattr(holder, name) for name in names} | {
        "project": holder.project.slug if holder.project else None,
        "request": holder.request_key,
    }
