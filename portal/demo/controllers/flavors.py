"""What a workload asks of a queue, and which flavors have it: the arithmetic of Kueue's quotas.

Pure functions of the objects as they are stored. Left out of what Kueue does: cohorts (nothing is borrowed or
lent), preemption, topologies, admission checks and partial admission.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from portal.dra.quantity import Quantity

Object = dict[str, Any]
Amounts = dict[str, Quantity]
Usage = dict[tuple[str, str], Quantity]
"""By flavor and resource."""
NOTHING = Quantity.from_int(0)


class Inadmissible(Exception):
    """A workload that no quota could ever let in as it is; the message says why."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The flavor of each resource that a set of Pods asks for, and how much of it."""

    flavors: Mapping[str, str]
    amounts: Mapping[str, Quantity]


def times(amount: Quantity, count: int) -> Quantity:
    """``amount``, ``count`` times."""
    return Quantity(amount.nanos * count, amount.format)


def requests_of(
    template: Object,
    *,
    find_template: Callable[[str], Object | None],
    resource_of: Callable[[str], str | None],
) -> Amounts:
    """What one Pod asks for: cpu, memory, extended resources, and devices.

    Devices are counted by their claim templates, under the name that ``resource_of`` gives for a DeviceClass
    (Kueue's ``deviceClassMappings``). Raises Inadmissible for what Kueue does not count.
    """
    spec = template.get("spec", {})
    amounts: Amounts = {}
    for container in spec.get("containers", ()):
        _add(amounts, _container(container))
    for container in spec.get("initContainers", ()):
        for name, amount in _container(container).items():
            amounts[name] = max(amounts.get(name, NOTHING), amount, key=lambda item: item.nanos)
    _add(amounts, _parsed(spec.get("overhead", {})))
    for entry in spec.get("resourceClaims", ()):
        if "resourceClaimName" in entry:
            raise Inadmissible("Kueue does not support the use of resource claims by name")
        name = entry.get("resourceClaimTemplateName", "")
        claim = find_template(name)
        if claim is None:
            raise Inadmissible(f"failed to get claim spec from ResourceClaimTemplate {name}: not found")
        _add(amounts, _devices(claim["spec"]["spec"], resource_of))
    return amounts


def _devices(claim: Object, resource_of: Callable[[str], str | None]) -> Amounts:
    amounts: Amounts = {}
    devices = claim.get("devices", {})
    for part in ("constraints", "config"):
        if devices.get(part):
            raise Inadmissible(f"device {part} are not supported by Kueue")
    for request in devices.get("requests", ()):
        exactly = request.get("exactly")
        if exactly is None:
            raise Inadmissible(f"request {request['name']}: firstAvailable is not supported by Kueue")
        if exactly.get("adminAccess"):
            raise Inadmissible(f"request {request['name']}: adminAccess is not supported by Kueue")
        if exactly.get("allocationMode") == "All":
            raise Inadmissible(f"request {request['name']}: allocationMode All is not supported by Kueue")
        device_class = exactly["deviceClassName"]
        resource = resource_of(device_class)
        if resource is None:
            raise Inadmissible(f"DeviceClass {device_class} is not mapped in DRA configuration")
        _add(amounts, {resource: Quantity.from_int(exactly.get("count", 1))})
    return amounts


def assign(
    queue: Object, flavors: Mapping[str, Object], *, wanted: Amounts, template: Object, used: Usage
) -> Assignment | list[str]:
    """The first flavors of each resource group that have enough unused quota, else the reasons why not."""
    chosen: dict[str, str] = {}
    reasons: list[str] = []
    groups = queue["spec"].get("resourceGroups", ())
    covered = {name for group in groups for name in group["coveredResources"]}
    reasons += [f"resource {name} unavailable in ClusterQueue" for name in sorted(wanted.keys() - covered)]
    for group in groups:
        asked = {name: wanted[name] for name in group["coveredResources"] if name in wanted}
        if not asked:
            continue
        against: list[str] = []
        for flavor in group["flavors"]:
            name = flavor["name"]
            problems = _unfit(name, flavors[name], template) or _lacking(flavor, asked, used)
            if not problems:
                chosen.update(dict.fromkeys(asked, name))
                break
            against += problems
        else:
            reasons += sorted(against)
    return reasons or Assignment(chosen, wanted)


def _unfit(name: str, flavor: Object, template: Object) -> list[str]:
    """Why Pods of the template cannot go to the nodes of a flavor."""
    spec = flavor.get("spec", {})
    labels, selector = spec.get("nodeLabels", {}), template.get("spec", {}).get("nodeSelector", {})
    if any(selector.get(key, value) != value for key, value in labels.items()):
        return [f"flavor {name} doesn't match node affinity"]
    tolerations = [*template.get("spec", {}).get("tolerations", ()), *spec.get("tolerations", ())]
    for taint in spec.get("nodeTaints", ()):
        if taint.get("effect") != "PreferNoSchedule" and not _tolerated(taint, tolerations):
            return [f"untolerated taint {taint['key']} in flavor {name}"]
    return []


def _tolerated(taint: Object, tolerations: Iterable[Object]) -> bool:
    return any(
        item.get("key") in (None, "", taint["key"])
        and item.get("effect") in (None, "", taint.get("effect"))
        and (item.get("operator") == "Exists" or item.get("value", "") == taint.get("value", ""))
        for item in tolerations
    )


def _lacking(flavor: Object, asked: Amounts, used: Usage) -> list[str]:
    problems = []
    for quota in flavor["resources"]:
        name = quota["name"]
        if name not in asked:
            continue
        nominal, where = Quantity.parse(str(quota["nominalQuota"])), f"{name} in flavor {flavor['name']}"
        missing = asked[name] + used.get((flavor["name"], name), NOTHING) - nominal
        if asked[name] > nominal:
            problems.append(
                f"insufficient quota for {where}, previously considered podsets requests (0) + current "
                f"podset request ({asked[name]}) > maximum capacity ({nominal})"
            )
        elif missing.sign() > 0:
            problems.append(f"insufficient unused quota for {where}, {missing} more needed")
    return problems


def usage_of(workloads: Iterable[Object]) -> Usage:
    """What workloads with an admission hold."""
    used: Usage = {}
    for workload in workloads:
        for assignment in workload["status"]["admission"].get("podSetAssignments", ()):
            for name, flavor in assignment.get("flavors", {}).items():
                amount = Quantity.parse(str(assignment.get("resourceUsage", {}).get(name, "0")))
                used[flavor, name] = used.get((flavor, name), NOTHING) + amount
    return used


def usage_status(queue: Object, used: Usage, *, local: bool) -> list[Object]:
    """Usage as the status of a queue tells it: every resource of every flavor."""
    extra: Object = {} if local else {"borrowed": "0"}
    return [
        {
            "name": flavor["name"],
            "resources": [
                {
                    "name": quota["name"],
                    "total": str(used.get((flavor["name"], quota["name"]), NOTHING)),
                    **extra,
                }
                for quota in flavor["resources"]
            ],
        }
        for group in queue["spec"].get("resourceGroups", ())
        for flavor in group["flavors"]
    ]


def _container(container: Object) -> Amounts:
    return _parsed(container.get("resources", {}).get("requests", {}))


def _parsed(amounts: Mapping[str, Any]) -> Amounts:
    return {name: Quantity.parse(str(value)) for name, value in amounts.items()}


def _add(amounts: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        amounts[name] = amounts[name] + amount if name in amounts else amount
