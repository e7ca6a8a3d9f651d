"""From a Pod to what was submitted."""

import pytest

from inventory.models import Pod
from inventory.owners import Owner, descent_of, work_of
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


# --- the work that a Pod is a part of ---------------------------------------------------------------

POD = Owner("Pod", "train-0", "p")
JOB = Owner("Job", "train", "j")
SET = Owner("JobSet", "big", "s")


@pytest.mark.parametrize(
    ("owner", "group", "owners", "queued", "work"),
    [
        (Owner(), "", {}, {}, ("", "")),
        (JOB, "", {}, {}, ("Job", "train")),
        # A Job that the mirror has not: as far as the Pod itself tells.
        (JOB, "", {"other": SET}, {}, ("Job", "train")),
        (JOB, "", {"j": SET}, {}, ("JobSet", "big")),
        (JOB, "gang", {"j": SET}, {}, ("PodGroup", "gang")),
        (JOB, "", {}, {"j": "job-train"}, ("Workload", "job-train")),
        (JOB, "gang", {"j": SET}, {"s": "set-big"}, ("Workload", "set-big")),
        # Kueue queues single Pods, too.
        (Owner(), "", {}, {"p": "pod-train-0"}, ("Workload", "pod-train-0")),
        (Owner(), "gang", {}, {"": "nobody"}, ("PodGroup", "gang")),
    ],
)
def test_the_widest_work_that_starts_as_one_counts(
    owner: Owner, group: str, owners: dict[str, Owner], queued: dict[str, str], work: tuple[str, str]
) -> None:
    assert work_of(POD, owner, group, owners=owners, queued=queued) == work
