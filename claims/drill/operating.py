"""Parts of steps that need an operator: the desk asks, watches while it is done, and times what follows."""

from typing import Any

from claims.drill import consistency
from claims.drill.consistency import device_names
from claims.drill.scene import QUIET, End, Result, Scene, Verdict, condition, node_of, phase

# --- a driver restarts ------------------------------------------------------------------------------


def slices_before(scene: Scene) -> Result:
    claim, pod = scene.allocated("g"), scene.hands.pod("g1")
    if claim is None or pod is None:
        return End(Verdict.DIFFERS, "pod-vanished")
    drivers = scene.drivers(claim)
    pools = sorted({result["pool"] for result in consistency.results(claim)})
    found = _generations(scene, drivers, pools)
    if not found:
        return False
    scene.remember(
        drivers=drivers, pools=pools, slices=found, devices=device_names(claim), node=node_of(pod),
        pod=pod["metadata"]["uid"],
    )  # fmt: skip
    scene.observe("slices", source="desk", slices=_said(found))
    return True


def watch_slices(scene: Scene) -> Result:
    """While the driver restarts: what becomes of its slices. Done when somebody says so."""
    found = _generations(scene, scene.facts["drivers"], scene.facts["pools"])
    if not found:
        scene.observe("slices-gone", source="desk")
    elif found != scene.facts["slices"]:
        scene.observe("slices-changed", source="desk", slices=_said(found))
    return _disturbed(scene, "g") or bool(scene.facts.get("did"))


def driver_back(scene: Scene) -> Result:
    found = _generations(scene, scene.facts["drivers"], scene.facts["pools"])
    disturbed = _disturbed(scene, "g")
    if disturbed:
        return disturbed
    if not found or scene.waited < QUIET:
        return False
    told = "slices-changed" if found != scene.facts["slices"] else "slices-same"
    scene.observe(told, source="desk", slices=_said(found))
    scene.observe("pod-undisturbed", source="desk", pod=scene.hands.name("g1"))
    return True


def another_pod(scene: Scene) -> Result:
    return scene.made_pod("g2", claim="g")


def driver_serves(scene: Scene) -> Result:
    """Only a driver that is back prepares a claim for a further Pod."""
    return _disturbed(scene, "g") or scene.runs("g2")


def _disturbed(scene: Scene, claim: str) -> End | None:
    """Whether the first Pod or its device was lost."""
    pod, held = scene.hands.pod(f"{claim}1"), scene.allocated(claim)
    if pod is None or pod["metadata"]["uid"] != scene.facts["pod"] or phase(pod) != "Running":
        return End(Verdict.DIFFERS, "pod-disturbed")
    if held is None or device_names(held) != scene.facts["devices"]:
        return End(Verdict.DIFFERS, "device-changed")
    return None


def _generations(scene: Scene, drivers: list[str], pools: list[str]) -> dict[str, str]:
    """Slice → its uid and resourceVersion."""
    return {
        found["metadata"]["name"]: f"{found['metadata']['uid']}@{found['metadata'].get('resourceVersion')}"
        for found in scene.hands.slices_of(drivers, pools)
    }


def _said(slices: dict[str, str]) -> str:
    return ", ".join(f"{name} {version.partition('@')[2]}" for name, version in sorted(slices.items()))


# --- a node goes away -------------------------------------------------------------------------------


def watch_node(scene: Scene) -> Result:
    """While the node is drained or switched off: when it takes no more Pods, and when ours is gone."""
    pod = scene.hands.pod("n1")
    if pod is not None and not scene.facts.get("node"):
        scene.remember(node=node_of(pod))
    _note_node(scene)
    if pod is None:
        scene.gone("n1")
    elif at := pod["metadata"].get("deletionTimestamp"):
        scene.observe("pod-ends", at=str(at), pod=pod["metadata"]["name"])
    return bool(scene.facts.get("did"))


def free_after_drain(scene: Scene) -> Result:
    _note_node(scene)
    pod = scene.hands.pod("n1")
    if pod is not None and phase(pod) not in consistency.FINISHED:
        return False
    if pod is not None:
        scene.observe("pod-failed", source="desk", pod=pod["metadata"]["name"], reason=phase(pod))
    else:
        scene.gone("n1")
    return scene.released("n")


