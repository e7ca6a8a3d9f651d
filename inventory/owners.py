"""What people submitted, of which a Pod is a part: Pod → Job → JobSet…, its PodGroup, its queue."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Q

from inventory.models import Job, Pod, QueuedWorkload


@dataclass(frozen=True)
class Owner:
    """An object that made another; empty where there is none."""

    kind: str = ""
    name: str = ""
    uid: str = ""


@dataclass(frozen=True)
class Descent:
    """`owners`, nearest first; the last one is what was submitted, as far as known. `workload` is the
    Workload of Kueue that stands in the queue for one of them."""

    owners: Sequence[Owner]
    pod_group: str
    workload: QueuedWorkload | None


def descent_of(pods: Collection[Pod]) -> Mapping[int, Descent]:
    """Where Pods come from, by primary key; two queries for any number of Pods."""
    jobs = {
        (job.cluster_id, job.uid): job
        for job in Job.objects.filter(
            cluster__in={pod.cluster_id for pod in pods}, uid__in={pod.owner_uid for pod in pods} - {""}
        )
    }
    chains = {pod.pk: _chain(pod, jobs) for pod in pods}
    queued = _queued(pods, chains)
    return {
        pod.pk: Descent(
            owners=chains[pod.pk],
            pod_group=pod.pod_group,
            workload=next(
                (
                    queued[pod.cluster_id, uid]
                    for uid in (pod.uid, *(owner.uid for owner in chains[pod.pk]))
                    if (pod.cluster_id, uid) in queued
                ),
                None,
            ),
        )
        for pod in pods
    }


def _chain(pod: Pod, jobs: Mapping[tuple[int, str], Job]) -> list[Owner]:
    if not pod.owner_uid:
        return []
    chain = [Owner(pod.owner_kind, pod.owner_name, pod.owner_uid)]
    job = jobs.get((pod.cluster_id, pod.owner_uid))
    if job is not None and job.owner_uid:
        chain.append(Owner(job.owner_kind, job.owner_name, job.owner_uid))
    return chain


def _queued(
    pods: Collection[Pod], chains: Mapping[int, Sequence[Owner]]
) -> Mapping[tuple[int, str], QueuedWorkload]:
    """Workloads by the uid of what they stand for."""
    wanted: dict[int, set[str]] = defaultdict(set)
    for pod in pods:
        wanted[pod.cluster_id] |= {pod.uid, *(owner.uid for owner in chains[pod.pk])}
    asked = Q(pk__in=())
    for cluster, uids in wanted.items():
        asked |= Q(cluster=cluster, owner_uid__in=uids)
    return {(found.cluster_id, found.owner_uid): found for found in QueuedWorkload.objects.filter(asked)}


def work_of(
    pod: Owner, owner: Owner, group: str, *, owners: Mapping[str, Owner], queued: Mapping[str, str]
) -> tuple[str, str]:
    """Kind and name of the work that a Pod is a part of, the widest that starts (or waits) as one: Kueue's
    Workload, else its PodGroup, else what was submitted (JobSet before Job), else what owns it.

    `owners` leads from the uid of a Job to what made it, `queued` from the uid of what was submitted to the
    name of the Workload that stands in the queue for it.
    """
    chain = [pod, owner]
    if owner.uid and owner.uid in owners:
        chain.append(owners[owner.uid])
    for member in chain:
        if member.uid and member.uid in queued:
            return "Workload", queued[member.uid]
    if group:
        return "PodGroup", group
    top = next((member for member in reversed(chain[1:]) if member.uid or member.name), Owner())
    return top.kind, top.name
