"""The queue of Kueue that workloads of a request go through, and what a request may not ask for then."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django_stubs_ext import StrOrPromise

from claims.asks.reading import WrongValue, read_text
from claims.models import Request
from claims.requests.snippets import kueue_refusals
from inventory.models import Cluster, LocalQueue

if TYPE_CHECKING:
    from claims.asks.values import Reading

# What of a request Kueue would not admit (`claims.requests.snippets.kueue_refusals`).
KUEUE_REFUSES: Mapping[str, StrOrPromise] = {
    "claim": gettext_lazy("Kueue admits no claims that Pods share; ask for a template instead."),
    "alternatives": gettext_lazy("Kueue admits no alternatives."),
    "constraints": gettext_lazy("Kueue admits no constraints between devices."),
    "config": gettext_lazy("Kueue admits no claims that configure a driver."),
    "admin-access": gettext_lazy("Kueue admits no administrative access."),
}
# The field of an ask that each is about; others are the flavor's own.
_FIELDS = {"claim": "shape", "alternatives": "alternatives"}


def queues_of(cluster: Cluster | None, namespace: str) -> list[LocalQueue]:
    """LocalQueues of the namespace, by name."""
    if cluster is None or not namespace:
        return []
    return list(LocalQueue.objects.filter(cluster=cluster, namespace=namespace).order_by("name"))


def read_queue(values: Mapping[str, object], *, cluster: Cluster | None, namespace: str) -> str:
    """The queue that is named; "" = none. Raises WrongValue."""
    name = read_text(values, "queue", limit=253)
    if not name or cluster is None or not namespace:
        return name
    queues = {queue.name: queue for queue in queues_of(cluster, namespace)}
    if name not in queues:
        raise WrongValue(
            _("The namespace %(namespace)s has no queue “%(name)s”. It has: %(queues)s.")
            % {"namespace": namespace, "name": name[:63], "queues": ", ".join(queues) or "–"}
        )
    if queues[name].stop_policy not in ("", "None"):
        raise WrongValue(_("This queue is stopped: it admits nothing at present."))
    return name


def refusals(seen: "Reading") -> Iterator[tuple[str, str]]:
    """(field, message) for each thing asked for that Kueue would not admit."""
    if not seen.shape:
        return
    for what in kueue_refusals(seen.shape, seen.spec or {}):
        said = str(KUEUE_REFUSES[what])
        if what == "constraints":
            yield from ((name, said) for name in ("same", "different") if getattr(seen.options, name))
        else:
            yield _FIELDS.get(what, "queue"), said


def off_by_queue(queue: str, *, by_plugin: bool) -> frozenset[str]:
    """Fields and shapes that a queue switches off, for a form."""
    if not queue or by_plugin:
        return frozenset()
    return frozenset({"alternatives", "same", "different", Request.Shape.CLAIM.value})
