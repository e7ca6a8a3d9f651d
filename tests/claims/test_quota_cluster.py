"""ResourceQuotas of the desk: what is wanted where, and writing it until the cluster has it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from claims import tasks
from claims.models import Flavor, Placement, Quota, QuotaObject, Request, RequestPod
from claims.quotas import cluster as quotas_cluster
from claims.quotas import writing as quotas_writing
from claims.quotas.cluster import QUOTA_LABEL, Keys, keys_of, name_of, name_of_entitlements
from claims.requests import pursuit
from claims.requests.manifests import MANAGED_BY, PROJECT_LABEL
from claims.requests.rehearsal import rehearse
from inventory.models import Cluster, DeviceClass, NamespaceBinding, Pod, ResourceQuota, Stream
from portal.accounts.models import Project
from portal.kube import errors
from tests.claims import catalogue, quotas
from tests.claims.conftest import IMAGE, NOW, Cast
from tests.claims.fakes import FakeCluster

State = QuotaObject.State
DEVICES = "h100.deviceclass.resource.k8s.io/devices"
UNITS = "requests.nvidia.com/gpu"
MINUTE = timedelta(minutes=1)


@pytest.fixture
def flavor(cluster: Cluster) -> Flavor:
    made = catalogue.flavor("h100")
    catalogue.placement(made, cluster, extended_resource="nvidia.com/gpu")
    return made


@pytest.fixture
def quota(cast: Cast, project: Project, flavor: Flavor) -> Quota:
    return quotas.quota(project, "1000", flavor=flavor, enforced=True, note="As agreed")


def work(fake: FakeCluster, minutes: int = 0) -> None:
    """What the workers do from time to time."""
    now = NOW + minutes * MINUTE
    quotas_cluster.plan(now=now)
    for pk in quotas_writing.due(now):
        quotas_writing.write(object_id=pk, now=now, connect=lambda _cluster: fake)


def there(fake: FakeCluster) -> dict[str, dict[str, str]]:
    """Limits of the ResourceQuotas on the cluster, by name."""
    return {
        f"{namespace}/{name}": body["spec"]["hard"]
        for (plural, namespace, name), body in fake.objects.items()
        if plural == "resourcequotas"
    }


def row() -> QuotaObject:
    return QuotaObject.objects.get()


# --- quotas -----------------------------------------------------------------------------------------


def test_a_quota_is_written_into_each_namespace_of_its_project_with_kubernetes_own_keys(
    quota: Quota, project: Project, cluster: Cluster, fake: FakeCluster
) -> None:
    NamespaceBinding.objects.create(cluster=cluster, namespace="folding-2", project=project, valid_from=NOW)
    work(fake)
    name = name_of(quota)
    # As the API server writes a thousand.
    hard = {DEVICES: "1k", UNITS: "1k"}
    assert there(fake) == {f"protein-folding/{name}": hard, f"folding-2/{name}": hard}
    body = fake.objects["resourcequotas", "folding-2", name]
    assert body["metadata"]["labels"] == {
        MANAGED_BY: "claimdesk", QUOTA_LABEL: str(quota.key), PROJECT_LABEL: "protein-folding",
    }  # fmt: skip
    assert body["metadata"]["annotations"] == {"claimdesk.io/note": "As agreed"}
    assert {one.state for one in QuotaObject.objects.all()} == {State.WRITTEN}


def test_done_once_nothing_is_done_again(quota: Quota, fake: FakeCluster) -> None:
    work(fake)
    calls = len(fake.calls)
    work(fake, minutes=1)
    assert len(fake.calls) == calls


def test_another_limit_is_written_over_and_the_end_removes_it(quota: Quota, fake: FakeCluster) -> None:
    work(fake)
    Quota.objects.update(limit="3")
    work(fake, minutes=1)
    assert list(there(fake).values()) == [{DEVICES: "3", UNITS: "3"}]
    Quota.objects.update(valid_until=NOW + 2 * MINUTE)
    work(fake, minutes=2)
    assert there(fake) == {}
    assert not QuotaObject.objects.exists()


def test_a_class_that_serves_another_flavor_too_cannot_be_limited_for_one(
    quota: Quota, cluster: Cluster, fake: FakeCluster
) -> None:
    other = catalogue.flavor("h100-small")
    catalogue.placement(other, cluster, device_class="h100", pool="small")
    wanted, not_possible = quotas_cluster.wanted_of(quota, now=NOW)
    assert [one.hard for one in wanted] == [{UNITS: "1k"}]
    assert not_possible == ["main cannot limit it: “h100” also serves H100-SMALL."]


def test_of_everything_each_class_and_resource_has_the_limit(
    cast: Cast, project: Project, cluster: Cluster
) -> None:
    catalogue.units(cluster)
    quota = quotas.quota(project, "8", enforced=True)
    (wanted,), not_possible = quotas_cluster.wanted_of(quota, now=NOW)
    names = ("a100", "gpu", "h100", "none")
    classes = {f"{name}.deviceclass.resource.k8s.io/devices": "8" for name in names}
    assert (dict(wanted.hard), not_possible) == ({**classes, UNITS: "8"}, [])


def test_an_object_of_that_name_that_is_not_the_desks_is_left_alone(quota: Quota, fake: FakeCluster) -> None:
    key = ("resourcequotas", "protein-folding", name_of(quota))
    fake.objects[key] = {"metadata": {"name": key[2], "uid": "theirs"}, "spec": {"hard": {"pods": "1"}}}
    work(fake)
    assert row().state == State.NAME_TAKEN
    assert there(fake) == {f"{key[1]}/{key[2]}": {"pods": "1"}}
    # Nor is it removed when the quota ends; when it is gone, the desk's comes.
    del fake.objects[key]
    work(fake, minutes=11)
    assert row().state == State.WRITTEN


def test_what_the_cluster_does_not_answer_is_tried_again_and_what_it_refuses_later(
    quota: Quota, fake: FakeCluster
) -> None:
    fake.fail["create"] = errors.Unreachable("no answer")
    work(fake)
    assert (row().state, row().message, row().attempts) == (State.DUE, "no answer", 1)
    assert row().due_at == NOW + timedelta(seconds=5)
    fake.fail["create"] = errors.Forbidden("may not create resourcequotas", status=403)
    work(fake, minutes=1)
    assert (row().state, row().due_at) == (State.REFUSED, NOW + 11 * MINUTE)
    fake.fail.clear()
    work(fake, minutes=12)
    assert (row().state, row().message, row().due_at) == (State.WRITTEN, "", None)


# --- drift ------------------------------------------------------------------------------------------


@pytest.fixture
def written(quota: Quota, cluster: Cluster, fake: FakeCluster) -> QuotaObject:
    work(fake)
    Stream.objects.create(
        cluster=cluster, resource="resourcequotas", state=Stream.State.WATCHING, listed_at=NOW, heard_at=NOW
    )
    return row()


def mirrored(written: QuotaObject, **hard: str) -> None:
    ResourceQuota.objects.update_or_create(
        cluster=written.cluster, namespace=written.namespace, name=written.name,
        defaults={"uid": "u", "resource_version": "2", "hard": hard or written.wanted, "counted": True},
    )  # fmt: skip


def test_somebody_elses_change_is_shown_and_not_changed_back(
    written: QuotaObject, cluster: Cluster, fake: FakeCluster
) -> None:
    key = ("resourcequotas", written.namespace, written.name)
    mirrored(written)
    assert quotas_writing.look(cluster=cluster, now=NOW + 5 * MINUTE) == []
    fake.objects[key]["spec"]["hard"] = {DEVICES: "9"}
    mirrored(written, **{DEVICES: "9"})
    assert quotas_writing.look(cluster=cluster, now=NOW + 5 * MINUTE) == [written.pk]
    work(fake, minutes=5)
    assert (row().state, row().message) == (State.DRIFT, f"{DEVICES}: 9")
    assert quotas_writing.look(cluster=cluster, now=NOW + 6 * MINUTE) == []
    work(fake, minutes=6)
    assert fake.objects[key]["spec"]["hard"] == {DEVICES: "9"}
    quotas_writing.restore(row=row(), now=NOW + 7 * MINUTE)
    work(fake, minutes=7)
    assert fake.objects[key]["spec"]["hard"] == written.wanted
    assert row().state == State.WRITTEN


def test_a_mirror_that_is_merely_behind_is_no_drift(
    written: QuotaObject, cluster: Cluster, fake: FakeCluster
) -> None:
    mirrored(written, **{DEVICES: "2"})
    quotas_writing.look(cluster=cluster, now=NOW + 5 * MINUTE)
    work(fake, minutes=5)
    assert row().state == State.WRITTEN


def test_a_deletion_by_others_is_shown_and_what_comes_back_is_in_order_again(
    written: QuotaObject, cluster: Cluster, fake: FakeCluster
) -> None:
    body = fake.objects.pop(("resourcequotas", written.namespace, written.name))
    quotas_writing.look(cluster=cluster, now=NOW + 5 * MINUTE)
    work(fake, minutes=5)
    assert (row().state, row().message) == (State.DRIFT, "It was deleted on the cluster.")
    fake.objects["resourcequotas", written.namespace, written.name] = body
    mirrored(written)
    assert quotas_writing.look(cluster=cluster, now=NOW + 6 * MINUTE) == [written.pk]
    work(fake, minutes=6)
    assert row().state == State.WRITTEN


# --- entitlements -----------------------------------------------------------------------------------


@pytest.fixture
def plugin(cluster: Cluster) -> Flavor:
    made = catalogue.flavor("plugin")
    catalogue.placement(made, cluster, device_class="", extended_resource="nvidia.com/gpu")
    catalogue.units(cluster)
    return made


def entitlement(project: Project, plugin: Flavor, cluster: Cluster, count: int, **columns: Any) -> Request:
    values: dict[str, Any] = {
        "shape": "entitlement", "backend": "device-plugin", "device_class": "",
        "extended_resource": "nvidia.com/gpu",
    }  # fmt: skip
    return quotas.asked(project, cluster, count=count, flavor=plugin, **values | columns)


def test_before_pods_may_ask_the_namespace_admits_what_is_entitled_together(
    cast: Cast, project: Project, cluster: Cluster, plugin: Flavor, fake: FakeCluster
) -> None:
    name = f"protein-folding/{name_of_entitlements('nvidia.com/gpu')}"
    for count, together in ((2, "2"), (3, "5")):
        request = entitlement(project, plugin, cluster, count, state=Request.State.CREATING, due_at=NOW)
        pursuit.pursue(request_id=request.pk, now=NOW, hold_image=IMAGE, connect=lambda _cluster: fake)
        request.refresh_from_db()
        assert request.state == Request.State.WAITING_FOR_POD
        assert there(fake) == {name: {UNITS: together}}
    body = fake.objects["resourcequotas", "protein-folding", name_of_entitlements("nvidia.com/gpu")]
    assert body["metadata"]["labels"][QUOTA_LABEL] == "entitlement"


def test_what_is_ending_counts_while_its_pods_run_and_with_the_last_the_object_goes(
    cast: Cast, project: Project, cluster: Cluster, plugin: Flavor, fake: FakeCluster
) -> None:
    ending = entitlement(project, plugin, cluster, 4, state=Request.State.ENDING)
    entitlement(project, plugin, cluster, 1)
    pod = Pod.objects.create(
        cluster=cluster, namespace="protein-folding", name="p", uid="p", resource_version="1",
        phase="Running", node_name="n", extended_resources={"nvidia.com/gpu": 2},
    )  # fmt: skip
    RequestPod.objects.create(cluster=cluster, pod_uid="p", pod_name="p", request=ending, seen_at=NOW)
    work(fake)
    assert list(there(fake).values()) == [{UNITS: "3"}]
    Pod.objects.filter(pk=pod.pk).update(phase="Succeeded")
    work(fake, minutes=1)
    assert list(there(fake).values()) == [{UNITS: "1"}]
    Request.objects.update(state=Request.State.ENDED)
    work(fake, minutes=2)
    assert there(fake) == {}


def test_a_cluster_that_refuses_the_object_does_not_keep_the_entitlement_from_being(
    cast: Cast, project: Project, cluster: Cluster, plugin: Flavor, fake: FakeCluster
) -> None:
    fake.fail["create resourcequotas"] = errors.Forbidden("may not", status=403)
    request = entitlement(project, plugin, cluster, 2, state=Request.State.CREATING, due_at=NOW)
    pursuit.pursue(request_id=request.pk, now=NOW, hold_image=IMAGE, connect=lambda _cluster: fake)
    request.refresh_from_db()
    assert (request.state, row().state, row().message) == (
        Request.State.WAITING_FOR_POD, State.REFUSED, "may not",
    )  # fmt: skip


def test_units_that_claims_of_a_class_count_as_are_not_limited(
    cast: Cast, project: Project, cluster: Cluster, plugin: Flavor, fake: FakeCluster
) -> None:
    """KEP-5004: else an entitlement to units would refuse every further claim of that class."""
    entitlement(project, plugin, cluster, 2)
    work(fake)
    assert list(there(fake).values()) == [{UNITS: "2"}]
    served = DeviceClass.objects.create(
        cluster=cluster,
        name="gpu.nvidia.com",
        uid="c1",
        resource_version="1",
        spec={},
        extended_resource_name="nvidia.com/gpu",
    )
    work(fake, minutes=1)
    assert there(fake) == {}
    DeviceClass.objects.filter(pk=served.pk).update(extended_resource_name="nvidia.com/mig")
    work(fake, minutes=2)
    assert list(there(fake).values()) == [{UNITS: "2"}]


def test_a_quota_limits_no_units_that_claims_of_others_count_as(quota: Quota, cluster: Cluster) -> None:
    def keys(*serving: str) -> Keys:
        DeviceClass.objects.update(extended_resource_name="")
        DeviceClass.objects.filter(name__in=serving).update(extended_resource_name="nvidia.com/gpu")
        return keys_of(quota, cluster, placements=list(Placement.objects.all()))

    assert set(keys().hard) == {DEVICES, UNITS}
    # Of its own class they are what the quota is about.
    assert (set(keys("h100").hard), keys("h100").not_possible) == ({DEVICES, UNITS}, [])
    assert set(keys("h100", "a100").hard) == {DEVICES}
    (said,) = keys("h100", "a100").not_possible
    assert "claims of a100 count as “nvidia.com/gpu” too" in said


def test_the_desks_own_quota_is_no_objection_to_one_more_entitlement(
    cast: Cast, project: Project, cluster: Cluster, plugin: Flavor, fake: FakeCluster
) -> None:
    request = entitlement(project, plugin, cluster, 2)
    name = name_of_entitlements("nvidia.com/gpu")
    fake.fail["create pods"] = errors.Forbidden(f"exceeded quota: {name}, requested: 2, used: 4", status=403)
    rehearse(request, connect=lambda _cluster: fake)
    fake.fail["create pods"] = errors.Forbidden("exceeded quota: ours, requested: 2, used: 4", status=403)
    with pytest.raises(Exception, match="exceeded quota: ours"):
        rehearse(request, connect=lambda _cluster: fake)


# --- the workers ------------------------------------------------------------------------------------


def test_workers_write_what_is_due_unless_the_desk_only_looks(
    quota: Quota, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    long_ago = datetime(2001, 1, 1, tzinfo=UTC)
    Quota.objects.update(valid_from=long_ago)
    NamespaceBinding.objects.update(valid_from=long_ago)
    queued: list[dict[str, int]] = []
    monkeypatch.setattr(tasks.write_quota, "apply_async", lambda **call: queued.append(call["kwargs"]))
    settings.READ_ONLY = True
    tasks.keep_quotas()
    assert (queued, row().state) == ([], State.DUE)
    settings.READ_ONLY = False
    tasks.keep_quotas()
    assert queued == [{"object_id": row().pk}]


def test_an_observation_releases_at_once(
    cast: Cast, project: Project, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks.pursue, "apply_async", lambda **_call: None)
    long_ago = datetime(2001, 1, 1, tzinfo=UTC)
    quotas.quota(project, "0", action=Quota.Action.RELEASE, valid_from=long_ago)
    request = quotas.asked(project, cluster, state=Request.State.WAITING_FOR_APPROVAL)
    tasks.catch_up(cluster_id=cluster.pk)
    request.refresh_from_db()
    assert (request.state, request.end_reason) == (Request.State.CANCELLED, Request.Reason.OVER_QUOTA)