def pod_elsewhere(scene: Scene) -> Result:
    return scene.made_pod("n2", claim="n")


def placed_or_waits(scene: Scene) -> Result:
    pod = scene.hands.pod("n2")
    if pod is None:
        return End(Verdict.DIFFERS, "pod-vanished")
    if node := node_of(pod):
        if node == scene.facts.get("node"):
            return End(Verdict.DIFFERS, "on-the-same-node")
        scene.observe("placed-elsewhere", source="desk", node=node)
        return True
    scene.note_unscheduled(pod)
    return any(entry["code"] == "unschedulable" for entry in scene.step.observed)


def node_back(scene: Scene) -> Result:
    _note_node(scene)
    return bool(scene.facts.get("did")) and _takes_pods(scene)


def runs_again(scene: Scene) -> Result:
    scene.allocated("n")
    return scene.runs("n2")


def _note_node(scene: Scene) -> None:
    node = scene.hands.node(scene.facts.get("node") or "-")
    if node is None:
        scene.observe("node-deleted", source="desk", node=scene.facts.get("node"))
        return
    name = node["metadata"]["name"]
    if (node.get("spec") or {}).get("unschedulable"):
        scene.observe("node-cordoned", source="desk", node=name)
    ready = condition(node, "Ready") or {}
    if ready and ready.get("status") != "True":
        scene.observe("node-not-ready", at=str(ready.get("lastTransitionTime") or ""), node=name)


def _takes_pods(scene: Scene) -> bool:
    node = scene.hands.node(scene.facts.get("node") or "-")
    if node is None:
        return False
    ready = (condition(node, "Ready") or {}).get("status") == "True"
    if not ready or (node.get("spec") or {}).get("unschedulable"):
        return False
    scene.observe("node-back", source="desk", node=node["metadata"]["name"])
    return True


# --- the control plane is restored ------------------------------------------------------------------


def state_at_backup(scene: Scene) -> Result:
    """What the backup knows: remembered when somebody says that it was taken."""
    claim, pod = scene.allocated("b"), scene.hands.pod("b1")
    if claim is None or pod is None:
        return End(Verdict.DIFFERS, "pod-vanished")
    if not scene.facts.get("did"):
        return False
    scene.remember(
        claim=claim["metadata"]["uid"], devices=device_names(claim), drivers=scene.drivers(claim),
        pod=pod["metadata"]["uid"],
    )  # fmt: skip
    scene.observe("at-backup", source="desk", device=", ".join(device_names(claim)))
    return True


def changed_since(scene: Scene) -> Result:
    """Something that the backup does not know: a further Pod on the claim."""
    if scene.hands.pod("b2") is None:
        scene.made_pod("b2", claim="b")
    return scene.runs("b2")


def watch_restore(scene: Scene) -> Result:
    """A look, which finds nobody there while the control plane is away."""
    scene.hands.claim("b")
    return bool(scene.facts.get("did"))


def consistent(scene: Scene) -> Result:
    """Whether all fits together within the time of a step, once the control plane has settled."""
    claims, pods, slices = scene.hands.everything()
    found = consistency.problems(claims=claims, pods=pods, slices=slices, drivers=scene.facts["drivers"])
    for problem in found:
        scene.observe(f"problem-{problem['code']}", source="desk", **_without_code(problem))
    if found or scene.waited < QUIET:
        return False
    claim = scene.hands.claim("b")
    if claim is None or claim["metadata"]["uid"] != scene.facts["claim"]:
        return End(Verdict.DIFFERS, "another-claim")
    if device_names(claim) != scene.facts["devices"]:
        return End(Verdict.DIFFERS, "device-changed")
    later = scene.hands.pod("b2")
    scene.observe("later-pod-there" if later else "later-pod-gone", source="desk", pod=scene.hands.name("b2"))
    scene.observe("consistent", source="desk", claims=len(claims), pods=len(pods))
    return True


def _without_code(problem: dict[str, str]) -> dict[str, Any]:
    return {key: value for key, value in problem.items() if key != "code"}
