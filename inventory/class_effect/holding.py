"""Claims that hold a device which a class would match no longer: they keep it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from django.db.models import Count, Q, TextField
from django.db.models.functions import Cast

from inventory.class_effect.judging import Part
from inventory.class_effect.model import MOST, ObjectName, Objects
from inventory.models import Claim, ClaimDevice, Cluster
from portal.sql import among


def keeping(cluster: Cluster, name: str, lost: Part) -> Objects:
    """Claims that got one of the lost devices by the class. Claims of a large fleet are of few forms, so that
    only these are read, not the claims."""
    if not lost:
        return Objects()
    held = ClaimDevice.objects.filter(
        among("device__profile", lost.kinds) | among("device", lost.devices.keys()), claim__cluster=cluster
    ).order_by()
    spoken = held.annotate(form=Cast("claim__spec", TextField())).filter(form__contains=f'"{name}"')
    by_form: dict[str, dict[str, int]] = {}
    for form, request, count in spoken.values_list("form", "request").annotate(
        Count("claim_id", distinct=True)
    ):
        by_form.setdefault(form, {})[request] = count
    total = 0
    relevant = Q(pk__in=())
    for form, requests in by_form.items():
        own = requests.keys() & set(requests_by_class(msgspec.json.decode(form), name))
        if len(own) == 1:
            total += sum(requests[request] for request in own)
        elif own:
            same = spoken.filter(form=form, request__in=own)
            total += same.values("claim_id").distinct().count()
        if own and len(relevant) < MOST:
            relevant |= Q(form=form, request__in=sorted(own))
    return (
        Objects(count=total, first=_first(spoken.filter(relevant).values("claim_id"))) if total else Objects()
    )


def _first(keys: Any) -> Sequence[ObjectName]:
    claims = Claim.objects.filter(pk__in=keys).order_by("namespace", "name")[:MOST]
    return tuple(ObjectName(namespace, name) for namespace, name in claims.values_list("namespace", "name"))


def requests_by_class(spec: Mapping[str, Any], name: str) -> Iterator[str]:
    """The requests of a claim that ask for the class, as results of an allocation name them: subrequests with
    the request that they belong to."""
    for request in (spec.get("devices") or {}).get("requests") or ():
        if (request.get("exactly") or {}).get("deviceClassName") == name:
            yield str(request.get("name", ""))
        for part in request.get("firstAvailable") or ():
            if part.get("deviceClassName") == name:
                yield f"{request.get('name', '')}/{part.get('name', '')}"
