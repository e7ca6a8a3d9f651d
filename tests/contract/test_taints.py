"""DeviceTaintRules as the desk writes them: rehearsed, versioned, simulated and carried out by the cluster.

A cluster that serves no rules is no failure and no reason to skip: then the desk has to say so.
"""

from contextlib import nullcontext
from typing import Any

import pytest
from django.utils import timezone

from inventory import clusters
from inventory.coverage import coverage_of
from inventory.mirror.writer import Writer
from inventory.models import Cluster, DeskRule, Stream
from inventory.taints import rules
from inventory.taints.blast import Blast, blast_of
from inventory.taints.rules import LABELS, Deed, GoneElsewhere, UnableToTaint, WantedRule
from inventory.taints.selecting import Selector, Taint
from portal.accounts.models import User
from portal.dra.features import Features
from portal.kube.resources import DEVICE_TAINT_RULES, RESOURCE_SLICES, Resource
from tests.contract import objects
from tests.contract.objects import Object
from tests.contract.room import Room
from tests.inventory.conftest import Mirror

pytestmark = pytest.mark.django_db
KEY = "contract.example.com/recall"


class Desk:
    """The desk with an eye on one room: a mirror of its objects, and rules on its driver alone."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.cluster = Cluster.objects.create(
            name="contract", credentials="kubeconfig", created_at=timezone.now(), lease_holder="me",
            server_version=str(room.client.version()["gitVersion"]),
        )  # fmt: skip
        person = User.objects.create(username="anouk", is_administrator=True)
        self.deed = Deed(actor=person, now=timezone.now())
        self.name = room.name("recall")

    def wanted(self, effect: str) -> WantedRule:
        taint = Taint(KEY, "yes", effect)
        return WantedRule(name=self.name, selector=Selector(self.room.driver), taint=taint, reason="recall")

    def resource(self) -> Resource | None:
        """Rules as the cluster serves them."""
        for found in self.room.client.served(DEVICE_TAINT_RULES.group).values():
            if DEVICE_TAINT_RULES.plural in found:
                return found[DEVICE_TAINT_RULES.plural]
        return None

    def make(self, effect: str) -> Resource | None:
        """The rule; where none are served, the desk says so and there is no more to be seen."""
        resource = self.resource()
        if resource is None:
            with pytest.raises(UnableToTaint, match="does not serve"):
                rules.create_rule(cluster=self.cluster, wanted=self.wanted(effect), deed=self.deed)
            return None
        rules.create_rule(
            cluster=self.cluster, wanted=self.wanted(effect), deed=self.deed, rehearse_only=True
        )
        assert self.room.find(resource, self.name) is None
        rules.create_rule(cluster=self.cluster, wanted=self.wanted(effect), deed=self.deed)
        # Removed with the room, whatever the test comes to.
        self.room._made.append((resource, "", self.name))
        return resource

    def foresee(self, *claims: str, pods: tuple[str, ...] = ()) -> Blast:
        """What the desk expects of NoExecute, from a mirror of these objects and the room's slices."""
        writer = Writer(cluster_id=self.cluster.pk, holder="me", features=Features.for_version("1.36"))
        Stream.objects.bulk_create(Stream(cluster=self.cluster, resource=name) for name in writer.resources)
        mirror = Mirror(self.cluster, writer)
        slices = [one for one in self.room.client.list_all(RESOURCE_SLICES) if self._is_ours(one)]
        mirror.lists(*slices, kind="ResourceSlice")
        mirror.lists(*(self.room.get_claim(name) for name in claims), kind="ResourceClaim")
        mirror.lists(*(self.room.get_pod(name) for name in pods), kind="Pod")
        wanted, now = self.wanted("NoExecute"), timezone.now()
        self.cluster.refresh_from_db()
        coverage = coverage_of(self.cluster, (), now=now)
        return blast_of(
            cluster=self.cluster, selectors=[wanted.selector], taint=wanted.taint, coverage=coverage, now=now
        )

    def _is_ours(self, found: Object) -> bool:
        return bool(found["spec"]["driver"] == self.room.driver)


@pytest.fixture
def desk(room: Room, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr(clusters, "client_for", lambda _cluster: nullcontext(room.client))
    return Desk(room)


def tolerating(name: str, device_class: str, **toleration: Any) -> Object:
    """A request for one device that tolerates the recall."""
    asked = objects.request(device_class)
    asked["exactly"]["tolerations"] = [{"key": KEY, "operator": "Exists", **toleration}]
    return {**asked, "name": name}


def test_a_rule_of_the_desk_is_known_by_its_marks_and_changed_only_over_what_was_seen(desk: Desk) -> None:
    resource = desk.make("None")
    if resource is None:
        return
    made = desk.room.client.get(resource, desk.name)
    assert made["metadata"]["labels"].items() >= LABELS.items()
    assert {entry["manager"] for entry in made["metadata"]["managedFields"]} >= {"claimdesk"}
    assert made["spec"]["taint"]["timeAdded"]
    assert DeskRule.objects.get().uid == made["metadata"]["uid"]
    with pytest.raises(UnableToTaint, match="Somebody changed"):
        rules.update_rule(
            cluster=desk.cluster, wanted=desk.wanted("NoSchedule"), seen_version="1", deed=desk.deed
        )
    with pytest.raises(UnableToTaint) as refused:
        rules.create_rule(cluster=desk.cluster, wanted=desk.wanted("None"), deed=desk.deed)
    assert refused.value.field == "name"
    rules.delete_rule(cluster=desk.cluster, name=desk.name, deed=desk.deed, uid=made["metadata"]["uid"])
    with pytest.raises(GoneElsewhere):
        rules.delete_rule(cluster=desk.cluster, name=desk.name, deed=desk.deed)


def test_what_the_cluster_says_is_wrong_is_said_of_the_field(desk: Desk) -> None:
    if desk.resource() is None:
        return
    bad = WantedRule(name=desk.name, selector=Selector("no driver"), taint=Taint(KEY, "", "NoSchedule"))
    with pytest.raises(UnableToTaint) as refused:
        rules.create_rule(cluster=desk.cluster, wanted=bad, deed=desk.deed)
    assert refused.value.field == "driver"


def test_the_desk_foresees_whom_the_cluster_evicts(desk: Desk) -> None:
    room = desk.room
    device_class = room.machine("gpu-0", "gpu-1")
    room.claim("plain", objects.request(device_class))
    room.claim("loyal", tolerating("gpu", device_class, effect="NoExecute"))
    for name in ("plain", "loyal"):
        room.pod(name, claims={"device": name})
        room.until_running(name)
    blast = desk.foresee("plain", "loyal", pods=("plain", "loyal"))
    assert [(pod.name, pod.after is not None) for pod in (*blast.evicted, *blast.staying)] == [
        ("plain", True),
        ("loyal", False),
    ]
    resource = desk.make("None")
    if resource is None:
        return

    def said() -> str:
        conditions = (room.client.get(resource, desk.name).get("status") or {}).get("conditions") or [{}]
        return str(conditions[0].get("message", ""))

    room.wait_for(said, "the rule's status")
    assert f"{blast.devices} published devices selected" in said()
    assert "1 pod would be evicted in 1 namespace" in said()
    version = room.client.get(resource, desk.name)["metadata"]["resourceVersion"]
    rules.update_rule(
        cluster=desk.cluster, wanted=desk.wanted("NoExecute"), seen_version=version, deed=desk.deed
    )
    room.until_free("plain")
    assert room.get_pod("loyal")["status"]["phase"] == "Running"
