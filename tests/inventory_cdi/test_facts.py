"""What is gathered of the mirror around a node's report."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from inventory.cdi import facts, intake
from inventory.cdi.facts import Judged, judge_nodes
from inventory.models import CdiToken, Claim, Cluster, Pod, RuntimeClass, Stream
from portal.accounts.models import Project
from tests.inventory_cdi.conftest import CLAIM, Issue, fresh, report, spec, spec_file
from tests.inventory_pages.factories import hold, make_cluster, make_device, make_node

CLAIM_KIND = "k8s.gpu.nvidia.com/claim"
LONG_AGO = timezone.now() - timedelta(days=1)


def judged(token: CdiToken, *files: dict[str, Any], **fields: Any) -> Judged:
    now = timezone.now()
    intake.accept(token=token, body=report(*files, sent_at=now, **fields), now=now)
    return judge_nodes([fresh(token)], now=now)[0]


def again(token: CdiToken) -> list[str]:
    return [f.code for f in judge_nodes([fresh(token)], now=timezone.now())[0].verdict.findings]


def claim_file(uid: str) -> dict[str, Any]:
    written = (timezone.now() - timedelta(hours=1)).isoformat()
    content = spec(f"{uid}-gpu-0", kind=CLAIM_KIND)
    return spec_file(f"k8s.gpu.nvidia.com-claim_{uid}.yaml", content, modified_at=written)


def test_a_claim_in_use_needs_the_spec_that_its_driver_writes(token: CdiToken, cluster: Cluster) -> None:
    held = hold(make_device(cluster, "gpu-0"), namespace="ns", pod="trainer", at=LONG_AGO)
    Claim.objects.filter(pk=held.pk).update(uid=CLAIM)
    assert judged(token, claim_file(CLAIM)).verdict.state == "in-order"
    # The node now reports that the file is gone.
    fresh(token).files.all().delete()
    assert again(token) == ["claim-missing"]
    Pod.objects.update(phase="Pending")
    assert again(token) == []


def test_a_claim_spec_outlives_its_claim(token: CdiToken, cluster: Cluster) -> None:
    held = hold(make_device(cluster, "gpu-0"), namespace="ns", at=LONG_AGO)
    Claim.objects.filter(pk=held.pk).update(uid=CLAIM)
    judged(token, claim_file(CLAIM))
    Claim.objects.update(allocated=False)
    assert again(token) == ["claim-elsewhere"]
    Claim.objects.all().delete()
    assert again(token) == ["claim-gone"]


def test_the_same_uid_on_another_cluster_is_another_claim(token: CdiToken, cluster: Cluster) -> None:
    other = make_cluster("paris")
    held = hold(make_device(other, "gpu-0"), namespace="ns", at=LONG_AGO)
    Claim.objects.filter(pk=held.pk).update(uid=CLAIM)
    make_device(cluster, "gpu-0")
    found = judged(token, claim_file(CLAIM)).verdict.findings
    assert [f.code for f in found] == ["claim-gone"]


def test_devices_are_known_by_uuid_too(token: CdiToken, cluster: Cluster) -> None:
    device = make_device(cluster, "gpu-0")
    found = judged(token, spec_file("nvidia.yaml", spec(device.hardware_id, "all", kind="nvidia.com/gpu")))
    assert (found.verdict.state, found.verdict.findings) == ("in-order", ())


def test_nothing_is_compared_with_a_cluster_that_is_not_in_step(token: CdiToken, cluster: Cluster) -> None:
    make_device(cluster, "gpu-1")
    Stream.objects.update(heard_at=LONG_AGO, listed_at=LONG_AGO)
    found = judged(token, spec_file("base.json", spec("gpu-0")))
    assert (found.verdict.state, found.verdict.why) == ("unknown", "not-in-step")


def test_runtime_classes_are_compared_where_they_are_seen(token: CdiToken, cluster: Cluster) -> None:
    make_node(cluster, "gpu-01", labels={"gpu": "yes"})
    RuntimeClass.objects.create(
        cluster=cluster, name="nvidia", uid="u", resource_version="1", handler="nvidia",
        scheduling={"nodeSelector": {"gpu": "yes"}},
    )  # fmt: skip
    runtime = {"name": "containerd", "version": "2.1.4", "handlers": ["runc"], "sources": ["/etc/x"]}
    assert judged(token, runtime=runtime).verdict.findings == ()
    Stream.objects.create(cluster=cluster, resource="runtimeclasses", state=Stream.State.WATCHING)
    assert again(token) == ["handler-missing"]


def test_the_kubelet_tells_the_runtimes_version(token: CdiToken, cluster: Cluster) -> None:
    make_node(cluster, "gpu-01", container_runtime="containerd://1.6.30")
    make_device(cluster, "gpu-0")
    found = judged(token, spec_file("base.json", spec("gpu-0")), runtime={"name": ""})
    assert found.runtime["version"] == "1.6.30"
    assert [f.code for f in found.verdict.findings] == ["runtime-off"]


def test_a_project_is_never_named_by_findings(token: CdiToken, cluster: Cluster) -> None:
    assert not Project.objects.exists()
    found = judged(token, claim_file(CLAIM)).verdict.findings
    assert all(f.claims for f in found if CLAIM in repr(f))


def test_any_number_of_nodes_is_judged_in_batches(
    issue: Issue, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "BATCH", 2)
    nodes = [issue(f"gpu-{number}")[0].node for number in range(5)]
    found = facts.judge_nodes(nodes, now=timezone.now())
    assert [judged.node.name for judged in found] == [node.name for node in nodes]
