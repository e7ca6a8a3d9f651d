"""The steps of a drill as data: which parts each has, what each part does and waits for, and what it means
when it does not come. Every part may be run again after a crash: it looks before it makes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from claims.drill import operating, workloads
from claims.drill.scene import Act, Result, Scene


@dataclass(frozen=True)
class Part:
    """`late` = why nothing is proven when it does not come in time; `ask` = what an operator is asked for
    first ("" = nothing)."""

    name: str
    act: Act
    late: str
    ask: str = ""


@dataclass(frozen=True)
class Step:
    """One question. `pods` are the suffixes of its Pods, whose events are evidence."""

    code: str
    parts: Sequence[Part]
    pods: Sequence[str] = field(default=())

    @property
    def asks(self) -> bool:
        """Whether it needs an operator."""
        return any(part.ask for part in self.parts)

    def part(self, name: str) -> int:
        """The position of a part; 0 where it is not known."""
        names = [part.name for part in self.parts]
        return names.index(name) if name in names else 0


def _room(scene: Scene) -> Result:
    return scene.room()


ROOM = Part("room", _room, "no-room")
NEVER = "pod-never-started"

STEPS: Sequence[Step] = (
    Step(
        "claim-created",
        (
            ROOM,
            Part("make", workloads.template_made, "not-made"),
            Part("quiet", workloads.no_claim_yet, "not-made"),
            Part("pod", workloads.pod_on_template, "not-made"),
            Part("claim", workloads.claim_of_pod, "no-claim"),
        ),
        ("t1",),
    ),
    Step(
        "devices-chosen",
        (
            ROOM,
            Part("make", workloads.claim_waits, "not-made"),
            Part("quiet", workloads.nothing_chosen, "not-made"),
            Part("pod", workloads.pod_names_it, "not-made"),
            Part("chosen", workloads.device_chosen, "never-allocated"),
        ),
        ("d1",),
    ),
    Step(
        "several-pods",
        (
            ROOM,
            Part("make", workloads.two_pods("s"), "not-made"),
            Part("run", workloads.both_run("s"), NEVER),
            Part("share", workloads.share_one_device, "not-shared"),
        ),
        ("s1", "s2"),
    ),
    Step(
        "pod-deleted",
        (
            ROOM,
            Part("make", workloads.two_pods("x"), "not-made"),
            Part("run", workloads.both_run("x"), NEVER),
            Part("delete", workloads.first_deleted, "pod-never-gone"),
            Part("kept", workloads.second_keeps, "not-kept"),
            Part("last", workloads.last_deleted, "pod-never-gone"),
            Part("free", workloads.free_after("x"), "never-released"),
        ),
        ("x1", "x2"),
    ),
    Step(
        "pod-failed",
        (
            ROOM,
            Part("make", workloads.failing_pod, "not-made"),
            Part("run", workloads.ran_once, NEVER),
            Part("fail", workloads.failed, "pod-never-failed"),
            Part("free", workloads.free_after("f"), "never-released"),
        ),
        ("f1",),
    ),
    Step(
        "pod-recreated",
        (
            ROOM,
            Part("make", workloads.first_life, "not-made"),
            Part("run", workloads.first_runs, NEVER),
            Part("delete", workloads.first_life_ends, "pod-never-gone"),
            Part("free", workloads.free_after("r"), "never-released"),
            Part("again", workloads.second_life, "not-made"),
            Part("rerun", workloads.second_runs, NEVER),
        ),
        ("r1",),
    ),
    Step(
        "template-again",
        (
            ROOM,
            Part("make", workloads.templated_pod, "not-made"),
            Part("claim", workloads.its_claim, "no-claim"),
            Part("run", workloads.templated_runs, NEVER),
            Part("delete", workloads.templated_gone, "pod-never-gone"),
            Part("cleared", workloads.its_claim_gone, "claim-stays"),
            Part("again", workloads.templated_pod, "not-made"),
            Part("another", workloads.another_claim, "no-claim"),
        ),
        ("q1",),
    ),
    Step(
        "freed",
        (
            ROOM,
            Part("make", workloads.pod_on_claim("e"), "not-made"),
            Part("run", workloads.one_runs("e"), NEVER),
            Part("delete", workloads.claim_deleted_in_use, "not-made"),
            Part("protected", workloads.still_protected, "not-protected"),
            Part("pod", workloads.pod_deleted_then("e"), "pod-never-gone"),
            Part("gone", workloads.claim_gone, "claim-stays"),
            Part("free", workloads.nobody_holds, "never-released"),
        ),
        ("e1",),
    ),
    Step(
        "driver-restart",
        (
            ROOM,
            Part("make", workloads.pod_on_claim("g"), "not-made"),
            Part("run", workloads.one_runs("g"), NEVER),
            Part("before", operating.slices_before, "no-slices"),
            Part("restart", operating.watch_slices, "driver-not-back", ask="restart-driver"),
            Part("back", operating.driver_back, "driver-not-back"),
            Part("another", operating.another_pod, "not-made"),
            Part("serves", operating.driver_serves, NEVER),
        ),
        ("g1", "g2"),
    ),
    Step(
        "node-gone",
        (
            ROOM,
            Part("make", workloads.pod_on_claim("n"), "not-made"),
            Part("run", workloads.one_runs("n"), NEVER),
            Part("drain", operating.watch_node, "pod-stays", ask="drain-node"),
            Part("free", operating.free_after_drain, "pod-stays"),
            Part("another", operating.pod_elsewhere, "not-made"),
            Part("placed", operating.placed_or_waits, "nothing-said"),
            Part("return", operating.node_back, "node-not-back", ask="return-node"),
            Part("serves", operating.runs_again, NEVER),
        ),
        ("n1", "n2"),
    ),
    Step(
        "restored",
        (
            ROOM,
            Part("make", workloads.pod_on_claim("b"), "not-made"),
            Part("run", workloads.one_runs("b"), NEVER),
            Part("backup", operating.state_at_backup, "not-made", ask="take-backup"),
            Part("change", operating.changed_since, NEVER),
            Part("restore", operating.watch_restore, "not-consistent", ask="restore-backup"),
            Part("settle", operating.consistent, "not-consistent"),
        ),
        ("b1", "b2"),
    ),
)
BY_CODE: Mapping[str, Step] = {step.code: step for step in STEPS}
