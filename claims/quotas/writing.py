"""Writing the desk's ResourceQuotas: created, changed and removed until the cluster has what is wanted.

Every call may be repeated, and none is inside a transaction. An object of the same name without the desk's
label is left alone. One that somebody else has changed is shown, not silently changed back: an administrator
does that.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q
from django.utils.translation import gettext as _

from claims.models import QuotaObject, Request
from claims.quotas.cluster import QUOTA_LABEL, labels_of, manifest, name_of_entitlements, plan
from claims.requests import submission
from claims.requests.rehearsal import Connect
from inventory.clusters import client_for
from inventory.models import Cluster, ResourceQuota, Stream
from portal.kube import errors
from portal.kube.resources import RESOURCE_QUOTAS

State = QuotaObject.State
FIRST_RETRY = timedelta(seconds=5)
LAST_RETRY = timedelta(minutes=5)
# What is refused may be granted later: rights are given by people.
REFUSED_AGAIN = timedelta(minutes=10)
# The mirror shows a write some moments later; a list that began before may end after it.
SETTLING = timedelta(minutes=1)


def write(*, object_id: int, now: datetime, connect: Connect = client_for) -> None:
    """Bring one object to what is wanted. Talks to the cluster: not inside a transaction."""
    rows = QuotaObject.objects.select_related("cluster", "project", "quota")
    row = rows.filter(pk=object_id, due_at__lte=now).first()
    if row is None:
        return
    try:
        with connect(row.cluster) as client:
            if row.wanted:
                _keep(row, client, now=now)
            else:
                _remove(row, client, now=now)
    except errors.ClusterError as error:
        _failed(row, error, now=now)


def entitle(*, request: Request, now: datetime, connect: Connect) -> None:
    """Let the namespace's ResourceQuota admit an entitlement before Pods are told that they may ask. What
    the cluster refuses is kept on the object and tried again: the entitlement holds all the same."""
    plan(now=now)
    rows = QuotaObject.objects.filter(
        cluster=request.cluster_id,
        namespace=request.namespace,
        name=name_of_entitlements(request.extended_resource),
    )
    for pk in rows.values_list("pk", flat=True):
        write(object_id=pk, now=now, connect=connect)


def restore(*, row: QuotaObject, now: datetime) -> None:
    """Have the object written again, as the desk wants it."""
    QuotaObject.objects.filter(pk=row.pk).update(
        written={}, state=State.DUE, message="", due_at=now, attempts=0
    )


def look(*, cluster: Cluster, now: datetime) -> list[int]:
    """Objects that the mirror shows to be other than they were written: to be looked at on the cluster, since
    the mirror may be behind. Returns their primary keys; two queries."""
    rows = QuotaObject.objects.filter(cluster=cluster, state__in=[State.WRITTEN, State.DRIFT], due_at=None)
    written = [row for row in rows if row.wanted and row.written_at and row.written_at < now - SETTLING]
    if not written:
        return []
    listed = Stream.objects.filter(cluster=cluster, resource="resourcequotas", state=Stream.State.WATCHING)
    if not listed.exists():
        return []
    names = {row.name for row in written}
    seen = {
        (namespace, name): hard
        for namespace, name, hard in ResourceQuota.objects.filter(
            cluster=cluster, name__in=names
        ).values_list("namespace", "name", "hard")
    }
    odd = [
        row.pk
        for row in written
        if (seen.get((row.namespace, row.name)) == row.wanted) == (row.state == State.DRIFT)
    ]
    QuotaObject.objects.filter(pk__in=odd, due_at=None).update(due_at=now)
    return odd


# --- inside -----------------------------------------------------------------------------------------


def _keep(row: QuotaObject, client: submission.Writer, *, now: datetime) -> None:
    wanted = manifest(row)
    try:
        there = client.get(RESOURCE_QUOTAS, row.name, namespace=row.namespace)
    except errors.NotFound:
        if row.written == row.wanted:
            # It was there, as it should be, and nobody of the desk has removed it.
            _store(row, State.DRIFT, _("It was deleted on the cluster."))
            return
        client.create(RESOURCE_QUOTAS, wanted, namespace=row.namespace)
        _done(row, now=now)
        return
    if not _ours(there, row):
        _store(row, State.NAME_TAKEN, "", due_at=now + REFUSED_AGAIN)
        return
    hard = {key: str(amount) for key, amount in ((there.get("spec") or {}).get("hard") or {}).items()}
    if hard == row.wanted:
        _done(row, now=now)
    elif row.written == row.wanted:
        _store(row, State.DRIFT, _in_words(hard))
    else:
        # With its resourceVersion: a change in between is a conflict, and we look again.
        there["spec"] = {**(there.get("spec") or {}), "hard": dict(row.wanted)}
        metadata = there["metadata"]
        metadata["labels"] = {**(metadata.get("labels") or {}), **labels_of(row)}
        client.replace(RESOURCE_QUOTAS, row.name, there, namespace=row.namespace)
        _done(row, now=now)


def _remove(row: QuotaObject, client: submission.Writer, *, now: datetime) -> None:
    try:
        there = client.get(RESOURCE_QUOTAS, row.name, namespace=row.namespace)
        if _ours(there, row):
            uid = str(there["metadata"].get("uid", ""))
            client.delete(RESOURCE_QUOTAS, row.name, namespace=row.namespace, uid=uid)
    except errors.NotFound:
        pass
    # Unless it came to be wanted again meanwhile.
    QuotaObject.objects.filter(pk=row.pk, wanted={}).delete()
    QuotaObject.objects.filter(pk=row.pk).update(written={}, state=State.DUE, due_at=now)


def _ours(there: Mapping[str, Any], row: QuotaObject) -> bool:
    labels = (there.get("metadata") or {}).get("labels") or {}
    return labels.get(QUOTA_LABEL) == labels_of(row)[QUOTA_LABEL]


def _done(row: QuotaObject, *, now: datetime) -> None:
    # Only if that is still what is wanted; else it is due for the next.
    QuotaObject.objects.filter(pk=row.pk, wanted=row.wanted).update(
        written=row.wanted, written_at=now, state=State.WRITTEN, message="", due_at=None, attempts=0
    )


def _store(row: QuotaObject, state: str, message: str, *, due_at: datetime | None = None) -> None:
    QuotaObject.objects.filter(pk=row.pk, wanted=row.wanted).update(
        state=state, message=message, due_at=due_at, attempts=row.attempts + 1
    )


def _failed(row: QuotaObject, error: errors.ClusterError, *, now: datetime) -> None:
    """A conflict is tried again like everything that may pass; a refusal later, since rights may be given."""
    if submission.is_retryable(error) or isinstance(error, errors.Conflict):
        wait = min(FIRST_RETRY * 2 ** min(row.attempts, 10), LAST_RETRY)
        if error.retry_after:
            wait = max(wait, timedelta(seconds=error.retry_after))
        state = row.state
    else:
        wait, state = REFUSED_AGAIN, State.REFUSED
    _store(row, state, error.message, due_at=now + wait)


def _in_words(hard: Mapping[str, str]) -> str:
    return ", ".join(f"{key}: {amount}" for key, amount in sorted(hard.items())) or "–"


def due(now: datetime) -> list[int]:
    """Objects (by primary key) that have to be written or looked at."""
    rows = QuotaObject.objects.filter(Q(due_at__lte=now), cluster__enabled=True)
    return list(rows.order_by("due_at").values_list("pk", flat=True))
