"""From a Pod to what was submitted."""

from inventory.models import Pod
from inventory.owners import Owner, descent_of
from portal.kube.resources import QUEUED_WORKLOADS
from tests.inventory.conftest import Mirror
from tests.inventory.mirror.test_queues import job, queued
from tests.inventory.objects import pod


def test_a_pod_leads_over_its_job_to_what_was_submitted_and_to_its_place_in_a_queue(mirror: Mirror) -> None:
    made = job(pod(claims={"gpu": "train"}))
    uid = made["metadata"]["uid"]
    mirror.see(made)
    member = pod("train-x", claims={"gpu": "train"})
    member["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "train", "uid": uid, "controller": True}]
    member["spec"]["schedulingGroup"] = {"podGroupName": "ring"}
    mirror.see(member, pod("alone", claims={"gpu": "train"}))
    waiting = queued()
    waiting["metadata"]["ownerReferences"] = [
        {"kind": "Job", "name": "train", "uid": uid, "controller": True}
    ]
    mirror.see(waiting, resource=QUEUED_WORKLOADS)
    pods = {row.name: row for row in Pod.objects.all()}
    found = descent_of(list(pods.values()))
    descent = found[pods["train-x"].pk]
    assert descent.owners == [Owner("Job", "train", uid), Owner("JobSet", "sweep", "uid-sweep")]
    assert descent.pod_group == "ring"
    assert descent.workload is not None
    assert descent.workload.name == "job-train"
    alone = found[pods["alone"].pk]
    assert (alone.owners, alone.workload) == ([], None)
