"""Starting something on a request, for people: judged on trial by the cluster, stored, and then created by a
worker, removed at the end of the request or when somebody says so.

Like `claims.requests.pursuit`: what is due may be done at any time, any number of times and by two workers
at once. Names are deterministic, changes of state are compare-and-set, and calls of the cluster are outside
of
transactions. So no crash between two steps leaves anything on the cluster that nobody knows of.
"""

import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from claims.asks.judging import namespaces_of, parse_key
from claims.asks.reading import WHOLE, WrongValues
from claims.asks.values import UnableToSubmit
from claims.launches import manifests as launch_manifests
from claims.launches.manifests import LAUNCH_LABEL
from claims.launches.terms import read_parameters
from claims.models import FINAL_STATES, Launch, LaunchTemplate, Request
from claims.requests import submission
from claims.requests.manifests import Manifest
from claims.requests.rehearsal import Connect, owner_of
from claims.requests.retrying import AGAIN, backoff
from claims.requests.states import LIVE
from claims.requests.story import use_of
from claims.signals import launch_due
from inventory.clusters import client_for
from inventory.models import Cluster
from portal import access
from portal.accounts import audit
from portal.accounts.models import User
from portal.kube import errors
from portal.kube.resources import JOBS, PODS, Resource

State = Launch.State

MAX_OF_A_REQUEST = 10
# States of requests in which nothing can be started on them any more.
OVER = (Request.State.ENDING, *FINAL_STATES)
# States in which something is, or may be, on the cluster.
THERE = (State.STARTING, State.STARTED, State.STOPPING)


class UnableToLaunch(WrongValues):
    """`errors` maps names of parameters (or WHOLE) to messages for people."""


def start(
    *,
    request: Request,
    template: LaunchTemplate,
    user: User,
    values: Mapping[str, object],
    now: datetime,
    key: object = None,
    source_ip: str | None = None,
    connect: Connect = client_for,
    within: Callable[[Launch], None] | None = None,
) -> Launch:
    """Start a template on a request. `values` are its parameters; `key` (a UUID) names the launch: the same
    key again gives the same launch. `within` is called in the transaction that stores it.

    Raises UnableToLaunch. Talks to the cluster: not inside a transaction."""
    if access.only_looks():
        raise UnableToLaunch({WHOLE: [access.why_only_looks()]})
    chosen = _key(key)
    if (earlier := _earlier(chosen, request, user)) is not None:
        return earlier
    _require_possible(request, template, now=now)
    parameters, wrong = read_parameters(template, values)
    if wrong:
        raise UnableToLaunch(wrong)
    manifest = launch_manifests.build(
        template,
        use=use_of(request),
        owner=owner_of(request),
        key=str(chosen),
        parameters=parameters,
        queue=str(request.options.get("queue") or ""),
    )
    _rehearse(request, manifest, connect=connect)
    launch = Launch(
        key=chosen,
        request=request,
        template=template,
        person=user,
        parameters=parameters,
        manifest=manifest,
        object_name=manifest["metadata"]["name"],
        created_at=now,
        changed_at=now,
        due_at=now,
    )
    try:
        with transaction.atomic():
            launch.save(force_insert=True)
            _record(launch, "start", actor=user, now=now, ip=source_ip, after=_summary(launch))
            _announce(launch)
            if within is not None:
                within(launch)
    except IntegrityError:
        # Sent twice at the same moment: the other one won.
        if (earlier := _earlier(chosen, request, user)) is not None:
            return earlier
        raise UnableToLaunch({WHOLE: [_("This key is taken; choose a new one.")]}) from None
    return launch


def stop(*, launch: Launch, user: User, now: datetime, source_ip: str | None = None) -> None:
    """Remove what was started, with its Pods. Harmless when it is gone already. Raises UnableToLaunch."""
    if access.only_looks():
        raise UnableToLaunch({WHOLE: [access.why_only_looks()]})
    for state in (State.STARTING, State.STARTED):
        if _change(
            launch, to=State.STOPPING, expected=state, now=now, action="stop", actor=user, ip=source_ip
        ):
            return


