"""To whom a spec file belongs: a DRA driver, and perhaps one claim. Pure.

DRA drivers write two sorts of files. *Base specs* describe the node's devices and stay. *Claim specs* are
transient: written when a claim is prepared on the node, deleted when it is unprepared; by the convention of
the CDI library their name ends in ``_<claim uid>`` (``k8s.gpu.nvidia.com-claim_<uid>.yaml``), and the devices
in them are mostly called ``<claim uid>-<device>``.
"""

import re
from collections.abc import Collection

BASE, CLAIM = "base", "claim"
# Names of devices that stand for no single piece of hardware.
GENERIC = frozenset({"all", "common", "none", "default", "void"})

_UID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_AFTER_UNDERSCORE = re.compile(rf"_({_UID})(?![0-9a-zA-Z])", re.IGNORECASE)
_AT_START = re.compile(rf"({_UID})(?![0-9a-zA-Z])", re.IGNORECASE)
_PREFIX = "k8s."


def claim_uid_of(*, file_name: str, kind: str, devices: Collection[str]) -> str:
    """The uid of the claim that a file was written for, or "" for a base spec.

    The name decides. Without a uid in the name, all devices of a kind of a DRA driver ("k8s.…") have to
    begin with one uid: hardware has uuids as names, too.
    """
    if found := _AFTER_UNDERSCORE.search(file_name):
        return found[1].lower()
    if not kind.startswith(_PREFIX):
        return ""
    starts = {found[1].lower() if (found := _AT_START.match(name)) else "" for name in devices}
    return starts.pop() if len(starts) == 1 else ""


def written_by_driver(kind: str, driver: str) -> bool:
    """Whether the driver itself writes specs of this kind: vendor ``k8s.<driver>`` by convention, or the
    driver's own name."""
    return kind.partition("/")[0] in {driver, f"{_PREFIX}{driver}"}


def speaks_of(kind: str, driver: str) -> bool:
    """Whether specs of this kind describe what the driver publishes. Besides the driver's own these are
    ``<vendor>/<class>`` where the driver is ``<class>.<vendor>``: nvidia.com/gpu of the container toolkit and
    the driver gpu.nvidia.com."""
    vendor, _slash, device_class = kind.partition("/")
    return written_by_driver(kind, driver) or f"{device_class}.{vendor}" == driver


def drivers_named_by(kind: str) -> set[str]:
    """The drivers that specs of this kind could belong to."""
    vendor, slash, device_class = kind.partition("/")
    if not slash:
        return set()
    return {vendor.removeprefix(_PREFIX), f"{device_class}.{vendor}"}
