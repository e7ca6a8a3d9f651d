"""Devices of Pods as REST tells them."""

from datetime import datetime
from typing import Any

from rest_framework import serializers

from inventory.models import PodDeviceNode
from inventory.podresources.naming import NamedDevice, until


class NamedDeviceOut(serializers.Serializer[Any]):
    device_id = serializers.CharField(help_text="As the source has it; `::3` is a share of the device.")
    hardware_id = serializers.CharField(help_text="What names the piece, as of devices that drivers publish.")
    part = serializers.CharField(help_text="Which part of it, where the source names the whole.")
    container = serializers.CharField(help_text="Empty for strangers.")
    told_by = serializers.ChoiceField(
        choices=PodDeviceNode.Source.choices, help_text="The node's kubelet, or metrics of the DCGM exporter."
    )
    seen_from = serializers.DateTimeField()
    seen_until = serializers.DateTimeField(allow_null=True, help_text="Null: the latest report has it.")
    gone_at = serializers.DateTimeField(
        allow_null=True, help_text="When it was found to be gone; null: it is there, or nobody looked."
    )
    gaps = serializers.IntegerField(help_text="How many times in between nobody looked.")


def as_json(named: NamedDevice, *, ended_at: datetime | None) -> dict[str, Any]:
    """`ended_at`: when the Pod no longer had anything, as far as known otherwise."""
    return {
        "device_id": named.device_id,
        "hardware_id": named.hardware_id,
        "part": named.part,
        "container": named.container,
        "told_by": named.source,
        "seen_from": named.seen_from,
        "seen_until": until(named, ended_at),
        "gone_at": named.gone_at,
        "gaps": len(named.gaps),
    }
