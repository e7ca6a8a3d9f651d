"""One question, one answer: allocate named claims in an inventory, as JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from portal.dra.allocator import DEFAULT_STEPS, allocate
from portal.dra.availability import unavailable
from portal.dra.cli.loading import Inventory, UnreadableError, features_of
from portal.dra.cluster import candidates, tried
from portal.dra.features import Features, UnknownFeature
from portal.dra.fleet import Fleet
from portal.dra.model import ResourceClaim, Toleration, encode
from portal.dra.outcomes import Allocated, Failed, Outcome, Reason, Undecided, Unschedulable

Answer = dict[str, Any]

EXIT_STATUS = {"allocated": 0, "unschedulable": 3, "error": 2, "undecided": 4}
_MOST_REASONS = 20


class Scenario(msgspec.Struct):
    """One line of `--batch`.

    `node` is a name, or a Node that then is one of the objects. `features` names exactly the gates that are
    on; `kubernetes` presets them, or with both says whose ungated habits apply.
    """

    claims: list[str]
    objects: list[Any] = []
    node: str | dict[str, Any] | None = None
    features: list[str] | dict[str, bool] | None = None
    kubernetes: str | None = None


def answer_line(line: bytes | str, *, default: Features | None = None) -> Answer:
    """The answer to one scenario; whatever is wrong with it becomes an error answer.

    `default` are the gates of a scenario that says nothing about them, in place of the latest version's.
    """
    try:
        scenario = msgspec.json.decode(line, type=Scenario)
        inventory = Inventory()
        inventory.add_all(scenario.objects, "objects")
        node = _node(inventory, scenario.node)
        return answer(inventory, names=scenario.claims, node=node, features=_features(scenario, default))
    except (
        msgspec.DecodeError,
        UnicodeDecodeError,
        RecursionError,
        UnreadableError,
        UnknownFeature,
    ) as error:
        return input_error(str(error))


def _features(scenario: Scenario, default: Features | None) -> Features:
    gates = scenario.features
    if default is not None and gates is None and scenario.kubernetes is None:
        return default
    if isinstance(gates, dict):
        gates = [f"{gate}={str(on).lower()}" for gate, on in gates.items()]
    return features_of(kubernetes=scenario.kubernetes, gates=gates)


def _node(inventory: Inventory, node: str | dict[str, Any] | None) -> str | None:
    """The node's name; a Node given as an object joins the others."""
    if not isinstance(node, dict):
        return node or None
    before = len(inventory.nodes)
    inventory.add_all({"apiVersion": "v1", "kind": "Node", **node}, "node")
    if len(inventory.nodes) == before:
        raise UnreadableError(inventory.complaints[-1] if inventory.complaints else "node: not a Node")
    return inventory.nodes[-1].metadata.name


def input_error(message: str, complaints: Sequence[str] = ()) -> Answer:
    """What stands for an answer where the question could not be understood: no node can help there."""
    error = {"outcome": "error", "scope": "claim", "error": message, "code": "input"}
    return _with_complaints(error, complaints)


def answer(inventory: Inventory, *, names: Sequence[str], node: str | None, features: Features) -> Answer:
    """Allocate the named claims, in this order, on the node, or else on the first node that fits."""
    try:
        claims = [inventory.claim(name) for name in names]
        _no_claim_twice(claims)
    except UnreadableError as error:
        return input_error(str(error), inventory.complaints)
    fleet = inventory.fleet(features)
    outcome = first_fit(fleet, claims, node)
    if isinstance(outcome, Unschedulable):
        outcome = Unschedulable((*outcome.reasons, *_misses(fleet, claims, node)))
    return _with_complaints(_form(outcome, names), inventory.complaints)


def _misses(fleet: Fleet, claims: Sequence[ResourceClaim], node: str | None) -> Iterator[Reason]:
    """What each claim lacks by itself; or that they only do not fit together."""
    from portal.dra.explain import explain

    # A node that was named is taken as it is, cordoned or not.
    tolerations = () if node is None else (Toleration(operator="Exists"),)
    alone = [
        explain(fleet, claim, node=node, tolerations=tolerations).nearest
        for claim in claims
        if claim.status.allocation is None
    ]
    found = [reason for reason in alone if reason is not None]
    yield from found or ([Reason(code="miss-claims")] if len(alone) > 1 else [])


def _no_claim_twice(claims: Sequence[ResourceClaim]) -> None:
    keys = [claim.key for claim in claims]
    for key in keys:
        if keys.count(key) > 1:
            raise UnreadableError(f"claim {'/'.join(filter(None, key))} is named twice")


def first_fit(fleet: Fleet, claims: Sequence[ResourceClaim], node: str | None) -> Outcome:
    """The outcome on the given node; without one, the first success, or why no available node will do."""
    if node is not None:
        return allocate(fleet, node=node, claims=claims)
    reasons: list[Reason] = []
    names: list[str] = []
    for known in candidates(fleet):
        reason = unavailable(known)
        if reason is None:
            names.append(known.metadata.name)
        else:
            reasons.append(reason)
    last: Outcome = Unschedulable((Reason(code="no-nodes"),))
    undecided = False
    for name, outcome in tried(fleet, claims, names):
        if isinstance(outcome, Allocated) or (isinstance(outcome, Failed) and outcome.scope == "claim"):
            return outcome
        undecided = undecided or isinstance(outcome, Undecided)
        last = outcome
        match outcome:
            case Failed():
                reasons.append(outcome.error)
            case Unschedulable():
                reasons.append(Reason(code="no-devices", params={"node": name}))
    if undecided:
        return Undecided(steps=DEFAULT_STEPS)
    if len(names) == 1 and len(reasons) == 1:
        return last
    total = Reason(code="no-node", params={"nodes": len(names)}) if names else Reason(code="no-nodes")
    return Unschedulable((total, *reasons[:_MOST_REASONS]))


def _form(outcome: Outcome, names: Sequence[str]) -> Answer:
    match outcome:
        case Allocated():
            claims = [
                {"name": name, "allocation": encode(allocation)}
                for name, allocation in zip(names, outcome.claims, strict=True)
            ]
            return {"outcome": "allocated", "node": outcome.node, "claims": claims}
        case Unschedulable():
            return {"outcome": "unschedulable", "reasons": [str(reason) for reason in outcome.reasons]}
        case Undecided():
            return {"outcome": "undecided", "steps": outcome.steps}
        case Failed():
            return {
                "outcome": "error",
                "scope": outcome.scope,
                "error": str(outcome.error),
                "code": outcome.error.code,
            }


def _with_complaints(result: Answer, complaints: Sequence[str]) -> Answer:
    return {**result, "malformed": list(complaints)} if complaints else result
