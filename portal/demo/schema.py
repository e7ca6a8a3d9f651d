"""The types of the API, by which a body is decoded: what is unknown is dropped, a wrong type is refused.

The field names and types are read from the models of the official Kubernetes client, so that they are never
retyped here. Fields behind feature gates that are off are dropped without a word, as the real server does.
"""

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from portal.demo import errors
from portal.demo.resources import Resource
from portal.demo.shapes import SHAPES
from portal.dra import features as gates
from portal.dra.features import Features
from portal.dra.quantity import InvalidQuantity, Quantity

_QUANTITY_PATTERN = (
    "'^(\\\\+|-)?(([0-9]+(\\\\.[0-9]*)?)|(\\\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\\\+|-)?[0-9]+))?$'"
)
_TIME = re.compile(r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$")
# The client prefixes a group where names would be the same: ResourceV1ResourceClaim.
_MODEL_NAME = re.compile(r"(?:[A-Z][a-z]+)?(?P<version>V\d(?:[a-z]+\d+)?)(?P<name>[A-Z]\w*)")
_MODELS = {
    ("v1", "Event"): "CoreV1Event",
    ("resource.k8s.io/v1", "ResourceClaim"): "ResourceV1ResourceClaim",
}
# Fields of an older version are gated, and quantities, where those of v1 are.
_OLDER_VERSION = re.compile(r"^V\d+(?:alpha|beta)\d+")
# Strings of the client's models that are quantities: the server reads and writes them in canonical form.
_QUANTITIES = {
    ("V1ResourceRequirements", "limits"), ("V1ResourceRequirements", "requests"),
    ("V1ResourceQuotaSpec", "hard"), ("V1ResourceQuotaStatus", "hard"), ("V1ResourceQuotaStatus", "used"),
    ("V1NodeStatus", "capacity"), ("V1NodeStatus", "allocatable"), ("V1PodSpec", "overhead"),
    ("V1DeviceCapacity", "value"), ("V1Counter", "value"), ("V1CapacityRequirements", "requests"),
    ("V1CapacityRequestPolicy", "default"), ("V1CapacityRequestPolicy", "validValues"),
    ("V1CapacityRequestPolicyRange", "min"), ("V1CapacityRequestPolicyRange", "max"),
    ("V1CapacityRequestPolicyRange", "step"), ("V1DeviceRequestAllocationResult", "consumedCapacity"),
    ("V1EmptyDirVolumeSource", "sizeLimit"),
}  # fmt: skip
_GATED = {
    ("V1ResourceSliceSpec", "sharedCounters"): gates.PARTITIONABLE_DEVICES,
    ("V1ResourceSliceSpec", "perDeviceNodeSelection"): gates.PARTITIONABLE_DEVICES,
    ("V1Device", "consumesCounters"): gates.PARTITIONABLE_DEVICES,
    ("V1Device", "nodeName"): gates.PARTITIONABLE_DEVICES,
    ("V1Device", "nodeSelector"): gates.PARTITIONABLE_DEVICES,
    ("V1Device", "allNodes"): gates.PARTITIONABLE_DEVICES,
    ("V1Device", "taints"): gates.DEVICE_TAINTS,
    ("V1Device", "bindsToNode"): gates.DEVICE_BINDING_CONDITIONS,
    ("V1Device", "bindingConditions"): gates.DEVICE_BINDING_CONDITIONS,
    ("V1Device", "bindingFailureConditions"): gates.DEVICE_BINDING_CONDITIONS,
    ("V1Device", "allowMultipleAllocations"): gates.CONSUMABLE_CAPACITY,
    ("V1Device", "nodeAllocatableResources"): gates.NODE_ALLOCATABLE,
    ("V1DeviceCapacity", "requestPolicy"): gates.CONSUMABLE_CAPACITY,
    ("V1DeviceAttribute", "bools"): gates.LIST_TYPE_ATTRIBUTES,
    ("V1DeviceAttribute", "ints"): gates.LIST_TYPE_ATTRIBUTES,
    ("V1DeviceAttribute", "strings"): gates.LIST_TYPE_ATTRIBUTES,
    ("V1DeviceAttribute", "versions"): gates.LIST_TYPE_ATTRIBUTES,
    ("V1DeviceCounterConsumption", "compatibilityGroups"): gates.COMPATIBILITY_GROUPS,
    ("V1ExactDeviceRequest", "adminAccess"): gates.ADMIN_ACCESS,
    ("V1ExactDeviceRequest", "capacity"): gates.CONSUMABLE_CAPACITY,
    ("V1ExactDeviceRequest", "tolerations"): gates.DEVICE_TAINTS,
    ("V1ExactDeviceRequest", "derivedAttributes"): gates.DERIVED_ATTRIBUTES,
    ("V1DeviceSubRequest", "capacity"): gates.CONSUMABLE_CAPACITY,
    ("V1DeviceSubRequest", "tolerations"): gates.DEVICE_TAINTS,
    ("V1DeviceSubRequest", "derivedAttributes"): gates.DERIVED_ATTRIBUTES,
    ("V1DeviceRequest", "firstAvailable"): gates.PRIORITIZED_LIST,
    ("V1DeviceConstraint", "distinctAttribute"): gates.CONSUMABLE_CAPACITY,
    ("V1DeviceClassSpec", "extendedResourceName"): gates.EXTENDED_RESOURCE,
    ("V1ResourceClaimStatus", "devices"): gates.DEVICE_STATUS,
}
# Fields that came after the version that the embedded cluster serves, or that it never serves.
_NOT_SERVED = {
    ("V1ResourceSliceSpec", "partitionTypeAttribute"),
    ("V1ResourceSliceSpec", "skipNodeOperations"),
    ("V1DeviceRequestAllocationResult", "skipNodeOperations"),
    ("V1WorkloadSpec", "compositePodGroupTemplates"),
    ("V1PodGroupSpec", "parentCompositePodGroupName"),
}
_GO_TYPES = {"str": "string", "int": "int64", "bool": "bool", "float": "float64", "datetime": "v1.Time"}
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,), "int": (int,), "bool": (bool,), "float": (int, float),
}  # fmt: skip
_OBJECT = "object"
_VERBATIM_QUANTITY = "quantity"
_JSON_TYPES = {"list": "array", "map": "object", "str": "string", "int": "integer", "bool": "boolean"}


