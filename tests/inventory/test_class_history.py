"""The history of classes: what the desk wrote, what it saw, and what nobody has agreed to."""

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from inventory import class_effect, class_history, classes, clusters
from inventory.class_history import Source
from inventory.models import ClassVersion, Cluster, DeviceClass
from portal.accounts.models import AuditEntry, User
from tests.inventory.conftest import Mirror
from tests.inventory.objects import changed, device_class, gpu, resource_slice

NAME = "big.example"
AMD, NVIDIA = 'device.driver == "gpu.amd.com"', 'device.driver == "gpu.nvidia.com"'


@pytest.fixture
def ada(db: None) -> User:
    return User.objects.create(username="ada", is_administrator=True)


def noted() -> list[tuple[str, bool]]:
    return list(ClassVersion.objects.order_by("pk").values_list("source", "deleted"))


def rules(expression: str) -> dict[str, Any]:
    return {"selectors": [{"cel": {"expression": expression}}]}


def other(obj: dict[str, Any], expression: str) -> dict[str, Any]:
    return changed(obj, spec=rules(expression))


def test_what_is_found_first_is_agreed_and_what_follows_is_drift(mirror: Mirror) -> None:
    obj = device_class(NAME, NVIDIA)
    mirror.see(obj)
    cluster = Cluster.objects.get()
    assert noted() == [("first", False)]
    assert class_history.drift_of(cluster, NAME) is None
    mirror.see(other(obj, AMD))
    drift = class_history.drift_of(cluster, NAME)
    assert drift is not None
    told = [(line.kind, line.text.strip()) for line in drift.diff if line.kind]
    assert [kind for kind, _ in told] == ["removed", "added"]
    assert NVIDIA in told[0][1]
    assert AMD in told[1][1]


