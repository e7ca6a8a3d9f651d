"""What a collector's report looks like, and what of it is no report."""

import hashlib
from datetime import datetime
from typing import Annotated, Literal

import msgspec
from django.utils.translation import gettext as _

from inventory.node_reports import YEARS, UnableToAccept, decoded
from inventory.podresources.sightings import Sighting

# A node runs a few hundred Pods; time slicing makes many units of one GPU.
MAX_PODS = 2_000
MAX_DEVICES = 10_000
FORMAT = 1


# \Z: "$" would let a line end pass.
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
Label = Annotated[str, msgspec.Meta(max_length=63, pattern=rf"^{_LABEL}\Z")]
Name = Annotated[str, msgspec.Meta(max_length=253, pattern=rf"^{_LABEL}(\.{_LABEL})*\Z")]
# Extended resources are "domain/name"; whatever else a plugin calls them is text without blanks.
Resource = Annotated[str, msgspec.Meta(min_length=1, max_length=317, pattern=r"^[!-~]+\Z")]
# Ids are what plugins make them; printable ASCII without quotes of any kind is what they make.
DeviceId = Annotated[str, msgspec.Meta(min_length=1, max_length=255, pattern=r"^[!-~]+\Z")]
Uid = Annotated[str, msgspec.Meta(max_length=64, pattern=r"^[0-9A-Za-z-]*\Z")]
Numa = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class Devices(msgspec.Struct, kw_only=True):
    resource: Resource
    ids: Annotated[list[DeviceId], msgspec.Meta(max_length=MAX_DEVICES)]
    numa: Annotated[list[Numa], msgspec.Meta(max_length=64)] = []


class Container(msgspec.Struct, kw_only=True):
    name: Label
    devices: Annotated[list[Devices], msgspec.Meta(max_length=1_000)]


class PodDevices(msgspec.Struct, kw_only=True):
    namespace: Label
    name: Name
    # Kubelets tell names only; a collector that knows better may.
    uid: Uid = ""
    containers: Annotated[list[Container], msgspec.Meta(max_length=1_000)]


class Same(msgspec.Struct, kw_only=True):
    """That what an earlier report said was seen again and again, until `until`."""

    sent_at: Moment
    until: Moment


class Report(msgspec.Struct, kw_only=True):
    """The body of a report: all Pods of the node that have devices. `format` 1 is the only one there is;
    unknown members are ignored."""

    format: Literal[1]
    cluster: Annotated[str, msgspec.Meta(max_length=63)]
    node: Annotated[str, msgspec.Meta(max_length=253)]
    # When the kubelet was asked.
    sent_at: Moment
    interval_seconds: Annotated[int, msgspec.Meta(ge=10, le=86_400)]
    collector: Annotated[str, msgspec.Meta(max_length=40)] = ""
    same: Same | None = None
    pods: Annotated[list[PodDevices], msgspec.Meta(max_length=MAX_PODS)]


_decoder = msgspec.json.Decoder(Report)


def decode(body: bytes) -> Report:
    """A body as a report. Raises UnableToAccept for anything else."""
    report = decoded(body, _decoder)
    moments = [report.sent_at, *((report.same.sent_at, report.same.until) if report.same else ())]
    if not all(YEARS[0] <= moment.year <= YEARS[1] for moment in moments):
        raise UnableToAccept("malformed", _("This is no report: it is of no time."), status=400)
    if report.same and not report.same.sent_at <= report.same.until <= report.sent_at:
        message = _("This is no report: what it says of the report before lies outside the time between.")
        raise UnableToAccept("malformed", message, status=400)
    return report


def sightings_of(report: Report) -> list[Sighting]:
    """What a report says, one by one. Raises UnableToAccept where it has more devices than a node can, or
    one device of one container twice."""
    told = [
        Sighting(
            namespace=pod.namespace,
            pod=pod.name,
            pod_uid=pod.uid,
            container=container.name,
            resource=devices.resource,
            device_id=device_id,
            numa=tuple(sorted(set(devices.numa))),
        )
        for pod in report.pods
        for container in pod.containers
        for devices in container.devices
        for device_id in devices.ids
    ]
    if len(told) > MAX_DEVICES:
        message = _("The report has more than %(limit)s devices.") % {"limit": MAX_DEVICES}
        raise UnableToAccept("too_large", message, status=413)
    if len({sighting.key for sighting in told}) < len(told):
        raise UnableToAccept("malformed", _("This is no report: it has a device twice."), status=400)
    return told


def digest_of(sightings: list[Sighting], collector: str) -> str:
    """What a report says, without when and in which order."""
    said = sorted([*sighting.key, sighting.pod_uid, *map(str, sighting.numa)] for sighting in sightings)
    return hashlib.sha256(msgspec.json.encode([collector, said])).hexdigest()
