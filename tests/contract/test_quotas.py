"""The desk's own ResourceQuotas: a cluster takes and enforces them, and tells when somebody changed one."""

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from claims.catalogue.stock import wish_of
from claims.models import Flavor, Placement, Quota, QuotaObject, Request
from claims.quotas import cluster as quotas_cluster
from claims.quotas import writing as quotas_writing
from claims.quotas.cluster import name_of, name_of_entitlements
from claims.requests import pursuit
from claims.requests.manifests import claim_spec
from inventory.models import Cluster, NamespaceBinding
from portal.accounts.models import Project, User
from portal.kube.errors import Forbidden
from portal.kube.resources import PODS, RESOURCE_CLAIMS, RESOURCE_QUOTAS
from tests.contract import objects
from tests.contract.room import Room

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 10, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
State = QuotaObject.State


class Desk:
    """A project in the room's namespace, and the workers that write for it."""

    def __init__(self, room: Room, **placement: str) -> None:
        self.room = room
        self.now = NOW
        self.project = Project.objects.create(slug="tides", name="Tides", created_at=NOW)
        self.cluster = Cluster.objects.create(name="contract", credentials="kubeconfig", created_at=NOW)
        self.person = User.objects.create(username="mina")
        NamespaceBinding.objects.create(
            cluster=self.cluster, namespace=room.namespace, project=self.project, valid_from=NOW - HOUR
        )
        self.flavor = Flavor.objects.create(
            slug="unit", name="Unit", min_duration=HOUR, default_duration=HOUR, max_duration=9 * HOUR,
            created_at=NOW, changed_at=NOW,
        )  # fmt: skip
        self.placement = Placement.objects.create(flavor=self.flavor, cluster=self.cluster, **placement)

    def quota(self, limit: str) -> Quota:
        return Quota.objects.create(
            project=self.project, flavor=self.flavor, kind="devices", limit=limit, action="block",
            enforced=True, valid_from=NOW, created_at=NOW, changed_at=NOW, note="tides, 潮汐",
        )  # fmt: skip

    def request(self, **columns: Any) -> Request:
        return Request.objects.create(
            project=self.project, requester=self.person, cluster=self.cluster, flavor=self.flavor,
            namespace=self.room.namespace, duration=HOUR, purpose="tides", state=Request.State.CREATING,
            object_name=f"tides-{Request.objects.count()}", created_at=NOW, changed_at=NOW, due_at=NOW,
            **columns,
        )  # fmt: skip

    def work(self) -> QuotaObject | None:
        self.now += timedelta(minutes=5)
        quotas_cluster.plan(now=self.now)
        for pk in quotas_writing.due(self.now):
            quotas_writing.write(object_id=pk, now=self.now, connect=lambda _c: nullcontext(self.room.client))
        return QuotaObject.objects.first()

    def work_until_hard(self, name: str, hard_: dict[str, str]) -> None:
        """The quota's controller may write in between: the next round of the worker writes it then."""

        def is_written() -> bool:
            if hard(self.room, name) != hard_:
                self.work()
            return hard(self.room, name) == hard_

        self.room.wait_for(is_written, f"{hard_} in the quota")

    def pursue(self, request: Request) -> None:
        pursuit.pursue(
            request_id=request.pk, now=self.now, hold_image="registry.k8s.io/pause:3.10",
            connect=lambda _c: nullcontext(self.room.client),
        )  # fmt: skip
        request.refresh_from_db()


def hard(room: Room, name: str, part: str = "spec") -> dict[str, str]:
    found = room.find(RESOURCE_QUOTAS, name)
    return dict(((found or {}).get(part) or {}).get("hard") or {})


def test_a_quota_of_the_desk_is_enforced_by_the_cluster_and_a_claim_beyond_it_fails_with_its_words(
    room: Room,
) -> None:
    device_class = room.device_class()
    key = f"{device_class}.deviceclass.resource.k8s.io/devices"
    desk = Desk(room, device_class=device_class)
    quota = desk.quota("1000")
    name = name_of(quota)
    row = desk.work()
    assert row is not None
    assert (row.state, hard(room, name)) == (State.WRITTEN, {key: "1k"})
    Quota.objects.update(limit="1")
    desk.work_until_hard(name, {key: "1"})
    room.wait_for(lambda: hard(room, name, "status") == {key: "1"}, "the quota's status")
    room.wait_for(lambda: room.is_admitted(device_class), "admission knows the quota's status too")
    made = [
        desk.request(
            device_class=device_class, count=1, shape="claim", spec=claim_spec(wish_of(desk.placement))
        )
        for _number in range(2)
    ]
    desk.pursue(made[0])
    assert made[0].state == Request.State.WAITING_FOR_POD
    room.wait_for(
        lambda: (
            room.client.get(RESOURCE_QUOTAS, name, namespace=room.namespace)["status"]["used"] == {key: "1"}
        ),
        "one device counted",
    )
    desk.pursue(made[1])
    assert (made[1].state, made[1].reason) == (Request.State.FAILED, Request.Reason.REFUSED)
    assert f"exceeded quota: {name}" in made[1].message
    assert room.find(RESOURCE_CLAIMS, made[1].object_name) is None
    room.client.delete(RESOURCE_CLAIMS, made[0].object_name, namespace=room.namespace)

    # Somebody else changes it: told, and written again only when asked for.
    there = room.client.get(RESOURCE_QUOTAS, name, namespace=room.namespace)
    there["spec"]["hard"] = {key: "7"}
    room.client.replace(RESOURCE_QUOTAS, name, there, namespace=room.namespace)
    QuotaObject.objects.update(due_at=desk.now)
    row = desk.work()
    assert row is not None
    assert (row.state, row.message) == (State.DRIFT, f"{key}: 7")
    quotas_writing.restore(row=row, now=desk.now)
    desk.work_until_hard(name, {key: "1"})

    Quota.objects.update(valid_until=desk.now)
    room.wait_for(lambda: desk.work() is None, "the quota taken away")
    assert room.find(RESOURCE_QUOTAS, name) is None


def test_pods_get_no_more_units_than_the_namespace_is_entitled_to(room: Room) -> None:
    resource = f"{room.driver}/unit"
    desk = Desk(room, extended_resource=resource)
    columns = {"backend": "device-plugin", "shape": "entitlement", "extended_resource": resource}
    name = name_of_entitlements(resource)
    for count, together in ((1, "1"), (2, "3")):
        request = desk.request(count=count, **columns)
        desk.pursue(request)
        assert request.state == Request.State.WAITING_FOR_POD
        desk.work_until_hard(name, {f"requests.{resource}": together})
    room.wait_for(lambda: hard(room, name, "status") == {f"requests.{resource}": "3"}, "the quota's status")

    def pod(suffix: str, units: int) -> objects.Object:
        body = objects.pod(room.name(suffix), node_selector={})
        limits = {resource: str(units)}
        body["spec"]["containers"][0]["resources"] = {"limits": limits, "requests": limits}
        return body

    def too_many() -> str:
        try:
            room.client.create(PODS, pod("four", 4), namespace=room.namespace, dry_run=True)
        except Forbidden as refused:
            return refused.message
        return ""

    assert f"exceeded quota: {name}" in room.wait_for(too_many, "admission knows the quota's status too")
    room.client.create(PODS, pod("three", 3), namespace=room.namespace, dry_run=True)
    Request.objects.update(state=Request.State.ENDED)
    desk.work()
    assert room.find(RESOURCE_QUOTAS, name) is None
