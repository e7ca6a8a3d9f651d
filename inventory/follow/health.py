"""From what the streams report to the state of the cluster that people see."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from inventory.follow.streams import Report
from inventory.models import Cluster, Stream
from portal.kube import errors
from portal.kube.resources import (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    POD_GROUPS,
    QUEUED_WORKLOADS,
    RESOURCE_FLAVORS,
    SCHEDULING_WORKLOADS,
)

State = Stream.State
SAVE_CONTACT_EVERY = timedelta(seconds=5)
# What these say is missed by nobody who asks what is free; their own rows show that they fail.
PLAIN = (
    *("namespaces", "runtimeclasses", "resourcequotas", "jobs"),
    *(POD_GROUPS.stream, SCHEDULING_WORKLOADS.stream),
    *(CLUSTER_QUEUES.stream, LOCAL_QUEUES.stream, RESOURCE_FLAVORS.stream, QUEUED_WORKLOADS.stream),
)
MINOR = frozenset({"events", "resourceclaimtemplates", *PLAIN})


class ClusterHealth:
    """Keeps the latest report of each stream, and the rows in step with them."""

    def __init__(self, *, cluster_id: int, holder: str, resources: Sequence[str]) -> None:
        self._cluster_id = cluster_id
        self._holder = holder
        self._latest: dict[str, Report] = {}
        self._resources = resources
        self._synced: set[str] = set()
        self._unsaved: dict[str, Report] = {}
        self._saved: tuple[str, str] | None = None
        self._contact_saved_at: datetime | None = None

    def note(self, report: Report) -> None:
        """A stream has something new to say."""
        self._latest[report.plural] = self._unsaved[report.plural] = report
        if report.state in {State.WATCHING, State.NOT_PERMITTED, State.NOT_SERVED}:
            self._synced.add(report.plural)

    def verdict(self) -> tuple[str, str]:
        """State and message of the cluster."""
        for kind, state in (
            (errors.BadCredentials, Cluster.State.MISCONFIGURED),
            (errors.Unauthorized, Cluster.State.REFUSED),
            (errors.Unreachable, Cluster.State.UNREACHABLE),
        ):
            for report in self._latest.values():
                if isinstance(report.error, kind):
                    return state, report.error.message
        failing = [
            report
            for report in self._latest.values()
            if report.state == State.FAILED and report.error is not None and report.plural not in MINOR
        ]
        message = failing[0].error.message if failing and failing[0].error else ""
        excused = {r.plural for r in self._latest.values() if r.state == State.FAILED} & MINOR
        if self._synced.issuperset(set(self._resources) - excused) and not failing:
            return Cluster.State.SYNCED, ""
        return Cluster.State.SYNCING, message

    def save(self, *, now: datetime, skew: timedelta | None) -> None:
        """Write what has changed since last time."""
        for report in self._unsaved.values():
            self._save_stream(report)
        verdict = self.verdict()
        fields: dict[str, Any] = {}
        if verdict != self._saved:
            fields |= {"state": verdict[0], "message": verdict[1][:2000]}
        reachable = verdict[0] in {Cluster.State.SYNCED, Cluster.State.SYNCING}
        due = self._contact_saved_at is None or now - self._contact_saved_at >= SAVE_CONTACT_EVERY
        if reachable and (due or fields):
            fields["contacted_at"] = now
            if skew is not None:
                fields["clock_skew_us"] = skew // timedelta(microseconds=1)
        if fields:
            # Only while we are its follower: another, or an administrator, may have changed the state since.
            mine = Cluster.objects.filter(pk=self._cluster_id, lease_holder=self._holder, enabled=True)
            mine.update(**fields)
            if "contacted_at" in fields:
                self._contact_saved_at = now
        self._saved = verdict
        self._unsaved.clear()

    def _save_stream(self, report: Report) -> None:
        fields: dict[str, Any] = {
            "state": report.state,
            "message": report.error.message[:2000] if report.error else "",
        }
        if report.api_version:
            fields["api_version"] = report.api_version
        Stream.objects.filter(cluster_id=self._cluster_id, resource=report.plural).update(**fields)
