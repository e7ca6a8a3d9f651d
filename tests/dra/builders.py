"""Short words for DRA objects in tests; everything is decoded from the API's JSON form, as in real life."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from portal.dra.allocator import allocate
from portal.dra.features import KNOWN, Features
from portal.dra.fleet import Fleet
from portal.dra.model import (
    DeviceClass,
    DeviceTaintRule,
    Node,
    ResourceClaim,
    ResourceSlice,
    decode_object,
    encode,
)
from portal.dra.outcomes import Allocated, Failed, Outcome, Undecided, Unschedulable

T = TypeVar("T")
V1 = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"
NODE = "node-1"
ALL = Features.of(KNOWN)
NONE = Features.of(())


def without(*gates: str) -> Features:
    """Every gate but these."""
    return ALL.with_gates(off=gates)


def attributes(**values: Any) -> dict[str, Any]:
    """Attributes by Python type; `{"version": …}` and other dicts are taken as they are."""
    kinds = {str: "string", int: "int", bool: "bool"}
    return {
        key.replace("__", "/"): value if isinstance(value, dict) else {kinds[type(value)]: value}
        for key, value in values.items()
    }


def device(
    name: str, *, attrs: dict[str, Any] | None = None, capacity: dict[str, Any] | None = None, **rest: Any
) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, **rest}
    if attrs:
        found["attributes"] = attributes(**attrs)
    if capacity:
        found["capacity"] = {
            key: value if isinstance(value, dict) else {"value": value} for key, value in capacity.items()
        }
    return found


def devices(*names: str, **rest: Any) -> list[dict[str, Any]]:
    return [device(name, **rest) for name in names]


def slice_of(
    *found: dict[str, Any],
    node: str | None = NODE,
    driver: str = DRIVER,
    pool: str = "pool-1",
    name: str = "slice-1",
    generation: int = 1,
    count: int = 1,
    **spec: Any,
) -> ResourceSlice:
    where = {} if node is None else {"nodeName": node}
    body = {
        "driver": driver,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
        **where,
        "devices": list(found),
        **spec,
    }
    return _decoded(ResourceSlice, name, body)


def device_class(name: str = "gpu", *expressions: str, **spec: Any) -> DeviceClass:
    return _decoded(DeviceClass, name, {"selectors": selectors(*expressions), **spec})


def selectors(*expressions: str) -> list[dict[str, Any]]:
    return [{"cel": {"expression": expression}} for expression in expressions]


def ask(name: str = "r", *expressions: str, cls: str = "gpu", **fields: Any) -> dict[str, Any]:
    """An exact request."""
    body: dict[str, Any] = {"deviceClassName": cls, **fields}
    if expressions:
        body["selectors"] = selectors(*expressions)
    return {"name": name, "exactly": body}


def sub(name: str, *expressions: str, cls: str = "gpu", **fields: Any) -> dict[str, Any]:
    """An alternative of `first_of`."""
    found = ask(name, *expressions, cls=cls, **fields)
    return {"name": name, **found["exactly"]}


def first_of(name: str, *alternatives: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "firstAvailable": list(alternatives)}


def claim(
    *requests: dict[str, Any], name: str = "claim", namespace: str = "team", **spec: Any
) -> ResourceClaim:
    return _decoded(
        ResourceClaim, name, {"devices": {"requests": list(requests), **spec}}, namespace=namespace
    )


def holding(*found: str, name: str = "holder", driver: str = DRIVER, **result: Any) -> ResourceClaim:
    """A claim that holds devices, given as `pool/device`."""
    results = [
        {"request": "r", "driver": driver, "pool": item.split("/")[0], "device": item.split("/")[1], **result}
        for item in found
    ]
    return _decoded(
        ResourceClaim,
        name,
        {},
        namespace="others",
        status={"allocation": {"devices": {"results": results}}},
    )


def node(name: str = NODE, *, labels: dict[str, str] | None = None, **body: Any) -> Node:
    found: Any = decode_object(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels or {}}, **body}
    )
    assert isinstance(found, Node)
    return found


def taint_rule(
    effect: str = "NoSchedule", *, key: str = "maintenance", value: str = "", selector: dict[str, Any] | None
) -> DeviceTaintRule:
    spec: dict[str, Any] = {"taint": {"key": key, "value": value, "effect": effect}}
    if selector is not None:
        spec["deviceSelector"] = selector
    return _decoded(DeviceTaintRule, "rule", spec)


def fleet(
    *slices: ResourceSlice,
    classes: Iterable[DeviceClass] | None = None,
    features: Features = ALL,
    **rest: Any,
) -> Fleet:
    return Fleet.build(
        slices=slices, classes=[device_class()] if classes is None else classes, features=features, **rest
    )


def tried(where: Fleet, *claims: ResourceClaim, on: str = NODE, **options: Any) -> Outcome:
    count = iter(range(1, 100))
    return allocate(where, node=on, claims=claims, share_id=lambda: f"share-{next(count)}", **options)


def picked(outcome: Outcome) -> list[str] | str:
    """What was chosen as `request=device` (with the pool unless it is pool-1), or how it failed."""
    match outcome:
        case Allocated():
            return [
                f"{item.request}={'' if item.pool == 'pool-1' else item.pool + '/'}{item.device}"
                for allocation in outcome.claims
                for item in allocation.devices.results
            ]
        case Unschedulable():
            return "unschedulable"
        case Undecided():
            return "undecided"
        case Failed():
            return f"{outcome.scope}: {outcome.error.code}"


def form(outcome: Outcome) -> list[dict[str, Any]]:
    """The allocations in the API's JSON form."""
    assert isinstance(outcome, Allocated), outcome
    return [encode(item) for item in outcome.claims]


def results(outcome: Outcome) -> list[dict[str, Any]]:
    """All results of all claims in the API's JSON form."""
    found: list[dict[str, Any]] = []
    for item in form(outcome):
        found.extend(item["devices"].get("results", []))
    return found


def _decoded(kind: type[T], name: str, spec: dict[str, Any], *, namespace: str = "", **rest: Any) -> T:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    found = decode_object({"apiVersion": V1, "kind": kind.__name__, "metadata": meta, "spec": spec, **rest})
    assert isinstance(found, kind)
    return found


Slices = Sequence[ResourceSlice]
