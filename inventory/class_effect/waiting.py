"""Claims that name a class and hold nothing: which would begin or cease to fit, as the engine says.

Claims of one form have equal chances, and nodes that are alike are tried once.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from django.db.models import Count, TextField
from django.db.models.functions import Cast

from inventory.class_effect.model import MOST, ObjectName, Objects, Waiting
from inventory.class_users import names_class
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


def waiting_claims(
    cluster: Cluster, name: str, *, before: Spec | None, after: Spec | None, same: bool
) -> Waiting:
    """Which claims begin or cease to fit on some node as it is now, whatever else their Pods ask of it.
    Nobody does where the selectors say the `same` of every device."""
    forms = list(forms_of(cluster, name))
    if not forms or same:
        return Waiting(asked=sum(count for _form, count in forms))
    fleet = fleet_of(cluster)
    then, now = (fleet.with_class(name, _decoded(spec)) for spec in (after, before))
    starting: list[str] = []
    stopping: list[str] = []
    counts = dict(forms)
    unasked = sum(count for _form, count in forms[MOST_FORMS:])
    for form, count in forms[:MOST_FORMS]:
        claim = _claim(form)
        fits, fitted = (None, None) if claim is None else (fits_somewhere(f, claim) for f in (then, now))
        if fits is None or fitted is None:
            unasked += count
        elif fits and not fitted:
            starting.append(form)
        elif fitted and not fits:
            stopping.append(form)
    return Waiting(
        asked=sum(counts.values()) - unasked,
        unasked=unasked,
        starting=_objects(cluster, starting, counts),
        stopping=_objects(cluster, stopping, counts),
    )


def forms_of(cluster: Cluster, name: str) -> Iterator[tuple[str, int]]:
    """Specs, as text, of claims that name the class and hold nothing, with how many have them, most first."""
    rows = _pending(cluster).filter(form__contains=f'"{name}"')
    counted = rows.order_by().values_list("form").annotate(count=Count("pk")).order_by("-count", "form")
    for form, count in counted:
        if names_class(msgspec.json.decode(form), name):
            yield form, count


def fits_somewhere(fleet: Fleet, claim: dra.ResourceClaim) -> bool | None:
    """Whether some node that takes Pods has room for the claim; None where the search took too long."""
    nodes = [node.metadata.name for node in candidates(fleet) if unavailable(node) is None]
    given_up = False
    for _node, outcome in tried(fleet, (claim,), nodes, max_steps=STEPS):
        if isinstance(outcome, Allocated):
            return True
        given_up = given_up or isinstance(outcome, Undecided)
    return None if given_up else False


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