def due(cluster: Cluster, *, now: datetime) -> list[int]:
    """Primary keys of launches of which something is to be done on the cluster."""
    to_start = Q(state=State.STARTING, request__state__in=LIVE)
    to_end = Q(state__in=(State.STARTING, State.STARTED), request__state__in=OVER)
    rows = Launch.objects.filter(to_start | to_end | Q(state=State.STOPPING), request__cluster=cluster)
    return list(rows.filter(Q(due_at=None) | Q(due_at__lte=now)).order_by("pk").values_list("pk", flat=True))


def pursue(*, launch_id: int, now: datetime, connect: Connect = client_for) -> None:
    """Do what is due. Talks to the cluster: not inside a transaction."""
    rows = Launch.objects.select_related("request__cluster", "request__project", "template")
    launch = rows.filter(pk=launch_id).first()
    if launch is None:
        return
    if launch.request.state in OVER and launch.state in (State.STARTING, State.STARTED):
        # An attempt that died may have created it: it is looked for, not assumed.
        _change(launch, to=State.STOPPING, expected=launch.state, now=now, action="end")
    if launch.state == State.STARTING and launch.request.state in LIVE:
        _create(launch, now=now, connect=connect)
    elif launch.state == State.STOPPING:
        _remove(launch, now=now, connect=connect)


# --- on the cluster ---------------------------------------------------------------------------------


def _create(launch: Launch, *, now: datetime, connect: Connect) -> None:
    request = launch.request
    if request.namespace not in namespaces_of(request.project, request.cluster, now=now):
        _change(
            launch, to=State.FAILED, expected=State.STARTING, now=now, action="fail",
            message=_("The namespace no longer belongs to the project."),
        )  # fmt: skip
        return
    try:
        with connect(request.cluster) as client:
            created = _create_object(launch, client)
    except errors.ClusterError as error:
        if submission.is_retryable(error):
            _later(launch, error, now=now)
        else:
            _change(
                launch, to=State.FAILED, expected=State.STARTING, now=now, action="fail",
                message=error.message,
            )  # fmt: skip
        return
    uid = str(created["metadata"]["uid"])
    if _change(launch, to=State.STARTED, expected=State.STARTING, now=now, action="started", object_uid=uid):
        return
    if launch.state != State.STARTED:
        # Stopped while it was being created: what we just made has to go again.
        with suppress(errors.ClusterError), connect(request.cluster) as client:
            _remove_object(launch, client)


def _create_object(launch: Launch, client: submission.Writer) -> dict[str, Any]:
    resource, namespace = _resource(launch.manifest), launch.request.namespace
    try:
        return client.create(resource, launch.manifest, namespace=namespace)
    except errors.AlreadyExists as error:
        existing = client.get(resource, launch.object_name, namespace=namespace)
        if not _is_ours(existing, launch):
            raise submission.NameTaken(
                _("The cluster has a %(kind)s “%(name)s” that belongs to somebody else.")
                % {"kind": launch.manifest["kind"], "name": launch.object_name}
            ) from error
        return existing


def _remove(launch: Launch, *, now: datetime, connect: Connect) -> None:
    try:
        with connect(launch.request.cluster) as client:
            gone = _remove_object(launch, client)
    except errors.ClusterError as error:
        _later(launch, error, now=now)
        return
    if gone:
        _change(launch, to=State.STOPPED, expected=State.STOPPING, now=now, action="stopped")
    else:
        Launch.objects.filter(pk=launch.pk, state=State.STOPPING).update(due_at=now + AGAIN)


def _remove_object(launch: Launch, client: submission.Writer) -> bool:
    """Whether it is gone. An object of the same name that is not the launch's is left alone."""
    resource, namespace = _resource(launch.manifest), launch.request.namespace
    try:
        existing = client.get(resource, launch.object_name, namespace=namespace)
        if not _is_ours(existing, launch):
            return True
        if not existing["metadata"].get("deletionTimestamp"):
            uid = str(existing["metadata"].get("uid", ""))
            client.delete(resource, launch.object_name, namespace=namespace, uid=uid)
    except errors.NotFound:
        return True
    except errors.Conflict:
        # Replaced between our look and the deletion: look again next time.
        return False
    return False


