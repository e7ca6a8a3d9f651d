"""Maintenance on pages of other rooms: what is planned for devices, for a node; and its words."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django import template
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from inventory.mirror.turn import parse_time
from inventory.models import Device, Drain, Maintenance, Node, UpkeepEvent
from inventory.taints import notices
from inventory.taints.places import text_of
from portal.templatetags.ui import state_badge

register = template.Library()

_HAPPENED = {
    "planned": _("planned"),
    "changed": _("changed"),
    "cancelled": _("called off"),
    "reminded": _("holders reminded"),
    "begun": _("begun"),
    "tainted": _("taint set"),
    "rule-gone": _("somebody else removed a rule"),
    "problem": _("the cluster did not follow"),
    "solved": _("the cluster follows again"),
    "missed": _("missed: the desk did not run"),
    "ended-early": _("ended early"),
    "ended": _("ended"),
    "opened": _("begun"),
    "asked": _("holders asked to leave"),
    "answered": _("a holder answered"),
    "closed": _("closed for newcomers"),
    "evicting": _("eviction begun"),
    "empty": _("confirmed empty"),
    "handed-over": _("handed over to maintenance"),
    "done": _("back in service"),
}


@register.simple_tag
def place(about: Maintenance | Drain) -> str:
    """Where it is, in words."""
    return str(text_of(about))


@register.simple_tag
def happened(event: UpkeepEvent) -> str:
    """A line of its history."""
    return str(_HAPPENED.get(event.what, event.what))


@register.simple_tag
def maintenance_state(maintenance: Maintenance) -> SafeString:
    """Its badge: “active” looks otherwise elsewhere."""
    look = "maintenance" if maintenance.state == Maintenance.State.ACTIVE else maintenance.state
    return SafeString(state_badge(look, maintenance.get_state_display()))


@register.inclusion_tag("inventory/_maintenance_notices.html")
def maintenance_of(devices: Iterable[Any], *, named: bool = False, answers: bool = False) -> dict[str, Any]:
    """What is planned for these devices, or goes on there: anything with the `pk` of a device, or None.
    `named` tells which of them; `answers` leads holders to where they answer."""
    keys = {device.pk for device in devices if device.pk}
    found = notices.of_devices(keys, now=timezone.now())
    return {"notices": found, "named": named, "answers": answers}


@register.inclusion_tag("inventory/_maintenance_notices.html")
def maintenance_of_device(device: Device) -> dict[str, Any]:
    """The same for one device."""
    return {"notices": notices.of_devices({device.pk}, now=timezone.now())}


@register.filter
def taint_time(taint: Mapping[str, Any]) -> datetime | None:
    """When a taint was added, as far as it says so."""
    return parse_time(taint.get("timeAdded"))


@register.inclusion_tag("inventory/_maintenance_notices.html")
def maintenance_of_requests(rows: Iterable[Any]) -> dict[str, Any]:
    """The same for all devices of somebody's requests (rows with `devices`)."""
    keys = {device.pk for row in rows for device in row.devices if device.pk}
    return {"notices": notices.of_devices(keys, now=timezone.now()), "named": True, "answers": True}


@register.inclusion_tag("inventory/_maintenance_notices.html")
def maintenance_of_node(node: Node) -> dict[str, Any]:
    """The same for a node."""
    return {"notices": notices.of_node_row(node, now=timezone.now())}


@register.inclusion_tag("inventory/_maintenance_notices.html")
def maintenance_between(cluster_id: int, start: datetime, end: datetime) -> dict[str, Any]:
    """What is planned on a cluster in a part of a calendar."""
    found = notices.between(cluster_id, start=start, end=end)
    return {"notices": [notices.Notice(maintenance=one) for one in found]}
