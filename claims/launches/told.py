"""What was started on a request, as its page tells it: state by the mirror, events, and where logs are."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django_stubs_ext import StrOrPromise

from claims.launches.launching import OVER, THERE
from claims.models import Launch, LaunchTemplate, Request
from inventory.models import Job, Pod, PodEvent
from portal.accounts.models import User

State = Launch.State
Kind = LaunchTemplate.Kind
EVENTS_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class Told:
    """One launch; `words` say in a sentence how it is, `tone` (of ui.tone_badge) how to take it."""

    launch: Launch
    words: str
    tone: str
    pods: Sequence[Pod] = ()
    events: Sequence[PodEvent] = ()
    # Lines for a terminal; "" while there is nothing.
    logs: str = ""
    forward: str = ""
    address: str = ""
    may_stop: bool = field(default=False)


def told_of(request: Request) -> list[Told]:
    """The launches of a request, the latest first; four queries."""
    launches = list(
        Launch.objects.filter(request=request)
        .select_related("template", "person")
        .order_by("-created_at", "-pk")
    )
    if not launches:
        return []
    names = [launch.object_name for launch in launches]
    here = {"cluster": request.cluster_id, "namespace": request.namespace}
    jobs = {job.name: job for job in Job.objects.filter(**here, name__in=names)}
    own = Q(name__in=names) | Q(owner_kind="Job", owner_name__in=names)
    pods = list(Pod.objects.filter(own, **here).order_by("created_at", "name"))
    events = PodEvent.objects.filter(cluster=request.cluster_id, pod_uid__in=[pod.uid for pod in pods])
    found = list(events.order_by("-last_at", "-pk"))
    return [
        _told(
            launch,
            job=jobs.get(launch.object_name),
            pods=[pod for pod in pods if launch.object_name in (pod.name, pod.owner_name)],
            events=found,
        )
        for launch in launches
    ]


def launchable(request: Request) -> list[LaunchTemplate]:
    """What can be started on the request."""
    return list(LaunchTemplate.objects.for_request(request).order_by("name"))


def launches_context(request: Request, *, may_act: bool) -> dict[str, Any]:
    """What the part of a request's page needs that tells of launches."""
    told, over = told_of(request), request.state in OVER
    return {
        "launches": told,
        "launchable": [] if over else launchable(request),
        "launches_finished": over and not any(one.launch.state in THERE for one in told),
        "may_launch": may_act,
    }


def offered_to(user: User) -> list[LaunchTemplate]:
    """What the user can start on some request of theirs; administrators see all."""
    rows = LaunchTemplate.objects.offered().order_by("name")
    if user.is_administrator or user.is_auditor:
        return list(rows)
    own = user.memberships.values("project")
    return list(rows.filter(Q(projects=None) | Q(projects__in=own)).distinct())


def _told(launch: Launch, *, job: Job | None, pods: Sequence[Pod], events: Sequence[PodEvent]) -> Told:
    request = launch.request
    is_job = launch.manifest["kind"] == "Job"
    uids = {pod.uid for pod in pods}
    words, tone = _words(launch, job=job, pods=pods, is_job=is_job)
    namespace = shlex.quote(request.namespace)
    kind = "job" if is_job else "pod"
    name = f"{kind}/{launch.object_name}"
    port = launch.template.port
    started = launch.state == State.STARTED
    shown = bool(port) and not is_job and started
    return Told(
        launch=launch,
        words=words,
        tone=tone,
        pods=pods,
        events=[event for event in events if event.pod_uid in uids][:EVENTS_SHOWN],
        logs=f"kubectl logs --namespace {namespace} --follow {name}" if started else "",
        forward=f"kubectl port-forward --namespace {namespace} {name} {port}:{port}" if shown else "",
        address=f"http://localhost:{port}/" if shown else "",
        may_stop=launch.state in (State.STARTING, State.STARTED),
    )


# What is told of a launch whose state says enough.
_STATES: Mapping[str, tuple[StrOrPromise, str]] = {
    State.STARTING: (gettext_lazy("The desk creates it as soon as the request is on the cluster."), "wait"),
    State.FAILED: (gettext_lazy("The cluster refused it."), "bad"),
    State.STOPPING: (gettext_lazy("It is being removed, with its Pods."), "busy"),
    State.STOPPED: (gettext_lazy("It was removed from the cluster."), "off"),
}
_DONE = (gettext_lazy("It has finished."), "good")
_FAILED = (gettext_lazy("It failed."), "bad")
_PHASES: Mapping[str, tuple[StrOrPromise, str]] = {"Succeeded": _DONE, "Failed": _FAILED}


def _words(launch: Launch, *, job: Job | None, pods: Sequence[Pod], is_job: bool) -> tuple[str, str]:
    if launch.state == State.STARTING and launch.attempts:
        return _("The cluster did not answer as it should; the desk tries again."), "wait"
    if launch.state != State.STARTED:
        words, tone = _STATES[launch.state]
    elif job is not None and job.outcome:
        words, tone = _DONE if job.outcome == "Complete" else _FAILED
    elif job is not None and job.suspended:
        words, tone = gettext_lazy("It waits in the queue until Kueue admits it."), "wait"
    elif not pods and job is None:
        words = gettext_lazy(
            "It is on the cluster; the desk has not seen it there yet, or somebody removed it."
        )
        tone = "wait"
    else:
        words, tone = _words_of_pods(pods, is_job=is_job)
    return str(words), tone


def _words_of_pods(pods: Sequence[Pod], *, is_job: bool) -> tuple[StrOrPromise, str]:
    if not pods:
        return gettext_lazy("The cluster has not made its Pod yet."), "wait"
    phases = {pod.phase for pod in pods}
    if "Running" in phases:
        return gettext_lazy("It runs."), "busy"
    if not is_job and (ended := phases & _PHASES.keys()):
        return _PHASES[ended.pop()]
    if any(not pod.node_name for pod in pods):
        return gettext_lazy("Its Pod waits for a place."), "wait"
    return gettext_lazy("Its Pod is being started."), "wait"
