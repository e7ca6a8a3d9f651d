"""Every rule that the desk judges clusters by."""

from collections.abc import Mapping

from django.utils.translation import gettext_lazy as _

from inventory.findings import (
    cdi,
    claims,
    health,
    metrics,
    namespaces,
    nodes,
    platform,
    pod_devices,
    pools,
    strays,
    workloads,
)
from inventory.findings.model import Rule

SLICES, NODES, CLAIMS, PODS = "resourceslices", "nodes", "resourceclaims", "pods"
EVENTS, CLASSES, NAMESPACES, TAINT_RULES = "events", "deviceclasses", "namespaces", "devicetaintrules"

RULES: tuple[Rule, ...] = (
    Rule(
        "pool-incomplete",
        _("Incomplete pool"),
        _("Look at the driver's log on the node: a slice was not published, or the API server refused it."),
        (SLICES,),
        pools.incomplete,
    ),
    Rule(
        "pool-invalid",
        _("Invalid pool"),
        _("The driver publishes slices that contradict each other: report it to whoever makes the driver."),
        (SLICES,),
        pools.invalid,
    ),
    Rule(
        "pool-empty",
        _("Pool without devices"),
        _("The driver runs but has found no device: look whether the kernel module is loaded."),
        (SLICES,),
        pools.empty,
    ),
    Rule(
        "hardware-without-slice",
        _("Hardware without slice"),
        _("Look whether the driver runs on the node, and whether the API server refused what it published."),
        (SLICES, NODES),
        nodes.without_slice,
    ),
    Rule(
        "slice-abandoned",
        _("Slice without driver"),
        _("Bring the node back, or delete its slices so that no Pod gets such a device."),
        (SLICES, NODES),
        nodes.abandoned_slices,
    ),
    Rule(
        "doubly-managed",
        _("Doubly managed hardware"),
        _("Switch off the Device Plugin or the driver on the node, or split the devices between them."),
        (SLICES, NODES),
        nodes.doubly_managed,
    ),
    Rule(
        "claim-leaked",
        _("Leaked claim"),
        _("See what keeps the claim: a finalizer, a controller that is down, or a Pod that nobody removed."),
        (CLAIMS, PODS),
        claims.leaked,
    ),
    Rule(
        "stray-object",
        _("Object of no request"),
        _("Ask who made it; if nobody needs it, delete it: it may hold a device that nobody is charged for."),
        (CLAIMS, PODS),
        strays.strays,
    ),
    Rule(
        "object-changed",
        _("Object of the desk changed by others"),
        _("The request's page shows each difference, and commands that put it right; who has it was told."),
        (CLAIMS, PODS),
        strays.changed,
    ),
    Rule(
        "overlap",
        _("Overlapping allocation"),
        _("Stop one of the claims: two workloads share a device that each believes to have alone."),
        (CLAIMS,),
        claims.overlapping,
    ),
    Rule(
        "partly-allocated",
        _("Partly allocated work"),
        _("Start it through a queue that admits all or nothing, or make room for the rest."),
        (CLAIMS, PODS),
        workloads.partly_allocated,
    ),
    Rule(
        "prepare-failed",
        _("Preparation failed on a node"),
        _("Look at the log of the driver on that node; cordon it if more Pods fail."),
        (PODS, EVENTS),
        workloads.failed_preparations,
    ),
    Rule(
        "long-pending",
        _("Long pending"),
        _("The scheduler's words say what is missing; the device list shows what is free."),
        (PODS,),
        workloads.long_pending,
    ),
    Rule(
        "changed-together",
        _("Several parts changed at once"),
        _("Should something be broken since, take the changes back one at a time."),
        (),
        platform.changed_together,
    ),
    Rule(
        "contract-broken",
        _("Platform contract not met"),
        _("Bring the cluster to the versions of its contract, or change the contract."),
        (SLICES, NODES),
        platform.contract_broken,
    ),
    Rule(
        "health-fault",
        _("Health fault"),
        _("Take the diagnosis task, find the cause, and have the driver take the taint away."),
        (SLICES,),
        health.faults,
        opens_task=True,
    ),
    Rule(
        "device-unhealthy",
        _("Unhealthy device in use"),
        _("Move the Pods to another device, take the diagnosis task, and find the cause."),
        (PODS,),
        health.unhealthy,
        opens_task=True,
    ),
    Rule(
        "taint-old",
        _("Old taint"),
        _("If the device is repaired, restart its driver or take the taint away."),
        (SLICES,),
        health.old_taints,
    ),
    Rule(
        "taint-rule-old",
        _("Old taint rule"),
        _("If what it was made for is done, delete the DeviceTaintRule."),
        (TAINT_RULES,),
        health.old_rules,
    ),
    Rule(
        "cdi-drift",
        _("CDI does not fit"),
        _("The page of the node's CDI report shows each file and what is wrong with it."),
        (),
        cdi.drift,
    ),
    Rule(
        "pod-devices-silent",
        _("Silent about Pods' devices"),
        _("Look at the log of the collector on the node, and whether its token has expired."),
        (NODES,),
        pod_devices.silent,
    ),
    Rule(
        "pod-devices-refused",
        _("Reports of Pods' devices refused"),
        _("Put right on the node what the desk does not accept, or revoke the token if it is not used."),
        (),
        pod_devices.refused,
    ),
    Rule(
        "metrics-elsewhere",
        _("Metrics from another node"),
        _("Look what runs on the node that tells it: its exporter says what it cannot know, or is set to."),
        (),
        metrics.from_elsewhere,
    ),
    Rule(
        "class-missing",
        _("Class missing in a group"),
        _("Create the class here, too, or take the cluster out of the group."),
        (CLASSES,),
        platform.class_missing,
    ),
    Rule(
        "admin-access",
        _("Namespace with administrative access"),
        _("See who may write there. Acknowledge it if it is meant, else take the label away."),
        (NAMESPACES,),
        namespaces.admin_access,
    ),
    Rule(
        "namespace-unbound",
        _("Namespace without project"),
        _("Bind the namespace to a project, so that its use is charged."),
        (CLAIMS, PODS),
        namespaces.unbound,
    ),
)

BY_KIND: Mapping[str, Rule] = {rule.kind: rule for rule in RULES}