@dataclass(frozen=True, slots=True)
class Type:
    """A type of the API: a scalar (``str``, ``int``, …), list or map of ``item``, struct of ``fields``.

    ``dropped``: what is decoded is not kept, since a gate is off.
    """

    name: str
    item: "Type | None" = None
    fields: Mapping[str, "Type"] | None = None
    quantity: bool = False
    dropped: bool = False


@dataclass
class FieldReport:
    """What was found while decoding: unknown fields, as paths. ``strict`` turns them into an error.

    ``silent``: nobody wants to hear of them.
    """

    strict: bool = False
    silent: bool = False
    unknown: list[str] = field(default_factory=list)


def clean(
    resource: Resource, obj: dict[str, Any], features: Features, report: FieldReport | None = None
) -> dict[str, Any]:
    """``obj`` as the server understands it: null, empty, unknown and gated-off fields left out.

    Raises 400 for a value of a wrong type, and for unknown fields when the report is strict.
    """
    report = report or FieldReport()
    reader = _Reader(resource, report)
    metadata = obj.get("metadata")
    reader.name = str(metadata.get("name", "")) if isinstance(metadata, dict) else ""
    cleaned: dict[str, Any] = reader.read(obj, type_of(resource, features), "")
    if report.strict and report.unknown:
        listed = ", ".join(f'unknown field "{path}"' for path in report.unknown)
        raise errors.bad_request(f"{reader.subject}: strict decoding error: {listed}")
    return cleaned


@functools.lru_cache(maxsize=64)
def type_of(resource: Resource, features: Features) -> Type:
    """The type of a resource's objects with these gates."""
    name = f"{resource.version.capitalize()}{resource.kind}"
    if resource.custom:
        name = f"Kueue{name}"
    return _struct(_MODELS.get((resource.api_version, resource.kind), name), features)


@functools.lru_cache(maxsize=1024)
def _struct(model_name: str, features: Features) -> Type:
    plain_name = _OLDER_VERSION.sub("V1", model_name)
    fields = {}
    for name, declared in _fields_of(model_name):
        if (plain_name, name) in _NOT_SERVED:
            fields[name] = Type(_OBJECT, dropped=True)
            continue
        is_quantity = (plain_name, name) in _QUANTITIES
        kind = _declared(declared, features, quantity=is_quantity)
        gate = _GATED.get((plain_name, name))
        is_off = gate is not None and not features.enabled(gate)
        fields[name] = replace(kind, dropped=True) if is_off else kind
    return Type(model_name, fields=fields)


def _fields_of(model_name: str) -> Iterable[tuple[str, str]]:
    """The names of a model's fields in the API, with their types in the client's notation."""
    if model_name in SHAPES:
        return SHAPES[model_name].items()
    # Imported late: half a second that a process without an API server need not spend.
    from kubernetes.client import models

    model = getattr(models, model_name)
    return [(model.attribute_map[attribute], declared) for attribute, declared in model.openapi_types.items()]


def _declared(text: str, features: Features, *, quantity: bool) -> Type:
    if text.startswith("List["):
        return Type("list", item=_declared(text[5:-1], features, quantity=quantity))
    if text.startswith("Dict[str, "):
        return Type("map", item=_declared(text[10:-1], features, quantity=quantity))
    if text in _GO_TYPES or text in (_OBJECT, _VERBATIM_QUANTITY):
        return Type(text, quantity=quantity)
    return _struct(text, features)


