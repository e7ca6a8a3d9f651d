"""The function libraries of the environment; importing the package fills the registry."""

from portal.dra.cel.library import (
    amounts,
    collections,
    formats,
    network,
    optionals,
    regex,
    standard,
    strings,
    times,
)
from portal.dra.cel.library.registry import FUNCTIONS, Overload

__all__ = [
    "FUNCTIONS",
    "Overload",
    "amounts",
    "collections",
    "formats",
    "network",
    "optionals",
    "regex",
    "standard",
    "strings",
    "times",
]
