"""Findings in the reader's language: rules give codes with parameters, never sentences."""

from collections.abc import Callable, Mapping
from typing import Any

from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django_stubs_ext import StrOrPromise

from inventory import contract
from inventory.cdi import comparison
from inventory.cdi import words as cdi_words
from inventory.models import Finding, PodDeviceNode
from inventory.node_reports import refusal

PHRASES: Mapping[str, StrOrPromise] = {
    "pool-incomplete": _(
        "The pool %(pool)s of %(driver)s is incomplete: %(found)s of %(expected)s slices are there. The "
        "scheduler takes none of its devices."
    ),
    "pool-invalid": _("The scheduler does not use the pool %(pool)s of %(driver)s: %(why)s."),
    "pool-empty": _("The driver %(driver)s publishes the pool %(pool)s without any device."),
    "hardware-without-slice": _(
        "%(node)s has hardware of %(vendor)s by its labels, but no slice of %(drivers)s."
    ),
    "hardware-by-plugin": _(
        "%(node)s hands out hardware of %(vendor)s by a Device Plugin only (%(resources)s), while other "
        "nodes use %(drivers)s."
    ),
    "slice-node-gone": _(
        "The node %(node)s does not exist any more, but slices of %(driver)s for it do: %(slices)s."
    ),
    "slice-node-not-ready": _(
        "The node %(node)s is not ready, and its slices of %(driver)s remain: %(slices)s. Pods that get its "
        "devices hang."
    ),
    "doubly-managed": _(
        "A Device Plugin (%(resources)s) and %(drivers)s both hand out the same hardware of %(node)s. The "
        "desk counts it once, as devices."
    ),
    "doubly-published": _(
        "%(drivers)s publish the same hardware of %(node)s (pieces: %(pieces)s) and may hand it out twice. "
        "The desk counts it once."
    ),
    "leak-deleted": _("%(claim)s was deleted but still holds its devices: a finalizer keeps it."),
    "leak-unused": _("%(claim)s holds devices, though nothing reserves it."),
    "leak-pod-gone": _("%(claim)s is reserved by Pods that do not exist any more: %(pods)s."),
    "leak-pod-finished": _("%(claim)s is still reserved by Pods that have finished: %(pods)s."),
    "stray-object": _(
        "%(object)s carries the label of the request %(request)s, but is no object of it: a copy, or changed."
    ),
    "stray-unknown": _(
        "%(object)s carries the label of a request that this desk does not know: %(request)s."
    ),
    "object-changed": _("%(object)s is not as the desk sent it for %(request)s: %(paths)s."),
    "quota-changed": _("The ResourceQuota %(object)s is not as the desk wrote it: %(said)s"),
    "overlap": _("Several claims hold the exclusive device %(device)s at once: %(claims)s."),
    "overlap-hardware": _(
        "One piece of hardware is held under several names at once (%(names)s), by: %(claims)s."
    ),
    "partly-allocated": _(
        "%(owner)s has %(held)s of the %(wanted)s claims that it needs; what it holds stands idle until the "
        "rest comes."
    ),
    "prepare-failed": _(
        "%(node)s could not prepare devices for its Pods (Pods: %(pods)s, the latest %(pod)s): %(said)s"
    ),
    "pending": _("%(owner)s waits for devices (Pods: %(pods)s). The scheduler says: %(said)s"),
    "pending-unseen": _("%(owner)s waits for devices (Pods: %(pods)s), and no scheduler has said why."),
    "pending-gated": _("%(owner)s is held back by a queue (Pods: %(pods)s): %(said)s"),
    "changed-together": _("Several parts of the platform changed within one window: %(steps)s."),
    "contract-broken": _("%(part)s: the contract expects %(expected)s, the cluster runs %(versions)s."),
    "class-missing": _(
        "The device class %(class)s is not here, but on other clusters of the same group: %(clusters)s."
    ),
    "health-fault": _("The driver keeps Pods away from %(device)s: %(taints)s."),
    "health-unhealthy": _("The kubelet reports %(device)s as unhealthy to the Pods that have it: %(pods)s."),
    "taint-old": _("%(device)s has been tainted for long: %(taints)s. Is it repaired by now?"),
    "taint-rule-old": _("The rule %(rule)s has tainted devices for long: %(taint)s. Is it still needed?"),
    "cdi-drift": _("CDI on %(node)s does not fit the slices: %(told)s"),
    "pod-devices-silent": _(
        "%(node)s has fallen silent: which of its Pods has which device is not told by %(source)s any more."
    ),
    "pod-devices-refused": _("What %(node)s reports of its Pods' devices is refused: %(refusal)s."),
    "metrics-elsewhere": _(
        "“%(query)s” brings samples of devices (%(devices)s) that come from where these are not, and are not "
        "used: %(device)s is on %(node)s, and what tells of it names “%(named)s”."
    ),
    "admin-access": _(
        "The namespace %(namespace)s may look into devices that others hold: its label admits adminAccess."
    ),
    "namespace-unbound": _(
        "The namespace %(namespace)s uses devices (claims: %(claims)s, Device Plugin units: %(units)s) and "
        "belongs to no project: nobody is charged."
    ),
}


def in_words(finding: Finding) -> str:
    """The sentence for a finding. A code without a sentence is shown as it is, not dropped."""
    phrase = PHRASES.get(finding.code)
    if phrase is None:
        return finding.code
    values = _Blank({name: _told(name, value) for name, value in finding.params.items()})
    return str(phrase) % values


def _told(name: str, value: Any) -> Any:
    if say := _SAID.get(name):
        return say(value)
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def _drift(told: Any) -> str:
    return " ".join(
        cdi_words.finding(comparison.Finding(code, "", subject, params)) for code, subject, params in told
    )


def _source(value: str) -> str:
    return str(dict(PodDeviceNode.Source.choices).get(value, value))


def _step(part: str, before: list[str], after: list[str]) -> str:
    return f"{contract.part_label(part)}: {', '.join(before) or '–'} → {', '.join(after)}"


# Parameters that are no words yet.
_SAID: Mapping[str, Callable[[Any], str]] = {
    "told": _drift,
    "steps": lambda steps: "; ".join(_step(*step) for step in steps),
    "part": lambda part: contract.part_label(str(part)),
    "source": _source,
    "refusal": refusal,
    # Text of others ends a sentence of ours.
    "why": lambda why: str(why).rstrip("."),
}


class _Blank(dict[str, Any]):
    """What an older version of the desk did not store stays empty."""

    def __missing__(self, key: str) -> str:
        return "–"


def unknown_in_words(missing: str) -> str:
    """Why a rule cannot be judged."""
    if not missing:
        return _t("the check itself failed; see the worker's log")
    return _t("%(resource)s are not observed") % {"resource": missing}