def test_labels_and_annotations_are_versioned_and_drift_too(mirror: Mirror) -> None:
    obj = device_class(NAME, NVIDIA)
    mirror.see(obj)
    cluster = Cluster.objects.get()
    mirror.see(changed(obj, metadata={"labels": {"a": "b"}}))
    assert noted() == [("first", False), ("seen", False)]
    drift = class_history.drift_of(cluster, NAME)
    assert drift is not None
    assert [(line.kind, line.text.strip()) for line in drift.diff if line.kind] == [
        ("added", "labels:"),
        ("added", "a: b"),
    ]
    mirror.see(changed(obj, metadata={"annotations": {"c": "d"}}))
    newest = ClassVersion.objects.latest("pk")
    assert (newest.labels, newest.annotations) == ({}, {"c": "d"})
    # What a tool keeps for itself is no change of the class.
    kept = {"c": "d", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    mirror.see(changed(obj, metadata={"annotations": kept}))
    assert len(noted()) == 3


def test_a_version_from_before_labels_were_kept_is_no_drift(mirror: Mirror) -> None:
    obj = changed(device_class(NAME, NVIDIA), metadata={"labels": {"a": "b"}})
    mirror.see(obj)
    ClassVersion.objects.update(labels=None, annotations=None)
    mirror.see(changed(obj, metadata={"labels": {"a": "c"}}))
    assert class_history.drift_of(Cluster.objects.get(), NAME) is None


def test_a_change_taken_back_is_no_drift(mirror: Mirror) -> None:
    obj = device_class(NAME, NVIDIA)
    mirror.see(obj)
    mirror.see(other(obj, AMD))
    mirror.see(other(obj, NVIDIA))
    assert len(noted()) == 3
    assert class_history.drift_of(Cluster.objects.get(), NAME) is None


def test_a_class_deleted_without_the_desk_has_drifted(mirror: Mirror) -> None:
    obj = device_class(NAME, NVIDIA)
    mirror.see(obj)
    mirror.see(obj, deleted=True)
    assert noted() == [("first", False), ("seen", True)]
    assert class_history.drift_of(Cluster.objects.get(), NAME) is not None


@pytest.mark.parametrize("mirror_first", [True, False])
def test_what_the_desk_wrote_is_one_version_whoever_notes_it_first(
    mirror: Mirror, ada: User, *, mirror_first: bool
) -> None:
    obj = device_class(NAME, NVIDIA)
    mirror.see(obj)
    after = other(obj, AMD)
    steps: list[Callable[[], Any]] = [
        lambda: mirror.see(after),
        lambda: class_history.note_written(
            cluster=Cluster.objects.get(), before=obj, after=after, actor=ada, now=timezone.now(), reason="so"
        ),
    ]
    for step in steps if mirror_first else reversed(steps):
        step()
    assert noted() == [("first", False), ("desk", False)]
    newest = ClassVersion.objects.latest("pk")
    assert (newest.actor, newest.reason, newest.spec) == (ada, "so", rules(AMD))
    assert class_history.drift_of(Cluster.objects.get(), NAME) is None


def test_a_deletion_by_the_desk_is_one_version_too(mirror: Mirror, ada: User) -> None:
    obj = device_class(NAME, NVIDIA)
    mirror.see(obj)
    class_history.note_written(
        cluster=Cluster.objects.get(), before=obj, after=None, actor=ada, now=timezone.now(), reason=""
    )
    mirror.see(obj, deleted=True)
    assert noted() == [("first", False), ("desk", True)]


def test_adopting_agrees_with_what_was_looked_at_only(mirror: Mirror, ada: User) -> None:
    obj = device_class(NAME, NVIDIA)
    mirror.see(obj)
    mirror.see(other(obj, AMD))
    cluster = Cluster.objects.get()
    looked_at = ClassVersion.objects.latest("pk").pk
    mirror.see(other(obj, "true"))
    wanted: dict[str, Any] = {"cluster": cluster, "name": NAME, "actor": ada, "now": timezone.now()}
    with pytest.raises(class_history.UnableToAdopt, match="changed again"):
        class_history.adopt(**wanted, version=looked_at)
    class_history.adopt(**wanted, version=ClassVersion.objects.latest("pk").pk, reason="the driver's new way")
    assert class_history.drift_of(cluster, NAME) is None
    assert ClassVersion.objects.latest("pk").source == Source.ADOPTED
    assert AuditEntry.objects.get().action == "device_class.adopt"
    with pytest.raises(class_history.UnableToAdopt, match="nothing to adopt"):
        class_history.adopt(**wanted, version=looked_at)


def test_the_effect_counts_devices_gained_and_lost(mirror: Mirror) -> None:
    mirror.see(resource_slice("n1", [gpu(0), gpu(1)]))
    cluster = Cluster.objects.get()
    found = class_effect.effect_of(cluster=cluster, name=NAME, before=rules(NVIDIA), after=rules(AMD))
    assert (found.before, found.after, found.gained.count) == (2, 0, 0)
    assert [kind.count for kind in found.lost.kinds] == [2]
    back = class_effect.effect_of(cluster=cluster, name=NAME, before=None, after=rules(NVIDIA))
    assert (back.before, back.after, back.lost.count) == (0, 2, 0)
    broken = class_effect.effect_of(cluster=cluster, name=NAME, before=None, after=rules("device."))
    assert broken.after == 0
    assert broken.problem


@pytest.mark.django_db
def test_on_a_cluster_every_write_leaves_its_version(embedded_cluster: Any, ada: User) -> None:
    cluster = clusters.add(
        name="demo", kubeconfig_path=str(embedded_cluster.kubeconfig), context="admin", now=timezone.now()
    )
    wanted: dict[str, Any] = {"cluster": cluster, "name": NAME, "actor": ada, "now": timezone.now()}
    classes.create_class(**wanted, wanted=classes.Wanted([NVIDIA]), reason="a")
    classes.update_class(**wanted, wanted=classes.Wanted([AMD]), reason="b")
    classes.update_class(**wanted, wanted=classes.Wanted(["true"]), rehearse_only=True, reason="not this")
    classes.delete_class(**wanted, reason="c")
    versions = ClassVersion.objects.order_by("pk")
    assert [(v.source, v.deleted, v.reason) for v in versions] == [
        ("desk", False, "a"),
        ("desk", False, "b"),
        ("desk", True, "c"),
    ]
    assert classes.Wanted.of_spec(versions[0].spec).spec() == rules(NVIDIA)


def test_who_set_the_rules_of_a_class_is_mirrored_first(mirror: Mirror) -> None:
    managed = [
        {"manager": "labeller", "fieldsV1": {"f:metadata": {}}},
        {"manager": "helm", "fieldsV1": {"f:metadata": {}, "f:spec": {"f:selectors": {}}}},
    ]
    mirror.see(changed(device_class(NAME, NVIDIA), metadata={"managedFields": managed}))
    assert DeviceClass.objects.get().managers == ["helm", "labeller"]
    mirror.see(changed(device_class(NAME, NVIDIA), metadata={"managedFields": "odd"}))
    assert DeviceClass.objects.get().managers == []
