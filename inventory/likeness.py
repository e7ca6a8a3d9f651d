"""One like this: the class that asks for a device's kind most narrowly, and a CEL expression for the kind."""

import json
from collections.abc import Sequence

from django.db.models import Count, Q

from inventory.models import ClassProfile, Device, DeviceClass, DeviceProfile

# Bare attribute names, lower-case, that make out a kind for people; the others change with every driver.
_TELLING = (
    *("productname", "model", "accelerator", "tpugen", "instancetype", "product"),
    *("type", "profile", "partitionprofile"),
)


def classes_of(device: Device) -> Sequence[DeviceClass]:
    """Classes of its cluster that match the device, those that match the fewest kinds first. One query."""
    matches = ClassProfile.objects.filter(
        Q(device=None) | Q(device=device), profile=device.profile_id, device_class__cluster=device.cluster_id
    )
    found = DeviceClass.objects.filter(pk__in=matches.values("device_class"))
    return list(found.annotate(kinds=Count("matches__profile", distinct=True)).order_by("kinds", "name"))


def expression_for(profile: DeviceProfile) -> str:
    """CEL that admits the devices of this product and its type, and stops at none that lacks an attribute."""
    parts = [f"device.driver == {json.dumps(profile.driver)}"]
    for qualified, value in sorted(profile.attributes.items(), key=lambda item: _place(item[0])):
        domain, _slash, name = qualified.rpartition("/")
        text = value.get("string") if isinstance(value, dict) else None
        if _place(qualified) < len(_TELLING) and isinstance(text, str) and text and name.isidentifier():
            read = f"device.attributes[{json.dumps(domain or profile.driver)}].{name}"
            parts.append(f"has({read}) && {read} == {json.dumps(text, ensure_ascii=False)}")
    return " && ".join(parts)


def _place(qualified: str) -> int:
    name = qualified.rpartition("/")[2].lower()
    return _TELLING.index(name) if name in _TELLING else len(_TELLING)
