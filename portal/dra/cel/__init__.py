"""CEL as Kubernetes' DRA selectors use it."""

from portal.dra.cel.device import (
    EVERYTHING,
    AttributeValue,
    DeviceView,
    Read,
    Reads,
    UnusableAttribute,
    attribute_value,
)
from portal.dra.cel.errors import CelCompileError, CelEvaluationError
from portal.dra.cel.selector import Selector, compile_selector

__all__ = [
    "EVERYTHING",
    "AttributeValue",
    "CelCompileError",
    "CelEvaluationError",
    "DeviceView",
    "Read",
    "Reads",
    "Selector",
    "UnusableAttribute",
    "attribute_value",
    "compile_selector",
]
