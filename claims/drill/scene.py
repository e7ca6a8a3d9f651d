"""What a step of a drill works with: the hands on the cluster, the time, and the pages of its evidence."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from claims.drill.consistency import device_names
from claims.drill.hands import Hands, Object, parts
from claims.models import Drill, DrillStep

Verdict = DrillStep.Verdict
# How long nothing may happen before it is believed that nothing does.
QUIET = timedelta(seconds=3)
# Free devices of the drill's pool; None = not known.
FreeOf = Callable[[Drill], int | None]


class End(NamedTuple):
    """How a step came out, and why (a code of `claims.drill.words`)."""

    verdict: str
    why: str = ""


# True: this part is done; False: not yet.
Result = bool | End
Act = Callable[["Scene"], Result]


@dataclass(kw_only=True)
class Scene:
    """One step at work. `observe` writes evidence once; `facts` is what the step remembers."""

    drill: Drill
    step: DrillStep
    hands: Hands
    now: datetime
    free_of: FreeOf

    @property
    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = self.step.facts
        return found

    @property
    def waited(self) -> timedelta:
        """Since this part of the step began."""
        return self.now - (self.step.phase_at or self.now)

    def remember(self, **facts: Any) -> None:
        self.step.facts = {**self.step.facts, **facts}

    def observe(self, code: str, *, at: str = "", source: str = "object", **what: Any) -> None:
        """Adds a line of evidence, unless the same is there already. `at` as the API tells it; without it the
        desk's clock is meant."""
        told = {key: str(value)[:300] for key, value in what.items()}
        same = (entry for entry in self.step.observed if (entry["code"], entry["what"]) == (code, told))
        if next(same, None) is None:
            entry = {
                "at": at or self.now.isoformat(),
                "source": source if at or source != "object" else "desk",
                "code": code,
                "what": told,
            }
            self.step.observed = [*self.step.observed, entry][-200:]

    # --- what several steps look for --------------------------------------------------------------------

    def room(self) -> Result:
        """Whether the drill may take a device: never the last free one, unless somebody said so."""
        if self.drill.last_device:
            return True
        free = self.free_of(self.drill)
        return free is not None and free > 1

    def made_claim(self, suffix: str) -> bool:
        made = self.hands.make_claim(suffix)
        self.observe("claim-made", at=created(made), claim=made["metadata"]["name"])
        return True

    def made_pod(self, suffix: str, **more: Any) -> bool:
        made = self.hands.make_pod(suffix, **more)
        self.observe("pod-made", at=created(made), pod=made["metadata"]["name"], uid=made["metadata"]["uid"])
        return True

    def runs(self, *suffixes: str) -> Result:
        """Whether all of these Pods run; what the scheduler says instead is remembered."""
        running = True
        for suffix in suffixes:
            pod = self.hands.pod(suffix)
            if pod is None:
                return End(Verdict.DIFFERS, "pod-vanished")
            if phase(pod) == "Running":
                at = str((pod.get("status") or {}).get("startTime") or "")
                self.observe("pod-runs", at=at, pod=pod["metadata"]["name"], node=node_of(pod))
                continue
            self.note_unscheduled(pod)
            running = False
        return running

    def note_unscheduled(self, pod: Object) -> None:
        found = condition(pod, "PodScheduled")
        if found and found.get("status") == "False" and found.get("message"):
            told = {"pod": pod["metadata"]["name"], "message": found["message"]}
            self.observe("unschedulable", at=str(found.get("lastTransitionTime") or ""), **told)

    def allocated(self, suffix: str) -> Object | None:
        """The claim, once it holds a device; the devices are written down."""
        claim = self.hands.claim(suffix)
        if claim is None or not device_names(claim):
            return None
        at = str(claim["status"]["allocation"].get("allocationTimestamp") or "")
        self.observe(
            "allocated", at=at, claim=claim["metadata"]["name"], device=", ".join(device_names(claim))
        )
        return claim

    def gone(self, suffix: str) -> bool:
        """Whether a Pod is gone; when that was seen is written down."""
        if self.hands.pod(suffix) is not None:
            return False
        self.observe("pod-gone", source="desk", pod=self.hands.name(suffix))
        return True

    def released(self, suffix: str) -> bool:
        """Whether a claim holds nothing any more, and nobody reserves it."""
        claim = self.hands.claim(suffix)
        if claim is None:
            return True
        status = claim.get("status") or {}
        if status.get("allocation") or status.get("reservedFor"):
            return False
        self.observe("released", source="desk", claim=claim["metadata"]["name"])
        return True

    def reserved(self, suffix: str) -> set[str]:
        """UIDs of what reserves a claim."""
        claim = self.hands.claim(suffix) or {}
        return set(parts((claim.get("status") or {}).get("reservedFor")))

    def drivers(self, claim: Object) -> list[str]:
        """Drivers of what a claim holds."""
        return sorted({name.partition("/")[0] for name in device_names(claim)})


def created(found: Mapping[str, Any]) -> str:
    return str(found["metadata"].get("creationTimestamp") or "")


def phase(pod: Mapping[str, Any]) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def node_of(pod: Mapping[str, Any]) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")


def condition(found: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    listed = (found.get("status") or {}).get("conditions") or ()
    return next((entry for entry in listed if entry.get("type") == kind), None)
