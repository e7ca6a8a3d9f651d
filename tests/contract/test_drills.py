"""A whole lifecycle drill on a cluster, with an operator who does what is asked; and what it finds where
nobody runs Pods."""

from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta

import pytest
from django.utils import timezone

from claims.drill import running, scene, starting
from claims.drill.hands import DRILL_LABEL
from claims.drill.steps import STEPS
from claims.models import Drill, PoolPlan
from inventory.models import Cluster
from portal.accounts.models import User
from portal.kube.errors import NotFound
from portal.kube.resources import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from tests.contract import objects
from tests.contract.room import Room

pytestmark = pytest.mark.django_db
IMAGE = "registry.k8s.io/pause:3.10"
State = Drill.State


def begin(room: Room, questions: list[str], *, seconds: int) -> Drill:
    now = timezone.now()
    cluster = Cluster.objects.create(name="main", credentials="kubeconfig", created_at=now)
    plan = PoolPlan.objects.create(
        cluster=cluster, name="room", labels=room.label, extended_resource="example.com/gpu",
        device_class=room.name("any"), driver=room.driver, created_at=now, changed_at=now,
    )  # fmt: skip
    terms = starting.read_drill(
        {"namespace": room.namespace, "step_seconds": str(seconds), "questions": questions}
    )
    return starting.start(
        plan=plan, terms=terms, image=IMAGE, user=User.objects.create(username="ada"), now=now,
        connect=lambda _cluster: nullcontext(room.client), free_of=lambda _drill: 2,
    )  # fmt: skip


def go_on(drill: Drill, room: Room, until: Callable[[], bool], what: str) -> None:
    """A worker comes by again and again."""

    def look() -> bool:
        Drill.objects.filter(pk=drill.pk).exclude(due_at=None).update(due_at=timezone.now())
        running.pursue(
            drill_id=drill.pk,
            now=timezone.now(),
            connect=lambda _cluster: nullcontext(room.client),
            free_of=lambda _drill: 2,
        )
        drill.refresh_from_db()
        return until()

    room.wait_for(look, what, seconds=150)


def operator(drill: Drill, room: Room, phase: str, work: Callable[[], None]) -> None:
    """Somebody does what is asked for in this part, and says so."""
    asked = drill.steps.filter(state="asking", phase=phase)
    go_on(drill, room, asked.exists, f"asked in {phase}")
    work()
    starting.answer(drill=drill, code=asked.get().code, did=True, user=User.objects.get(), now=timezone.now())


def finish(drill: Drill, room: Room) -> dict[str, tuple[str, str]]:
    go_on(drill, room, lambda: drill.state == State.FINISHED, "the drill finished")
    selector = f"{DRILL_LABEL}={drill.key}"
    for resource in (PODS, RESOURCE_CLAIMS):
        assert room.client.list_all(resource, namespace=room.namespace, label_selector=selector) == []
    return {step.code: (step.verdict, step.why) for step in drill.steps.all()}


def test_a_whole_drill_is_proven_with_its_operator(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("claims.drill.workloads", "claims.drill.operating"):
        monkeypatch.setattr(f"{module}.QUIET", timedelta(seconds=1))
    monkeypatch.setattr("claims.drill.workloads.FAILS_AFTER", 1)
    assert timedelta(seconds=1) < scene.QUIET
    room.machine("gpu-0", "gpu-1")
    node = room.name("a")
    drill = begin(room, [step.code for step in STEPS], seconds=60)

    def restart() -> None:
        [piece] = [s for s in room.client.list_all(RESOURCE_SLICES) if s["spec"]["driver"] == room.driver]
        piece["spec"]["pool"]["generation"] += 1
        room.client.replace(RESOURCE_SLICES, piece["metadata"]["name"], piece)

    def drain() -> None:
        room.client.patch(NODES, node, {"spec": {"unschedulable": True}})
        for pod in room.client.list_all(PODS, namespace=room.namespace):
            room.client.delete(PODS, pod["metadata"]["name"], namespace=room.namespace)

    operator(drill, room, "restart", restart)
    operator(drill, room, "drain", drain)
    operator(drill, room, "return", lambda: uncordon(room, node))
    operator(drill, room, "backup", lambda: None)
    operator(drill, room, "restore", lambda: room.delete_pod(f"drill-{str(drill.key)[:8]}-b2"))
    assert finish(drill, room) == {step.code: ("proven", "") for step in STEPS}
    told = {entry["code"] for step in drill.steps.all() for entry in step.observed}
    assert {"slices-changed", "node-cordoned", "unschedulable", "node-back", "consistent", "released"} <= told


def uncordon(room: Room, node: str) -> None:
    room.client.patch(NODES, node, {"spec": {"unschedulable": None}})


def test_where_nobody_runs_pods_what_needs_it_ends_not_proven_and_is_taken_away(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("claims.drill.workloads.QUIET", timedelta(seconds=1))
    monkeypatch.setattr(running, "FORCE_AFTER", timedelta(seconds=1))
    room.machine("gpu-0")
    room.kubelet.forget(room.name("a"))
    drill = begin(room, ["claim-created", "devices-chosen", "several-pods"], seconds=5)
    found = finish(drill, room)
    assert found["claim-created"] == found["devices-chosen"] == ("proven", "")
    assert found["several-pods"] == ("not-proven", "pod-never-started")


def test_a_drill_whose_worker_was_killed_is_gone_on_with_and_leaves_nothing(room: Room) -> None:
    """What a dead worker made but did not write down has its name, and is found again."""
    room.machine("gpu-0")
    drill = begin(room, ["devices-chosen"], seconds=60)
    made = f"drill-{str(drill.key)[:8]}-d"
    body = objects.claim(made, [objects.request(room.name("any"))])
    body["metadata"]["labels"] = {DRILL_LABEL: str(drill.key)}
    room.create(RESOURCE_CLAIMS, body)
    assert finish(drill, room) == {"devices-chosen": ("proven", "")}
    with pytest.raises(NotFound):
        room.get_claim(made)
