"""Claims that name a class and hold nothing: which would begin or cease to fit, as the engine says.

Claims of one form have equal chances, and nodes that are alike are tried once.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from django.db.models import Count, TextField
from django.db.models.functions import Cast

from inventory.class_effect.model import MOST, ObjectName, Objects, Waiting
from inventory.class_users import names_class
from inventory.mirror.matching import expressions_of
from inventory.models import Claim, Cluster
from inventory.snapshot import fleet as fleet_of
from portal.dra import model as dra
from portal.dra.allocator import DEFAULT_STEPS
from portal.dra.availability import unavailable
from portal.dra.cluster import candidates, tried
from portal.dra.fleet import Fleet
from portal.dra.outcomes import Allocated, Undecided

Spec = Mapping[str, Any]

# Forms of claims that the engine is asked about, the most frequent first.
MOST_FORMS = 12
# A question about somebody else's claim may be given up sooner than one about one's own.
STEPS = DEFAULT_STEPS // 20
MAX_CACHED = 512

_lock = threading.Lock()
_cached: "OrderedDict[Hashable, bool | None]" = OrderedDict()


def waiting_claims(
    cluster: Cluster,
    name: str,
    *,
    before: Spec | None,
    after: Spec | None,
    same: bool,
    looks: int | None = None,
) -> Waiting:
    """Which claims begin or cease to fit on some node as it is now, whatever else their Pods ask of it.
    Nobody does where the selectors say the `same` of every device. After `looks` at nodes no further claim is
    asked about: who comes again while the cluster is as it was is told more."""
    forms = list(forms_of(cluster, name))
    if not forms or same:
        return Waiting(asked=sum(count for _form, count in forms))
    asker = _Asker(cluster, name, looks=looks)
    starting: list[str] = []
    stopping: list[str] = []
    counts = dict(forms)
    unasked = sum(count for _form, count in forms[MOST_FORMS:])
    left = 0
    for form, count in forms[:MOST_FORMS]:
        if asker.tired(form, before, after):
            left += count
            continue
        fitted, fits = asker.fits(form, before), asker.fits(form, after)
        if fits is None or fitted is None:
            unasked += count
        elif fits and not fitted:
            starting.append(form)
        elif fitted and not fits:
            stopping.append(form)
    return Waiting(
        asked=sum(counts.values()) - unasked - left,
        unasked=unasked,
        left=left,
        starting=_objects(cluster, starting, counts),
        stopping=_objects(cluster, stopping, counts),
    )


class _Asker:
    """Asks the engine, and remembers its answers for as long as the mirror of the cluster is the same."""

    def __init__(self, cluster: Cluster, name: str, *, looks: int | None) -> None:
        self.cluster = cluster
        self.name = name
        self.looks = looks
        # Read before the fleet is: answers under a version are never older than that version.
        self.version = Cluster.objects.values_list("mirror_version", flat=True).get(pk=cluster.pk)
        self.fleet = fleet_of(cluster)
        self._of_spec: dict[str, Fleet] = {}

    def tired(self, form: str, *specs: Spec | None) -> bool:
        """Whether there were looks enough, and an answer would take more."""
        if self.looks is None or self.looks > 0:
            return False
        with _lock:
            return any(self._key(form, spec) not in _cached for spec in specs)

    def fits(self, form: str, spec: Spec | None) -> bool | None:
        """Whether claims of this form fit where the class has this spec; None where that took too long."""
        key = self._key(form, spec)
        with _lock:
            if key in _cached:
                _cached.move_to_end(key)
                return _cached[key]
        claim = _claim(form)
        answer, looks = (None, 0) if claim is None else fits_somewhere(self._fleet(spec), claim)
        if self.looks is not None:
            self.looks -= looks
        # A cluster that was never mirrored has no version to go by.
        with _lock:
            if self.version:
                _cached[key] = answer
            while len(_cached) > MAX_CACHED:
                _cached.popitem(last=False)
        return answer

    def _key(self, form: str, spec: Spec | None) -> Hashable:
        # Of a class only its selectors matter to what fits.
        selectors = None if spec is None else tuple(expressions_of(spec))
        return self.cluster.pk, self.version, self.fleet.features, self.name, form, selectors

    def _fleet(self, spec: Spec | None) -> Fleet:
        text = "" if spec is None else repr(expressions_of(spec))
        if text not in self._of_spec:
            self._of_spec[text] = self.fleet.with_class(self.name, _decoded(spec))
        return self._of_spec[text]


def forms_of(cluster: Cluster, name: str) -> Iterator[tuple[str, int]]:
    """Specs, as text, of claims that name the class and hold nothing, with how many have them, most first."""
    rows = _pending(cluster).filter(form__contains=f'"{name}"')
    counted = rows.order_by().values_list("form").annotate(count=Count("pk")).order_by("-count", "form")
    for form, count in counted:
        if names_class(msgspec.json.decode(form), name):
            yield form, count


def fits_somewhere(fleet: Fleet, claim: dra.ResourceClaim) -> tuple[bool | None, int]:
    """Whether some node that takes Pods has room for the claim (None where the search took too long), and at
    how many nodes that took a look."""
    nodes = [node.metadata.name for node in candidates(fleet) if unavailable(node) is None]
    given_up, looks = False, 0
    for _node, outcome in tried(fleet, (claim,), nodes, max_steps=STEPS):
        looks += 1
        if isinstance(outcome, Allocated):
            return True, looks
        given_up = given_up or isinstance(outcome, Undecided)
    return (None if given_up else False), looks


def _pending(cluster: Cluster) -> Any:
    rows = Claim.objects.filter(cluster=cluster, allocated=False, deleted_at=None)
    return rows.annotate(form=Cast("spec", TextField()))


def _objects(cluster: Cluster, forms: Sequence[str], counts: Mapping[str, int]) -> Objects:
    if not forms:
        return Objects()
    rows = _pending(cluster).filter(form__in=forms).order_by("namespace", "name")[:MOST]
    return Objects(
        count=sum(counts[form] for form in forms),
        first=tuple(ObjectName(namespace, name) for namespace, name in rows.values_list("namespace", "name")),
    )


def _claim(form: str) -> dra.ResourceClaim | None:
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "waiting", "namespace": "default"},
        "spec": msgspec.json.decode(form),
    }
    try:
        decoded = dra.decode_object(body)
    except dra.Malformed:
        return None
    return decoded if isinstance(decoded, dra.ResourceClaim) else None


def _decoded(spec: Spec | None) -> dra.DeviceClassSpec | None:
    """The spec as the engine reads it; one that it cannot read is none that could serve anybody."""
    return None if spec is None else msgspec.convert(spec, dra.DeviceClassSpec)
