"""The request that an ask comes to, and how long it may wait."""

import uuid
from datetime import datetime, timedelta
from typing import Any

from claims.asks.values import Ask
from claims.models import Flavor, Request
from claims.requests import manifests
from claims.requests.approval_rules import approval_for
from claims.requests.transitions import announce, record
from portal.accounts.models import User

State = Request.State

# Who asks for two hours is willing to queue for longer than that.
SHORTEST_WAIT = timedelta(days=7)


def patience(duration: timedelta) -> timedelta:
    """How long a request may wait for its first device: a wait holds nothing and costs nothing."""
    return max(duration, SHORTEST_WAIT)


def request_of(ask: Ask, *, key: uuid.UUID, now: datetime) -> Request:
    """The request that an ask comes to, not stored yet."""
    by_plugin = ask.backend == Request.Backend.PLUGIN
    approval, own = approval_for(ask)
    waits = approval != Flavor.Approval.NONE
    placed = ask.placement
    return Request(
        key=key,
        project=ask.project,
        requester=ask.user,
        cluster=ask.cluster,
        namespace=ask.namespace,
        flavor=ask.flavor,
        backend=ask.backend,
        pool=placed.pool if placed else "",
        device_class=ask.device_class,
        extended_resource=placed.extended_resource if placed and by_plugin else "",
        node_selector=placed.node_selector if placed else {},
        tolerations=placed.tolerations if placed else [],
        count=ask.count,
        min_memory=ask.min_memory,
        shape=ask.shape,
        spec={} if by_plugin else ask.spec,
        options=ask.options.as_dict(),
        duration=ask.duration,
        purpose=ask.purpose,
        approval=approval,
        own_approval=own,
        ends_pods=ask.flavor is not None and ask.flavor.ends_pods,
        hold_steps_aside=ask.flavor is not None and ask.flavor.hold_steps_aside,
        state=State.WAITING_FOR_APPROVAL if waits else State.SUBMITTED,
        created_at=now,
        changed_at=now,
        expires_at=now + patience(ask.duration),
        due_at=None if waits else now,
        object_name=manifests.object_name(project=ask.project.slug, key=str(key)),
    )


def add_follower(request: Request, *, actor: User, now: datetime, ip: str | None = None) -> None:
    """Store a request that takes the place of another; it was judged and agreed to as a change. Inside the
    caller's transaction."""
    request.save(force_insert=True)
    record(request, "request.submit", actor=actor, now=now, after=summary(request), ip=ip)
    announce(request)


def summary(request: Request) -> dict[str, Any]:
    """What was asked for, for the audit entry."""
    return {
        "state": request.state,
        "cluster": request.cluster.name,
        "namespace": request.namespace,
        **({"flavor": request.flavor.slug} if request.flavor else {}),
        **({"pool": request.pool} if request.pool else {}),
        **(
            {"extended_resource": request.extended_resource}
            if request.extended_resource
            else {"device_class": request.device_class}
        ),
        "count": request.count,
        "min_memory": request.min_memory,
        "shape": request.shape,
        "duration_hours": request.duration / timedelta(hours=1),
        "purpose": request.purpose,
        **({"options": request.options} if request.options else {}),
    }
