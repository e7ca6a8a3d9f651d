"""Fleets for the embedded cluster: the sample of a first run (large ones: :mod:`portal.demo.load`)."""

from .build import KUBELET_ANNOTATION, RUN_SECONDS_ANNOTATION, Object
from .planting import UnknownFleet, check_wish, plant, preferred_version
from .sample import sample_objects

__all__ = [
    "KUBELET_ANNOTATION",
    "RUN_SECONDS_ANNOTATION",
    "Object",
    "UnknownFleet",
    "check_wish",
    "plant",
    "preferred_version",
    "sample_objects",
]
