"""The points of the checklist, in their order, and what each asks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from claims.readiness import evidence
from claims.readiness.seen import Evidence
from inventory.models import Cluster


@dataclass(frozen=True)
class Point:
    """`judge` looks at what the desk knows of a cluster; it never asks the cluster."""

    code: str
    title: str | Promise
    asks: str | Promise
    judge: Callable[[Cluster, datetime], Evidence]


POINTS: tuple[Point, ...] = (
    Point(
        "install",
        _("Drivers are installed"),
        _("The cluster serves DRA, and drivers publish devices."),
        evidence.install,
    ),
    Point(
        "discovery",
        _("Devices are discovered"),
        _("Every pool is complete and valid, and no hardware is without a slice."),
        evidence.discovery,
    ),
    Point(
        "injection",
        _("Devices reach containers"),
        _("No driver fails to prepare what is allocated."),
        evidence.injection,
    ),
    Point(
        "quota",
        _("What projects may have is limited"),
        _("Quotas of the desk, or ResourceQuotas about devices, are in force."),
        evidence.quota,
    ),
    Point(
        "reason",
        _("Each pool has its reason"),
        _("Why a pool goes to DRA or stays with its Device Plugin is written down."),
        evidence.reason,
    ),
    Point(
        "one-manager",
        _("One manager for each device"),
        _("No device is handed out by a Device Plugin and by DRA at once."),
        evidence.one_manager,
    ),
    Point(
        "cdi",
        _("CDI is under control"),
        _("Nodes report their CDI specs, and these fit what drivers publish."),
        evidence.cdi,
    ),
    Point(
        "lifecycle",
        _("The lifecycle is proven"),
        _("A drill has shown on each pool what happens from the claim to the free device."),
        evidence.lifecycle,
    ),
    Point(
        "queue",
        _("The queue knows devices"),
        _("Where work goes through a queue, its quotas are about the devices of the cluster."),
        evidence.queue,
    ),
    Point(
        "billing",
        _("Everything has its price"),
        _("All that was used within the last 30 days has a price."),
        evidence.billing,
    ),
    Point(
        "policy",
        _("The desk's account may what it needs, and no more"),
        _("No right is missing; the policy that ties the account to its own objects is in force."),
        evidence.policy,
    ),
    Point(
        "monitoring",
        _("Somebody watches"),
        _("Metrics of the desk are fetched, and the desk knows what drivers and devices tell."),
        evidence.monitoring,
    ),
    Point(
        "autoscaling",
        _("Autoscaling was tried with devices"),
        _("A pool without nodes grew for a waiting claim, and shrank again without taking a held device."),
        evidence.autoscaling,
    ),
    Point(
        "way-back",
        _("Canary and way back"),
        _("Pools went over a canary, and a switch has been rolled back once."),
        evidence.way_back,
    ),
    Point(
        "contract",
        _("Versions are in the contract"),
        _("Versions of Kubernetes, container runtime and drivers are agreed on, and kept; features are on."),
        evidence.contract,
    ),
    Point(
        "health",
        _("A fault keeps work away and opens a diagnosis"),
        _("Health is observed, and every fault has its taint and its diagnosis task."),
        evidence.health,
    ),
    Point(
        "drivers",
        _("What drivers may on nodes is known"),
        _("Images, host paths and ServiceAccounts of all drivers are listed and reviewed."),
        evidence.drivers,
    ),
)
BY_CODE: Mapping[str, Point] = {point.code: point for point in POINTS}
