"""Whose a namespace was when an object was made in it.

A request of the desk is named by a label on what anybody writes: Pods of an entitlement, claims made from a
template. The label alone decides nothing. It counts only where the namespace was the request's project's at
that time: whoever has the namespace since would else use up another's request, on another's account.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from claims.models import Request
from inventory.models import Cluster, NamespaceBinding

Period = tuple[datetime, datetime | None, int]


class Namespaces:
    """The bindings of the namespaces of some requests, read once they are asked for; one query."""

    def __init__(self, *, cluster: Cluster, names: Iterable[str]) -> None:
        self._cluster, self._names = cluster, set(names)
        self._bindings: dict[str, list[Period]] | None = None

    def was_of(self, request: Request, at: datetime | None) -> bool:
        """Whether the request's namespace was its project's at an instant. Nothing was made for a request
        before it was asked, whatever another clock says."""
        at = request.created_at if at is None else max(at, request.created_at)
        return any(
            since <= at and (until is None or at < until) and project == request.project_id
            for since, until, project in self._read().get(request.namespace, ())
        )

    def _read(self) -> dict[str, list[Period]]:
        if self._bindings is None:
            self._bindings = defaultdict(list)
            rows = NamespaceBinding.objects.filter(cluster=self._cluster, namespace__in=self._names)
            for one in rows:
                self._bindings[one.namespace].append((one.valid_from, one.valid_until, one.project_id))
        return self._bindings
