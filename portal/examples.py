"""Examples and summaries for the OpenAPI document: of every operation one that its schema allows.

Serializers give examples where a value needs to be understood. What has none is named as the demo's things
are, by the name of its field; what has no such name, after its type. So an example reads as one whole.
"""

import re
from collections.abc import Iterator
from typing import Any

METHODS = ("get", "post", "put", "patch", "delete")
# A schema may refer to itself; examples stop here.
MAX_DEPTH = 5

# Fields of these names have these values, in whatever they are.
BY_NAME: dict[str, str] = {
    "amount": "31.20",
    "answer_note": "Until Friday.",
    "approval": "lead",
    "approved_by": "ada",
    "author": "ada",
    "by": "ada",
    "claim": "claimdesk-0d5f1c2e",
    "cluster": "northern",
    "code": "LS-4100",
    "comment": "Checked on the test cluster.",
    "confirm": "northern",
    "cost_centre": "LS-4100",
    "cpu": "500m",
    "created_by": "ada",
    "currency": "EUR",
    "default_memory": "40Gi",
    "description": "For models that fit into 40 GB.",
    "device": "gpu-3",
    "device_class": "gpu.nvidia.com",
    "digest": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "domain": "gpu.nvidia.com",
    "drawn_by": "ada",
    "driver": "gpu.nvidia.com",
    "exact_denominator": "5",
    "exact_numerator": "156",
    "expected": "812.00",
    "expression": 'device.driver == "gpu.nvidia.com"',
    "extended_resource": "nvidia.com/gpu",
    "flavor": "h100-80g",
    "group": "gpu-admins",
    "hardware_id": "GPU-3f1c2e0d",
    "handled_by": "ada",
    "hold_image": "registry.k8s.io/pause:3.10",
    "hold_priority_class": "accelerators",
    "hold_pull_secret": "registry",
    "image": "registry.example.org/train:2.4",
    "key": "example.org/repair",
    "kind": "gpu",
    "label": "Memory",
    "limit": "8",
    "list_price": "3.90",
    "max_memory": "80Gi",
    "memory": "80Gi",
    "message": "The cluster is in step.",
    "min_memory": "40Gi",
    "month": "2026-03",
    "name": "north",
    "namespace": "protein-folding",
    "node": "h100-01.example.org",
    "note": "Agreed with the group.",
    "opened_by": "leo",
    "owner": "rhea",
    "path": "/etc/cdi/nvidia.yaml",
    "per": "1Gi",
    "per_hour": "3.90",
    "percent": "10",
    "percent_off": "10",
    "person": "rhea",
    "pod": "train-0",
    "pool": "h100-01",
    "prefix": "cdesk_ab",
    "product": "NVIDIA H100 80GB HBM3",
    "profile": "1g.10gb",
    "project": "protein-folding",
    "purpose": "Structure prediction",
    "reason": "A node was broken.",
    "requester": "rhea",
    "resource": "nvidia.com/gpu",
    "slug": "protein-folding",
    "spent": "412.50",
    "subject": "2 × H100 80 GB",
    "text": "We never had this device.",
    "uid": "6d0c9f0e-5f3a-4c52-9a2e-3f5f6c1f7a10",
    "unit": "device",
    "unit_hours": "8.0",
    "use": "held",
    "used": "2",
    "why": "",
}
BY_FORMAT: dict[str, Any] = {
    "date-time": "2026-03-01T09:30:00Z",
    "date": "2026-03-01",
    "uuid": "6d0c9f0e-5f3a-4c52-9a2e-3f5f6c1f7a10",
    "uri": "https://desk.example.org/",
    "email": "rhea@example.org",
    "decimal": "12.34",
}
BY_KIND: dict[Any, Any] = {"string": "text", "integer": 1, "number": 1.5, "boolean": True, "null": None}


def complete(
    result: dict[str, Any],
    generator: object,  # noqa: ARG001 - the hook's signature
    request: object,  # noqa: ARG001
    public: bool,  # noqa: ARG001, FBT001
) -> dict[str, Any]:
    """Give every operation a summary, and an example of what is sent and of what is answered."""
    for operation in operations(result):
        operation.setdefault("summary", first_sentence(operation.get("description", "")))
        answers = [answer for status, answer in operation["responses"].items() if status < "300"]
        sent = operation.get("requestBody", {})
        for holder, is_sent in ((sent, True), *((answer, False) for answer in answers)):
            for media, content in holder.get("content", {}).items():
                if (
                    media.endswith("json")
                    and content.get("schema")
                    and not content.keys() & {"example", "examples"}
                ):
                    content["example"] = example(result, content["schema"], is_sent=is_sent)
    return result


def operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every operation of an OpenAPI document."""
    for path in document.get("paths", {}).values():
        yield from (path[method] for method in METHODS if method in path)


def first_sentence(text: str) -> str:
    """What a list of operations shows: the first sentence, without its full stop."""
    flat = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"(?<=[^.])[.:;](?:\s|$)", flat, maxsplit=1)[0]


def resolved(document: dict[str, Any], part: dict[str, Any] | None) -> dict[str, Any]:
    """The schema that a part stands for: follows $ref, merges allOf, takes the first of several."""
    if not part:
        return {}
    if reference := part.get("$ref"):
        found: Any = document
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]
        return resolved(document, found) | {name: value for name, value in part.items() if name != "$ref"}
    if options := part.get("allOf"):
        merged: dict[str, Any] = {}
        for option in options:
            merged |= resolved(document, option)
        return merged | {name: value for name, value in part.items() if name != "allOf"}
    if options := part.get("oneOf") or part.get("anyOf"):
        return resolved(document, options[0]) | {
            key: value for key, value in part.items() if "example" in key
        }
    return part


def example(
    document: dict[str, Any],
    part: dict[str, Any] | None,
    *,
    name: str = "",
    is_sent: bool = False,
    depth: int = 0,
) -> Any:
    """A value that the schema allows. `is_sent`: without what only the desk writes."""
    whole = resolved(document, part)
    given: list[Any] = [whole["example"]] if "example" in whole else list(whole.get("examples") or ())
    given = given or ([whole["const"]] if "const" in whole else list(whole.get("enum") or ()))
    if given:
        return given[0]
    kinds = whole.get("type", "object" if "properties" in whole else None)
    kind = kinds[0] if isinstance(kinds, list) else kinds
    if kind == "array":
        if depth >= MAX_DEPTH and not whole.get("minItems"):
            return []
        return [
            example(
                document, whole.get("items"), name=name.removesuffix("s"), is_sent=is_sent, depth=depth + 1
            )
        ]
    if kind == "object":
        return {
            field: example(document, value, name=field, is_sent=is_sent, depth=depth + 1)
            for field, value in whole.get("properties", {}).items()
            if not (is_sent and resolved(document, value).get("readOnly"))
            and (depth < MAX_DEPTH or field in whole.get("required", ()))
        }
    return _text(whole, name) if kind == "string" else _number(whole, kind)


def _number(whole: dict[str, Any], kind: Any) -> Any:
    usual = BY_KIND.get(kind)
    return max(usual, whole["minimum"]) if "minimum" in whole else usual


def _text(whole: dict[str, Any], name: str) -> str:
    """A text that has the format, the pattern and the length."""
    for value in (BY_FORMAT.get(whole.get("format", "")), BY_NAME.get(name), BY_KIND["string"], "1", "12.34"):
        if value is None or len(value) > whole.get("maxLength", len(value)):
            continue
        if len(value) >= whole.get("minLength", 0) and re.search(whole.get("pattern", ""), value):
            return str(value)
    return ""
