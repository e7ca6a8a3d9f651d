"""Templates and flavors that name a class and for which no device of the cluster would match any more,
whoever holds it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from django.db.models import Count, TextField
from django.db.models.functions import Cast

from inventory.class_effect.judging import Judge
from inventory.class_effect.model import MOST, ObjectName, Objects
from inventory.class_users import Demand, demands_of, names_class
from inventory.mirror.matching import expressions_of
from inventory.models import ClaimTemplate, Cluster, DeviceClass

Spec = Mapping[str, Any]
# The specs of the cluster's classes by name, and of the one in question as it would be; None = no such class.
Classes = Callable[[str], Spec | None]

# Forms of templates that are looked at, the most frequent first; a fleet has few.
MOST_FORMS = 200


def classes_with(cluster: Cluster, name: str, spec: Spec | None) -> Classes:
    """The cluster's classes, where `name` has this spec."""
    stored: dict[str, Spec] = {}

    def spec_of(wanted: str) -> Spec | None:
        if wanted == name:
            return spec
        if not stored:
            stored.update(DeviceClass.objects.filter(cluster=cluster).values_list("name", "spec"))
        return stored.get(wanted)

    return spec_of


def empty_templates(judge: Judge, name: str, *, before: Classes, after: Classes) -> Objects:
    """Templates of which some request would match no device; `already` those of which it is so now."""
    rows = ClaimTemplate.objects.filter(cluster=judge.cluster).annotate(form=Cast("spec", TextField()))
    naming = rows.filter(form__contains=f'"{name}"').order_by()
    counted = naming.values_list("form").annotate(count=Count("pk")).order_by("-count", "form")
    total = 0
    states: dict[str, bool] = {}
    for form, count in counted[:MOST_FORMS]:
        spec = msgspec.json.decode(form)
        if names_class(spec, name) and is_empty(judge, spec, after):
            total += count
            states[form] = is_empty(judge, spec, before)
    first = naming.filter(form__in=states).order_by("namespace", "name")[:MOST]
    return Objects(
        count=total,
        first=tuple(
            ObjectName(namespace, template, already=states[form])
            for namespace, template, form in first.values_list("namespace", "name", "form")
        ),
    )


def is_empty(judge: Judge, spec: Spec, classes: Classes) -> bool:
    """Whether some request of a claim has no device of the cluster that its class and selectors admit."""
    for request in (spec.get("devices") or {}).get("requests") or ():
        asks = [ask for ask in (request.get("exactly"), *(request.get("firstAvailable") or ())) if ask]
        if asks and all(_admits_nothing(judge, ask, classes) for ask in asks):
            return True
    return False


def empty_flavors(judge: Judge, name: str, after: Spec | None) -> Sequence[str]:
    """Flavors of the catalogue that the class serves on the cluster and that it would have no device for."""
    return sorted({demand.name for demand in _empty_demands(judge, name, after)})


def _empty_demands(judge: Judge, name: str, after: Spec | None) -> Iterator[Demand]:
    for demand in demands_of(judge.cluster.pk, name):
        expressions = [*expressions_of(after or {}), *demand.expressions]
        if after is None or not judge.count(judge.of(expressions)):
            yield demand


def _admits_nothing(judge: Judge, ask: Mapping[str, Any], classes: Classes) -> bool:
    spec = classes(str(ask.get("deviceClassName", "")))
    if spec is None:
        return True
    return not judge.count(judge.of([*expressions_of(spec), *expressions_of(ask)]))
