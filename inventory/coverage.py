"""Whether what the mirror holds of a cluster may be told as present fact.

The desk never presents the past as the present: a cluster that cannot be reached, that nobody follows, or
whose watches have gone silent is *not in step*; its devices have an unknown state, and pages say as of when
they speak.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.translation import gettext_lazy as _
from django_stubs_ext import StrOrPromise

from inventory.models import Cluster, Stream

# What the state of a device hangs on: who publishes it, who holds it, whether its node would take a Pod.
DEVICE_RESOURCES = ("resourceslices", "resourceclaims", "nodes")
# API servers send a bookmark about once a minute on a quiet watch; two missing ones are silence.
SILENCE = timedelta(minutes=3)
# A follower that reaches its cluster says so every few seconds; without one, nothing is new.
NO_CONTACT = timedelta(minutes=1)


@dataclass(frozen=True)
class Coverage:
    """What may be said about one cluster now."""

    cluster: Cluster
    in_step: bool
    # Up to when the mirror is known to equal the cluster; None = it never was.
    as_of: datetime | None
    # Why it is not in step, for people; empty when it is.
    why: StrOrPromise = ""


def coverage_of(cluster: Cluster, streams: Iterable[Stream], *, now: datetime) -> Coverage:
    """Judges one cluster by its state and the streams that decide the state of devices."""
    by_resource = {stream.resource: stream for stream in streams}
    relevant = [by_resource.get(resource) for resource in DEVICE_RESOURCES]
    heard = [_heard(stream) for stream in relevant]
    as_of = None if None in heard else min(at for at in heard if at is not None)
    why: StrOrPromise = ""
    if not cluster.enabled:
        why = _("not followed")
    elif cluster.state != Cluster.State.SYNCED:
        why = Cluster.State(cluster.state).label
    elif as_of is None:
        why = _("not listed yet")
    elif broken := [
        s for s in relevant if s and s.state not in {Stream.State.WATCHING, Stream.State.LISTING}
    ]:
        why = _("%(resource)s: %(state)s") % {
            "resource": broken[0].resource,
            "state": Stream.State(broken[0].state).label,
        }
    elif cluster.contacted_at is None or cluster.contacted_at < now - NO_CONTACT:
        why = _("nobody follows it")
    elif as_of < now - SILENCE:
        why = _("nothing heard")
    return Coverage(cluster=cluster, in_step=not why, as_of=as_of, why=why)


def coverage_of_all(*, now: datetime) -> Mapping[int, Coverage]:
    """Coverage of every cluster by primary key, in two queries."""
    streams: dict[int, list[Stream]] = {}
    for stream in Stream.objects.filter(resource__in=DEVICE_RESOURCES):
        streams.setdefault(stream.cluster_id, []).append(stream)
    clusters = Cluster.objects.defer("kubeconfig_encrypted").order_by("name")
    return {c.pk: coverage_of(c, streams.get(c.pk, ()), now=now) for c in clusters}


def _heard(stream: Stream | None) -> datetime | None:
    if stream is None or stream.listed_at is None:
        return None
    return max(filter(None, (stream.heard_at, stream.listed_at)))
