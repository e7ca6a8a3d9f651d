"""Who pays for which part of an interval of the ledger.

A request's project pays for all that the request holds. What no request made belongs to the project of its
namespace, and to the next one from when the namespace is bound to that; while it is bound to none, nobody is
known to pay.
"""

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from functools import cached_property

from claims.models import DrillObject
from inventory.models import NamespaceBinding

Binding = tuple[datetime, datetime | None, int]


class Owners:
    """All bindings of namespaces, and what drills held in one; one query each, once it is asked."""

    def __init__(self) -> None:
        self._drilled: set[tuple[int, str]] | None = None

    @cached_property
    def _bindings(self) -> dict[tuple[int, str], list[Binding]]:
        found: dict[tuple[int, str], list[Binding]] = defaultdict(list)
        rows = NamespaceBinding.objects.order_by("valid_from").values_list(
            "cluster_id", "namespace", "valid_from", "valid_until", "project_id"
        )
        for cluster, namespace, since, until, project in rows:
            found[cluster, namespace].append((since, until, project))
        return found

    def parts(
        self, *, cluster_id: int, namespace: str, project_id: int | None, start: datetime, end: datetime
    ) -> Iterator[tuple[datetime, datetime, int | None]]:
        """[start, end) of what no request made, cut where its namespace changes hands. `project_id` pays
        where no binding is known at all."""
        bindings = self._bindings.get((cluster_id, namespace))
        if not bindings:
            yield start, end, project_id
            return
        at = start
        for valid_from, valid_until, project in bindings:
            since = max(at, valid_from)
            until = end if valid_until is None else min(end, valid_until)
            if since >= until:
                continue
            if at < since:
                yield at, since, None
            yield since, until, project
            at = until
        if at < end:
            yield at, end, None

    def is_drilled(self, *, cluster_id: int, namespace: str, claim_uid: str) -> bool:
        """Whether a claim was a drill's: nobody pays for it, whosever its namespace is. Asks the database,
        once, only where a namespace is somebody's."""
        if (cluster_id, namespace) not in self._bindings:
            return False
        if self._drilled is None:
            self._drilled = set(DrillObject.objects.values_list("cluster_id", "uid"))
        return (cluster_id, claim_uid) in self._drilled

    def moving(self, *, before: datetime) -> set[str]:
        """Names of namespaces that change hands before a time, somewhere: what they hold may have several
        payers."""
        return {
            namespace
            for (_cluster, namespace), bindings in self._bindings.items()
            if len(bindings) > 1 or any(until is not None and until < before for _f, until, _p in bindings)
        }

    def bound(self) -> set[str]:
        """Names of namespaces that were ever bound, somewhere."""
        return {namespace for _cluster, namespace in self._bindings}
