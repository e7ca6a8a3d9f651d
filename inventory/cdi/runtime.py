"""What a container runtime's setting means for CDI. Pure.

containerd reads CDI specs since 1.7, when ``enable_cdi`` says so; since 2.0 unless it says not. CRI-O has no
such switch and reads them since 1.23. Both read ``/etc/cdi`` and ``/var/run/cdi`` unless told otherwise.
Where no configuration was seen, what it may say is not known.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DEFAULT_DIRECTORIES = ("/etc/cdi", "/var/run/cdi")

_CONTAINERD_HAS, _CONTAINERD_DEFAULT, _CRIO_HAS = (1, 7), (2, 0), (1, 23)
# The configuration format that containerd reads since 2.0 tells the version where nothing else does.
_CONFIG_OF_2 = 3


@dataclass(frozen=True)
class RuntimeSetting:
    """`enabled` is None when it cannot be told: then nothing follows from it. `directories` are those that
    the runtime reads, the later before the earlier; None when unknown."""

    enabled: bool | None
    directories: tuple[str, ...] | None


def completed(runtime: Mapping[str, Any], told: str) -> dict[str, Any]:
    """The runtime part of a report with what the kubelet told of the runtime ("containerd://2.1.4", "" when
    unknown). The kubelet knows which runtime it uses: settings of another one count for nothing."""
    name, separator, version = told.partition("://")
    if not separator:
        return dict(runtime)
    if runtime.get("name") == name:
        return {**runtime, "version": runtime.get("version") or version}
    return {"name": name, "version": version, "enable_cdi": None, "spec_dirs": None, "handlers": None}


def setting_of(runtime: Mapping[str, Any]) -> RuntimeSetting:
    """Judges the runtime part of a report (see `CdiNode.runtime`)."""
    stated = runtime.get("spec_dirs")
    if stated is None and runtime.get("name") and runtime.get("sources"):
        stated = DEFAULT_DIRECTORIES
    return RuntimeSetting(_enabled(runtime), None if stated is None else tuple(stated))


def _enabled(runtime: Mapping[str, Any]) -> bool | None:
    name, version = runtime.get("name"), version_of(runtime.get("version", ""))
    if name == "cri-o":
        return None if version is None else version >= _CRIO_HAS
    if name != "containerd":
        return None
    if version is not None and version < _CONTAINERD_HAS:
        return False
    if (stated := runtime.get("enable_cdi")) is not None or not runtime.get("sources"):
        return None if stated is None else bool(stated)
    if version is None:
        return True if (runtime.get("config_version") or 0) >= _CONFIG_OF_2 else None
    return version >= _CONTAINERD_DEFAULT


def version_of(text: str) -> tuple[int, int] | None:
    """Major and minor of a version such as "v1.7.22-k3s1"; None when there are none."""
    found = re.match(r"v?(\d{1,4})\.(\d{1,4})(?!\d)", text)
    return (int(found[1]), int(found[2])) if found else None


def same_directory(one: str, other: str) -> bool:
    """/var/run is a link to /run nearly everywhere."""
    return _plain(one) == _plain(other)


def _plain(path: str) -> str:
    path = re.sub(r"/+", "/", path).rstrip("/")
    return path.replace("/var/run/", "/run/", 1) if path.startswith("/var/run/") else path
