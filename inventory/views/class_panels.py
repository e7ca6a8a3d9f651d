"""The parts beside the editor of a class, while it is typed: what an expression means, what there is to
choose from, and the effect."""

from collections.abc import Collection
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from inventory import classes
from inventory.attribute_table import attribute_rows
from inventory.class_effect import effect_of
from inventory.class_form import ClassForm
from inventory.expressions import place_of
from inventory.guards import guarded
from inventory.models import Cluster, DeviceClass, Pool
from portal import htmx
from portal.access import require_administrator
from portal.texts import searched

# Looks at nodes for one answer of the panel: a fraction of a second of the engine. The rest follows.
LOOKS = 15_000
MAX_ROUNDS = 8
OTHERS = 20


@require_administrator
@require_POST
def expression_check(request: HttpRequest) -> HttpResponse:
    """What one of the form's expressions (number ``index``) means on the chosen cluster, while it is
    typed."""
    typed = request.POST.getlist("expression")
    place = number(request.POST.get("index", "0"))
    text = typed[place].replace("\r\n", "\n").strip() if place < len(typed) else ""
    cluster = Cluster.objects.filter(name=searched(request.POST.get("cluster", ""), limit=63)).first()
    context: dict[str, Any] = {"text": text, "cluster": cluster, "index": place}
    if text and len(text.encode()) > classes.MAX_EXPRESSION:
        context["too_long"] = True
    elif text and cluster is not None:
        check = classes.check_expression(cluster=cluster, expression=text)
        safe = guarded(cluster, text) if check.evaluation_error else None
        context |= {"check": check, "place": place_of(text, check.line, check.column), "guarded": safe}
    return htmx.render(request, "inventory/_expression_check.html", context)


@require_administrator
@require_safe
def class_attributes(request: HttpRequest) -> HttpResponse:
    """The attributes that a cluster's devices have, to choose from."""
    cluster = Cluster.objects.filter(name=searched(request.GET.get("cluster", ""), limit=63)).first()
    return htmx.render(request, "inventory/_class_attributes.html", attribute_context(cluster))


@require_administrator
@require_POST
def class_effect(request: HttpRequest) -> HttpResponse:
    """What the class as it is typed would change: devices at once, then, in parts, claims that wait."""
    names = list(Cluster.objects.filter(enabled=True).order_by("name").values_list("name", flat=True))
    fixed = searched(request.POST.get("class", ""), limit=253)
    form = ClassForm(request.POST, clusters=names, fixed=fixed or False)
    form.is_valid()
    context = effect_context(request, form)
    template = "_class_effect_waiting" if "waiting" in request.POST else "_class_effect"
    return htmx.render(request, f"inventory/{template}.html", context)


def effect_context(request: HttpRequest, form: ClassForm) -> dict[str, Any]:
    """The effect on the chosen cluster, and in short on others that have a class of this name."""
    cluster = Cluster.objects.filter(name=searched(request.POST.get("cluster", ""), limit=63)).first()
    broken = set(form.errors) & {"text", "config", "labels", "annotations", "extended_resource_name"}
    if cluster is None:
        return {"why_not": _("Choose a cluster to see what it would change there.")}
    if broken:
        return {"why_not": _("It cannot be read yet: see the error beside the field.")}
    name, wanted = form.class_name, form.wanted()
    rows = {
        found.cluster_id: found
        for found in DeviceClass.objects.filter(name=name).select_related("cluster").order_by("cluster__name")
    }
    here = rows.pop(cluster.pk, None)
    waiting = "waiting" in request.POST or "effect" in request.POST
    turn = number(request.POST.get("round", "0"))
    effect = effect_of(
        cluster=cluster,
        name=name,
        before=here.spec if here else None,
        after=wanted.spec(),
        with_waiting=waiting,
        looks=LOOKS if "waiting" in request.POST else None,
    )
    context = {
        "effect": effect,
        "cluster": cluster,
        "name": name,
        "exists": here is not None,
        "turn": turn + 1,
        "goes_on": bool(effect.waiting.left) and turn < MAX_ROUNDS,
    }
    if not waiting:
        context["others"] = [
            effect_of(
                cluster=found.cluster, name=name, before=found.spec, after=wanted.spec(), with_waiting=False
            )
            for found in list(rows.values())[:OTHERS]
        ]
    return context


def attribute_context(cluster: Cluster | None) -> dict[str, Any]:
    """The rows of the table of attributes."""
    return {"attribute_cluster": cluster, "attributes": attribute_rows(cluster) if cluster else ()}


def drivers_of(cluster: Cluster | None) -> Collection[str]:
    """Drivers that publish devices on the cluster, or on any where none is chosen."""
    pools = Pool.objects.filter(cluster=cluster) if cluster else Pool.objects.all()
    return set(pools.values_list("driver", flat=True).distinct())


def number(text: str) -> int:
    """A small number of a form; 0 for what is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 4 else 0
