"""What requests leave behind is removed where it is provably the desk's own, and told where it is not."""

import uuid
from datetime import timedelta
from typing import Any

import pytest

from claims.models import Request
from claims.requests import actions as requests
from claims.requests import pursuit, sweeping
from claims.requests.manifests import PROJECT_LABEL, REQUEST_LABEL, ROLE_LABEL, hold_name
from inventory.models import Claim, Cluster, Pod
from portal.accounts.models import AuditEntry
from portal.kube import errors
from tests.claims.conftest import IMAGE, NOW, Cast
from tests.claims.fakes import FakeCluster
from tests.claims.mirror import mirror_claim, mirror_pod

LATER = NOW + timedelta(minutes=5)


@pytest.fixture
def left(request_: Request, cast: Cast, fake: FakeCluster) -> Request:
    """A request that is over, and whose claim and hold Pod were made after that by a worker that died."""
    for act in ("claim", "hold"):
        if act == "hold":
            requests.hold(request=request_, user=cast.owner, now=NOW)
        pursuit.pursue(request_id=request_.pk, now=NOW, hold_image=IMAGE, connect=lambda _cluster: fake)
        request_.refresh_from_db()
    kept = {kind: fake.objects[kind, request_.namespace, name] for kind, name in _names(request_).items()}
    mirror_claim(
        request_,
        uid=kept["resourceclaims"]["metadata"]["uid"],
        labels=kept["resourceclaims"]["metadata"]["labels"],
        annotations=kept["resourceclaims"]["metadata"]["annotations"],
    )
    mirror_pod(
        request_,
        "hold",
        node="node-h100",
        uid=kept["pods"]["metadata"]["uid"],
        labels=kept["pods"]["metadata"]["labels"],
        annotations=kept["pods"]["metadata"]["annotations"],
    )
    Request.objects.update(state=Request.State.ENDED, ended_at=NOW, due_at=None, hold_wanted=False)
    request_.refresh_from_db()
    return request_


def _names(request: Request) -> dict[str, str]:
    return {"resourceclaims": request.object_name, "pods": hold_name(request.object_name)}


def sweep(cluster: Cluster, fake: FakeCluster, minutes: float = 5) -> int:
    return sweeping.sweep(
        cluster=cluster, now=NOW + timedelta(minutes=minutes), connect=lambda _cluster: fake
    )


def left_on(fake: FakeCluster) -> list[str]:
    return fake.names("resourceclaims") + fake.names("pods")


def test_what_a_request_left_behind_is_removed(left: Request, cluster: Cluster, fake: FakeCluster) -> None:
    assert sweep(cluster, fake, minutes=1) == 0, "it may still be wound up"
    assert sweep(cluster, fake) == 2
    assert left_on(fake) == []
    assert sweep(cluster, fake) == 0
    assert AuditEntry.objects.filter(action="request.sweep", actor=None).count() == 2


def test_what_nobody_lived_to_record_is_known_by_all_that_the_desk_writes(
    left: Request, cluster: Cluster, fake: FakeCluster
) -> None:
    Request.objects.update(object_uid="", hold_pod_uid="")
    assert sweep(cluster, fake) == 2
    assert left_on(fake) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"uid": "another", "annotations": {}},
        {"uid": "another", "labels": {REQUEST_LABEL: "KEY", PROJECT_LABEL: "others"}},
        {"uid": "another", "name": "a-copy"},
        {"uid": "another", "namespace": "weather-models"},
    ],
)
def test_what_is_not_provably_its_own_is_told_and_left_alone(
    left: Request, cluster: Cluster, fake: FakeCluster, changed: dict[str, Any]
) -> None:
    if "labels" in changed:
        changed = changed | {"labels": changed["labels"] | {REQUEST_LABEL: str(left.key)}}
    Claim.objects.update(**changed)
    Pod.objects.all().delete()
    before = left_on(fake)
    assert sweep(cluster, fake) == 0
    assert left_on(fake) == before
    assert [found.code for found in sweeping.findings(cluster, LATER)] == ["stray-object"]


def test_an_object_of_a_request_that_the_desk_does_not_know_is_told(
    left: Request, cluster: Cluster, fake: FakeCluster
) -> None:
    Pod.objects.all().delete()
    for key in (str(uuid.uuid4()), "no key at all"):
        Claim.objects.update(labels={REQUEST_LABEL: key})
        assert sweep(cluster, fake) == 0
        assert [found.code for found in sweeping.findings(cluster, LATER)] == ["stray-unknown"]


def test_requests_that_go_on_and_pods_of_people_are_no_strays(
    left: Request, cluster: Cluster, fake: FakeCluster
) -> None:
    Request.objects.update(state=Request.State.IN_USE, ended_at=None)
    mirror_pod(left, "work", node="node-h100", labels={REQUEST_LABEL: str(left.key)})
    assert sweeping.strays(cluster=cluster, now=LATER) == []
    Request.objects.update(state=Request.State.ENDED, ended_at=NOW)
    Pod.objects.exclude(labels__has_key=ROLE_LABEL).update(uid="work")
    assert all(stray.name != "work" for stray in sweeping.strays(cluster=cluster, now=LATER))


def test_a_request_that_is_tried_again_meanwhile_keeps_its_object(
    left: Request, cluster: Cluster, fake: FakeCluster
) -> None:
    found = sweeping.strays(cluster=cluster, now=LATER)
    assert all(stray.ours for stray in found)
    Request.objects.update(state=Request.State.CREATING)
    assert sweep(cluster, fake) == 0


def test_another_object_that_took_the_name_meanwhile_stays(
    left: Request, cluster: Cluster, fake: FakeCluster
) -> None:
    fake.objects["resourceclaims", left.namespace, left.object_name]["metadata"]["uid"] = "new"
    assert sweep(cluster, fake) == 1
    assert left_on(fake) == [left.object_name]


def test_a_cluster_that_does_not_answer_is_told_of(
    left: Request, cluster: Cluster, fake: FakeCluster
) -> None:
    fake.fail = {"get": errors.Unreachable("no answer")}
    with pytest.raises(errors.Unreachable):
        sweep(cluster, fake)
