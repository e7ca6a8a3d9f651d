"""A piece of work as a whole: the Pods of one Job, JobSet, PodGroup or Workload, and how much of what it
needs it has."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from django.db.models import Q, QuerySet

from inventory.inside import ClaimUse, PodSeen, pods_seen
from inventory.models import Claim, Cluster, Job, Pod, PodGroup, QueuedWorkload, SchedulingWorkload
from inventory.queues import WorkloadRow, workload_rows

FINISHED = ("Succeeded", "Failed")
# A piece of work with more Pods is told by its first ones.
MEMBERS_TOLD = 500


@dataclass(frozen=True)
class Work:
    """One piece of work of a namespace. What there is none of is None."""

    cluster: Cluster
    namespace: str
    kind: str
    name: str
    members: Sequence[PodSeen]
    # Members in all, of which only the first are told.
    size: int
    jobs: Sequence[Job] = ()
    groups: Sequence[PodGroup] = ()
    scheduling: SchedulingWorkload | None = None
    queued: WorkloadRow | None = None
    # Claims that a PodGroup shares among its Pods.
    shared: Sequence[ClaimUse] = field(default=())

    @property
    def claims(self) -> Sequence[ClaimUse]:
        """Every claim that unfinished members need, each once."""
        uses = [use for seen in self.members if seen.pod.phase not in FINISHED for use in seen.uses]
        # A claim that the controller has not made yet is one of its own.
        return list({use.name or id(use): use for use in (*self.shared, *uses)}.values())

    @property
    def wanted(self) -> int:
        return len(self.claims)

    @property
    def held(self) -> int:
        return sum(use.allocated for use in self.claims)

    @property
    def partly(self) -> bool:
        """Some of its claims hold devices while others wait."""
        return 0 < self.held < self.wanted

    @property
    def placed(self) -> int:
        """Members that have a node."""
        return sum(bool(seen.pod.node_name) for seen in self.members)

    @property
    def min_count(self) -> int | None:
        """How many Pods have to fit at once, where a group says so."""
        return self.groups[0].min_count if len(self.groups) == 1 else None


def find(*, cluster: Cluster, namespace: str, kind: str, name: str) -> Work | None:
    """The work of that kind and name; None where neither an object nor a Pod of it is mirrored."""
    here = Q(cluster=cluster, namespace=namespace)
    pods = Pod.objects.filter(here)
    jobs: QuerySet[Job] = Job.objects.filter(here).none()
    groups: QuerySet[PodGroup] = PodGroup.objects.filter(here).none()
    scheduling: SchedulingWorkload | None = None
    queued: QueuedWorkload | None = None
    if kind == "PodGroup":
        groups = PodGroup.objects.filter(here, name=name)
        pods = pods.filter(pod_group=name)
    elif kind == "Workload":
        queued = QueuedWorkload.objects.filter(here, name=name).first()
        scheduling = SchedulingWorkload.objects.filter(here, name=name).first()
        groups = PodGroup.objects.filter(here, workload_name=name)
        jobs = (
            Job.objects.filter(here, Q(owner_uid=queued.owner_uid) | Q(uid=queued.owner_uid))
            if (queued is not None and queued.owner_uid)
            else jobs
        )
        pods = pods.filter(_of_workload(name, queued, jobs, groups))
    else:
        jobs = Job.objects.filter(here, Q(owner_kind=kind, owner_name=name) | _itself(kind, name))
        made = Q(owner_uid__in=jobs.values("uid"))
        pods = pods.filter(Q(owner_kind=kind, owner_name=name) | made)
    if queued is None:
        queued = _in_queue(here, kind, name, pods, jobs)
    members = list(pods.order_by("created_at", "name")[:MEMBERS_TOLD])
    found_jobs, found_groups = list(jobs.order_by("name")), list(groups.order_by("name"))
    if not (members or found_jobs or found_groups or scheduling or queued):
        return None
    return Work(
        cluster=cluster,
        namespace=namespace,
        kind=kind,
        name=name,
        members=pods_seen(members),
        size=len(members) if len(members) < MEMBERS_TOLD else pods.count(),
        jobs=found_jobs,
        groups=found_groups,
        scheduling=scheduling,
        queued=workload_rows([queued])[0] if queued is not None else None,
        shared=_shared(here, found_groups),
    )


def _itself(kind: str, name: str) -> Q:
    return Q(name=name) if kind == "Job" else Q(pk__in=())


def _of_workload(
    name: str, queued: QueuedWorkload | None, jobs: QuerySet[Job], groups: QuerySet[PodGroup]
) -> Q:
    """Pods of what stands in the queue, or of the groups that a Workload of scheduling.k8s.io plans."""
    # v1alpha1 had no objects for groups: a group is named within its Workload.
    members = Q(pod_group__startswith=f"{name}/") | Q(pod_group__in=groups.values("name"))
    if queued is not None and queued.owner_uid:
        members |= Q(owner_uid=queued.owner_uid) | Q(uid=queued.owner_uid)
        members |= Q(owner_uid__in=jobs.values("uid"))
    return members


def _in_queue(
    here: Q, kind: str, name: str, pods: QuerySet[Pod], jobs: QuerySet[Job]
) -> QueuedWorkload | None:
    """The Workload of Kueue that stands for it, if there is one."""
    stands = Q(owner_kind=kind, owner_name=name) | Q(owner_uid__in=jobs.values("uid"))
    if kind == "PodGroup":
        stands = Q(owner_uid__in=pods.exclude(owner_uid="").values("owner_uid"))
    return QueuedWorkload.objects.filter(here, stands).order_by("-created_at", "-pk").first()


def _shared(here: Q, groups: Sequence[PodGroup]) -> list[ClaimUse]:
    names = {claim for group in groups for claim in group.claim_names.values() if claim}
    found = {claim.name: claim for claim in Claim.objects.filter(here, name__in=names)} if names else {}
    return [
        ClaimUse(entry, claim, found.get(claim))
        for group in groups
        for entry, claim in group.claim_names.items()
    ]
