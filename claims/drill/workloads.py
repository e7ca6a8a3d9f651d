"""Parts of steps that the desk does by itself: claims and Pods that come and go."""

from claims.drill.consistency import device_names, results
from claims.drill.scene import (
    QUIET,
    Act,
    End,
    Result,
    Scene,
    Verdict,
    condition,
    created,
    node_of,
    phase,
)

# After so many seconds of running, a Pod that is to fail does.
FAILS_AFTER = 5

# --- when is a claim created ------------------------------------------------------------------------


def template_made(scene: Scene) -> Result:
    made = scene.hands.make_template("t")
    scene.observe("template-made", at=created(made), template=made["metadata"]["name"])
    return scene.made_claim("c")


def no_claim_yet(scene: Scene) -> Result:
    others = [c for c in scene.hands.own_claims() if c["metadata"]["name"] != scene.hands.name("c")]
    if others:
        return End(Verdict.DIFFERS, "claim-without-pod")
    if scene.waited < QUIET:
        return False
    scene.observe("no-claim-yet", source="desk")
    return True


def pod_on_template(scene: Scene) -> Result:
    return scene.made_pod("t1", template="t")


def claim_of_pod(scene: Scene) -> Result:
    pod = scene.hands.pod("t1")
    if pod is None:
        return End(Verdict.DIFFERS, "pod-vanished")
    found = scene.hands.claims_of_pod(pod)
    if not found:
        return False
    scene.observe("claim-of-pod", at=created(found[0]), claim=found[0]["metadata"]["name"])
    return created(found[0]) >= created(pod) or End(Verdict.DIFFERS, "claim-without-pod")


# --- when are devices chosen ------------------------------------------------------------------------


def claim_waits(scene: Scene) -> Result:
    return scene.made_claim("d")


def nothing_chosen(scene: Scene) -> Result:
    if scene.allocated("d") is not None:
        return End(Verdict.DIFFERS, "allocated-without-pod")
    if scene.waited < QUIET:
        return False
    scene.observe("nothing-chosen", source="desk")
    return True


def pod_names_it(scene: Scene) -> Result:
    return scene.made_pod("d1", claim="d")


def device_chosen(scene: Scene) -> Result:
    pod = scene.hands.pod("d1")
    if pod is None:
        return End(Verdict.DIFFERS, "pod-vanished")
    scene.note_unscheduled(pod)
    claim = scene.allocated("d")
    scheduled = condition(pod, "PodScheduled") or {}
    if claim is None or scheduled.get("status") != "True":
        return False
    told = {"pod": pod["metadata"]["name"], "node": node_of(pod)}
    scene.observe("scheduled", at=str(scheduled.get("lastTransitionTime") or ""), **told)
    return pod["metadata"]["uid"] in scene.reserved("d")


# --- several Pods on one claim ----------------------------------------------------------------------


def pod_on_claim(claim: str) -> Act:
    def act(scene: Scene) -> Result:
        return scene.made_claim(claim) and scene.made_pod(f"{claim}1", claim=claim)

    return act


def one_runs(claim: str) -> Act:
    def act(scene: Scene) -> Result:
        scene.allocated(claim)
        return scene.runs(f"{claim}1")

    return act


def two_pods(claim: str) -> Act:
    def act(scene: Scene) -> Result:
        scene.made_claim(claim)
        return scene.made_pod(f"{claim}1", claim=claim) and scene.made_pod(f"{claim}2", claim=claim)

    return act


def both_run(claim: str) -> Act:
    def act(scene: Scene) -> Result:
        scene.allocated(claim)
        return scene.runs(f"{claim}1", f"{claim}2")

    return act


def share_one_device(scene: Scene) -> Result:
    pods = [scene.hands.pod(name) for name in ("s1", "s2")]
    claim = scene.allocated("s")
    if claim is None or None in pods:
        return End(Verdict.DIFFERS, "pod-vanished")
    uids = {pod["metadata"]["uid"] for pod in pods if pod is not None}
    nodes = {node_of(pod) for pod in pods if pod is not None}
    if not uids <= scene.reserved("s"):
        return False
    told = {
        "pods": str(len(uids)),
        "device": ", ".join(device_names(claim)),
        "node": ", ".join(sorted(nodes)),
    }
    scene.observe("shared", source="desk", **told)
    return (len(results(claim)) == 1 and len(nodes) == 1) or End(Verdict.DIFFERS, "not-shared")


# --- deletion, failure, re-creation -----------------------------------------------------------------


def first_deleted(scene: Scene) -> Result:
    claim = scene.allocated("x")
    if claim is not None and "devices" not in scene.facts:
        scene.remember(devices=device_names(claim))
    scene.hands.delete_pod("x1")
    return scene.gone("x1")


def second_keeps(scene: Scene) -> Result:
    claim, pod = scene.allocated("x"), scene.hands.pod("x2")
    if pod is None:
        return End(Verdict.DIFFERS, "pod-vanished")
    if claim is None or device_names(claim) != scene.facts.get("devices"):
        return End(Verdict.DIFFERS, "not-kept")
    if scene.reserved("x") != {pod["metadata"]["uid"]}:
        return False
    scene.observe("kept", source="desk", pod=pod["metadata"]["name"], device=", ".join(device_names(claim)))
    return True


def last_deleted(scene: Scene) -> Result:
    scene.hands.delete_pod("x2")
    return scene.gone("x2")