def _rehearse(request: Request, manifest: Manifest, *, connect: Connect) -> None:
    """Let the server judge it: Pod security, quotas, policies, limits of the namespace."""
    try:
        with connect(request.cluster) as client:
            answer = client.create(_resource(manifest), manifest, namespace=request.namespace, dry_run=True)
    except errors.AlreadyExists:
        # Judged far enough: an attempt before created it.
        return
    except errors.ClusterError as error:
        raise UnableToLaunch({WHOLE: [error.message]}) from error
    if dropped := list(submission.dropped_fields(manifest, answer)):
        raise UnableToLaunch({WHOLE: [submission.FieldsDropped(dropped).message]})


def _resource(manifest: Mapping[str, Any]) -> Resource:
    return JOBS if manifest["kind"] == "Job" else PODS


def _is_ours(existing: Mapping[str, Any], launch: Launch) -> bool:
    labels = (existing.get("metadata") or {}).get("labels") or {}
    return bool(labels.get(LAUNCH_LABEL) == str(launch.key))


# --- inside -----------------------------------------------------------------------------------------


def _key(typed: object) -> uuid.UUID:
    try:
        return parse_key(typed) or uuid.uuid4()
    except UnableToSubmit as error:
        raise UnableToLaunch({WHOLE: error.errors["key"]}) from None


def _earlier(key: uuid.UUID, request: Request, user: User) -> Launch | None:
    earlier = Launch.objects.filter(key=key).first()
    if earlier is not None and (earlier.person_id, earlier.request_id) != (user.pk, request.pk):
        raise UnableToLaunch({WHOLE: [_("This key is taken; choose a new one.")]})
    return earlier


def _require_possible(request: Request, template: LaunchTemplate, *, now: datetime) -> None:
    said = ""
    if request.state in OVER:
        said = _("The request is over: nothing can be started on it any more.")
    elif not LaunchTemplate.objects.for_request(request).filter(pk=template.pk).exists():
        said = _("This is not offered for the request (any more).")
    elif request.namespace not in namespaces_of(request.project, request.cluster, now=now):
        said = _("The namespace no longer belongs to the project.")
    elif Launch.objects.filter(request=request, state__in=THERE).count() >= MAX_OF_A_REQUEST:
        said = _("%(limit)s things run on this request already; stop one first.") % {
            "limit": MAX_OF_A_REQUEST
        }
    if said:
        raise UnableToLaunch({WHOLE: [said]})


def _change(
    launch: Launch,
    *,
    to: str,
    expected: str,
    now: datetime,
    action: str,
    actor: User | None = None,
    ip: str | None = None,
    message: str = "",
    **columns: Any,
) -> bool:
    """Compare-and-set of the state with its audit entry. Returns whether it was us; refreshed either way."""
    with transaction.atomic():
        changed = Launch.objects.filter(pk=launch.pk, state=expected).update(
            state=to, message=message, changed_at=now, due_at=None, attempts=0, **columns
        )
        launch.refresh_from_db(fields=["state", "message", "changed_at", "due_at", "attempts", "object_uid"])
        if changed:
            after = {"state": str(to), **({"message": message} if message else {})}
            _record(launch, action, actor=actor, now=now, ip=ip, before={"state": str(expected)}, after=after)
            if to == State.STOPPING:
                _announce(launch)
    return bool(changed)


def _later(launch: Launch, error: errors.ClusterError, *, now: datetime) -> None:
    wait = max(backoff(launch.attempts), timedelta(seconds=error.retry_after or 0))
    Launch.objects.filter(pk=launch.pk, state=launch.state).update(
        due_at=now + wait, attempts=launch.attempts + 1, message=error.message
    )


def _announce(launch: Launch) -> None:
    transaction.on_commit(lambda: launch_due.send(Launch, launch_id=launch.pk))


def _summary(launch: Launch) -> dict[str, Any]:
    return {
        "state": launch.state,
        "request": launch.request.object_name,
        "template": launch.template.slug,
        "parameters": launch.parameters,
    }


def _record(
    launch: Launch,
    verb: str,
    *,
    actor: User | None,
    now: datetime,
    ip: str | None = None,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    audit.record(
        now=now, actor=actor, action=f"launch.{verb}", target=launch, target_id=str(launch.key),
        project=launch.request.project, before=before, after=after, source_ip=ip,
    )  # fmt: skip