def _go_type(kind: Type) -> str:
    """A type as Go's messages name it: ``int64``, ``[]v1.DeviceRequest``, ``map[string]string``."""
    if kind.item is not None:
        return ("[]" if kind.name == "list" else "map[string]") + _go_type(kind.item)
    if (model := _MODEL_NAME.fullmatch(kind.name)) is not None:
        return f"{model['version'].lower()}.{model['name']}"
    return _GO_TYPES.get(kind.name, kind.name)


def _is_time(text: str) -> bool:
    """Whether ``text`` is a moment in RFC 3339."""
    if not _TIME.match(text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


class _Reader:
    """Walks one body along its type."""

    def __init__(self, resource: Resource, report: FieldReport) -> None:
        self.subject = (
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
        )
        self._unknown = report.unknown
        self._resource = resource
        self.name = ""

    def read(self, value: Any, kind: Type, path: str) -> Any:
        if kind.fields is not None:
            return self._struct(value, kind, path)
        if kind.name == "list":
            assert kind.item is not None
            if not isinstance(value, list):
                raise self._wrong(value, kind, path)
            return [self.read(item, kind.item, f"{path}[{index}]") for index, item in enumerate(value)]
        if kind.name == "map":
            assert kind.item is not None
            if not isinstance(value, dict):
                raise self._wrong(value, kind, path)
            return {name: self.read(item, kind.item, f"{path}.{name}") for name, item in value.items()}
        return self._scalar(value, kind, path)

    def _struct(self, value: Any, kind: Type, path: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._wrong(value, kind, path)
        fields = kind.fields or {}
        result = {}
        for name, content in value.items():
            where = f"{path}.{name}" if path else name
            declared = fields.get(name)
            if declared is None:
                self._unknown.append(where)
            elif content is not None:
                read = self.read(content, declared, where)
                # Go leaves empty lists and maps out; an empty struct behind a pointer stays.
                is_left_out = declared.dropped or (not read and declared.name in ("list", "map"))
                if not is_left_out:
                    result[name] = read
        return result

    def _scalar(self, value: Any, kind: Type, path: str) -> Any:
        if kind.quantity:
            return self._quantity(value, path)
        name = kind.name
        if name == _OBJECT:
            return value  # what only its reader understands
        if name == _VERBATIM_QUANTITY:
            self._quantity(value, path)
            return value
        if name == "datetime":
            if not isinstance(value, str) or not _is_time(value):
                layout = "2006-01-02T15:04:05Z07:00"
                raise errors.bad_request(
                    f'{self.subject}: parsing time "{value}" as "{layout}": cannot parse "{value}"'
                )
            return value
        if not isinstance(value, _PYTHON_TYPES[name]) or (isinstance(value, bool) and name != "bool"):
            raise self._wrong(value, kind, path)
        number: Any = value  # the check above narrows it to what the type checker cannot compare
        if name == "int" and not -(2**63) <= number < 2**63:
            raise self._wrong(value, kind, path)
        return value

    def _quantity(self, value: Any, path: str) -> str:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self._wrong(value, Type("str"), path)
        try:
            return str(Quantity.parse(str(value).strip()))
        except InvalidQuantity:
            if self._resource.custom:
                why = f'Invalid value: "{value}": {path} in body should match {_QUANTITY_PATTERN}'
                raise self._invalid(path, "FieldValueInvalid", why) from None
            raise errors.bad_request(
                f"{self.subject}: quantities must match the regular expression "
                "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            ) from None

    def _invalid(self, path: str, reason: str, why: str) -> errors.ApiError:
        """Objects of installed definitions are decoded whatever they hold; their schema judges them later."""
        cause = errors.Cause(path, reason, why)
        return errors.invalid(self._resource.group, self._resource.kind, self.name, [cause])

    def _wrong(self, value: Any, kind: Type, path: str) -> errors.ApiError:
        found = (
            "bool" if isinstance(value, bool)
            else "string" if isinstance(value, str)
            else "array" if isinstance(value, list)
            else "object" if isinstance(value, dict)
            else "number" if isinstance(value, int | float)
            else "null"
        )  # fmt: skip
        if self._resource.custom:
            expected = _JSON_TYPES.get(kind.name, "object")
            why = f'Invalid value: "{found}": {path} in body must be of type {expected}: "{found}"'
            return self._invalid(path, "FieldValueTypeInvalid", why)
        where = re.sub(r"\[\d+\]", "", path) or "."
        wanted = _go_type(kind)
        return errors.bad_request(
            f"{self.subject}: json: cannot unmarshal {found} into Go struct field {where} of type {wanted}"
        )