def free_after(claim: str) -> Act:
    """The device is given back though the claim lives on."""

    def act(scene: Scene) -> Result:
        if not scene.released(claim):
            return False
        scene.observe("free-after", source="desk", seconds=f"{scene.waited.total_seconds():.1f}")
        return scene.hands.claim(claim) is not None or End(Verdict.DIFFERS, "claim-vanished")

    return act


def failing_pod(scene: Scene) -> Result:
    return scene.made_claim("f") and scene.made_pod("f1", claim="f", seconds=FAILS_AFTER)


def ran_once(scene: Scene) -> Result:
    """It may have failed already when we look."""
    scene.allocated("f")
    pod = scene.hands.pod("f1")
    if pod is not None and phase(pod) == "Failed" and (pod.get("status") or {}).get("startTime"):
        return True
    return scene.runs("f1")


def failed(scene: Scene) -> Result:
    pod = scene.hands.pod("f1")
    if pod is None:
        return End(Verdict.DIFFERS, "pod-vanished")
    if phase(pod) == "Succeeded":
        return End(Verdict.DIFFERS, "pod-succeeded")
    if phase(pod) != "Failed":
        return False
    told = {"pod": pod["metadata"]["name"], "reason": (pod.get("status") or {}).get("reason") or "–"}
    scene.observe("pod-failed", source="desk", **told)
    return True


def first_life(scene: Scene) -> Result:
    return scene.made_claim("r") and scene.made_pod("r1", claim="r")


def first_runs(scene: Scene) -> Result:
    claim = scene.allocated("r")
    ran = scene.runs("r1")
    if ran is True and claim is not None:
        scene.remember(devices=device_names(claim), claim=claim["metadata"]["uid"])
    return ran


def first_life_ends(scene: Scene) -> Result:
    scene.hands.delete_pod("r1")
    return scene.gone("r1")


def second_life(scene: Scene) -> Result:
    """The same name on the same claim."""
    return scene.made_pod("r1", claim="r")


def second_runs(scene: Scene) -> Result:
    ran = scene.runs("r1")
    claim = scene.allocated("r")
    if ran is not True or claim is None:
        return ran if ran is not True else False
    if claim["metadata"]["uid"] != scene.facts.get("claim"):
        return End(Verdict.DIFFERS, "another-claim")
    same = device_names(claim) == scene.facts.get("devices")
    scene.observe(
        "same-device" if same else "another-device", source="desk", device=", ".join(device_names(claim))
    )
    return True


def templated_pod(scene: Scene) -> Result:
    scene.hands.make_template("q")
    return scene.made_pod("q1", template="q")


def its_claim(scene: Scene) -> Result:
    pod = scene.hands.pod("q1")
    found = scene.hands.claims_of_pod(pod) if pod else []
    if not found:
        return False
    scene.observe("claim-of-pod", at=created(found[0]), claim=found[0]["metadata"]["name"])
    scene.remember(claim=found[0]["metadata"]["uid"])
    return True


def templated_runs(scene: Scene) -> Result:
    return scene.runs("q1")


def templated_gone(scene: Scene) -> Result:
    scene.hands.delete_pod("q1")
    return scene.gone("q1")


def its_claim_gone(scene: Scene) -> Result:
    """A claim that was made for a Pod goes with it."""
    if any(claim["metadata"]["uid"] == scene.facts["claim"] for claim in scene.hands.own_claims()):
        return False
    scene.observe("claim-gone", source="desk", seconds=f"{scene.waited.total_seconds():.1f}")
    return True


def another_claim(scene: Scene) -> Result:
    pod = scene.hands.pod("q1")
    found = scene.hands.claims_of_pod(pod) if pod else []
    if not found:
        return False
    scene.observe("claim-of-pod", at=created(found[0]), claim=found[0]["metadata"]["name"])
    return found[0]["metadata"]["uid"] != scene.facts["claim"] or End(Verdict.DIFFERS, "same-claim")


# --- when is a device free again --------------------------------------------------------------------


def claim_deleted_in_use(scene: Scene) -> Result:
    claim = scene.allocated("e")
    if claim is not None:
        scene.remember(devices=device_names(claim))
    scene.hands.delete_claim("e")
    return True


def still_protected(scene: Scene) -> Result:
    """A claim that a Pod uses is not taken away from it."""
    claim = scene.hands.claim("e")
    if claim is None:
        return End(Verdict.DIFFERS, "not-protected")
    at = claim["metadata"].get("deletionTimestamp")
    if not at or scene.waited < QUIET:
        return False
    scene.observe("protected", at=str(at), claim=claim["metadata"]["name"])
    return True


def pod_deleted_then(claim: str) -> Act:
    def act(scene: Scene) -> Result:
        scene.hands.delete_pod(f"{claim}1")
        return scene.gone(f"{claim}1")

    return act


def claim_gone(scene: Scene) -> Result:
    if scene.hands.claim("e") is not None:
        return False
    scene.observe("claim-gone", source="desk", seconds=f"{scene.waited.total_seconds():.1f}")
    return True


def nobody_holds(scene: Scene) -> Result:
    """Whether the device was given back. That somebody else took it at once is just as good."""
    wanted = set(scene.facts.get("devices") or ())
    claims, _pods, _slices = scene.hands.everything()
    own = {scene.hands.name("e")}
    holders = [c for c in claims if wanted & set(device_names(c)) and c["metadata"]["name"] in own]
    if holders:
        return False
    taken = any(wanted & set(device_names(claim)) for claim in claims)
    scene.observe(
        "taken-at-once" if taken else "device-free", source="desk", device=", ".join(sorted(wanted))
    )
    return True
