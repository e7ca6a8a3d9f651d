"""CEL as Kubernetes' DRA selectors use it, as of Kubernetes 1.34 to 1.37.

From text to answer: `syntax` (tokens), `parser` (tree, macros expanded), `checker` with `types` and
`environment` (what may be named, what fits), `literals` (patterns, times, formats), `program` with `steps`
and `loops` (nested functions over one `frame`), `selector` (the public face). `library/`: the functions and
what they cost; `estimate` says what an expression costs at worst, `reads` what it reads of a device.
"""

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
