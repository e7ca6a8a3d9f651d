"""Lifecycle drills, for administrators; auditors look."""

import uuid
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from claims.catalogue.forms import DomainForm
from claims.drill import report, starting, words
from claims.drill.free import free_in_pool
from claims.drill.starting import UnableToDrill
from claims.drill.steps import STEPS
from claims.models import Drill, PoolPlan
from claims.views.poolmoves import plan_or_404
from portal import htmx
from portal.access import may_administer, person, require_administrator, require_reader_of_everything
from portal.accounts.audit import source_ip

_PLAIN = {"autocomplete": "off", "spellcheck": "false"}


class DrillForm(DomainForm):
    version = forms.CharField(widget=forms.HiddenInput, required=False)
    namespace = forms.CharField(
        label=gettext_lazy("Namespace"),
        help_text=gettext_lazy("One that belongs to no project: nothing of a drill is billed."),
        widget=forms.TextInput(attrs=_PLAIN | {"maxlength": 63}),
    )
    part = forms.CharField(
        label=gettext_lazy("On which nodes"),
        widget=forms.Select(
            choices=[
                ("canary", gettext_lazy("the canary's")),
                ("pool", gettext_lazy("all others of the pool")),
            ]
        ),
    )
    tolerations = forms.CharField(
        label=gettext_lazy("Tolerations"),
        required=False,
        help_text=gettext_lazy("One a line, as key=value:Effect."),
        widget=forms.Textarea(attrs={"rows": 2, "class": "cd-mono", "spellcheck": "false"}),
    )
    step_seconds = forms.CharField(
        label=gettext_lazy("Seconds that a step may take"),
        widget=forms.NumberInput(attrs={"min": 5, "max": 3600, "inputmode": "numeric"}),
    )
    ask_hours = forms.CharField(
        label=gettext_lazy("Hours that an operator has"),
        widget=forms.NumberInput(attrs={"min": 1, "max": 336, "inputmode": "numeric"}),
    )
    questions = forms.MultipleChoiceField(
        label=gettext_lazy("Questions"), required=False, widget=forms.CheckboxSelectMultiple
    )
    last_device = forms.CharField(
        label=gettext_lazy("Name of the pool, typed"),
        required=False,
        help_text=gettext_lazy("Only where the drill would take the last free device."),
        widget=forms.TextInput(attrs=_PLAIN | {"maxlength": 63}),
    )


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def drill_create(request: HttpRequest, pk: int) -> HttpResponse:
    """What a drill would do on a pool, and starting it."""
    plan = plan_or_404(pk)
    form, status = DrillForm(values=_values(plan)), 200
    if request.method == "POST":
        try:
            drill = starting.start(
                plan=plan,
                terms=starting.read_drill(request.POST),
                user=person(request),
                now=timezone.now(),
                source_ip=source_ip(request),
                **run_as(),
            )
        except UnableToDrill as error:
            form, status = DrillForm(values=request.POST, errors=error.errors), 422
        else:
            messages.success(request, _("The drill has begun."))
            return htmx.redirect(request, "drill-detail", drill.key)
    field = form.fields["questions"]
    assert isinstance(field, forms.MultipleChoiceField)
    field.choices = [(step.code, words.question(step.code)["question"]) for step in STEPS]
    free = free_in_pool(Drill(cluster=plan.cluster, device_class=plan.device_class,
                              node_selector=plan.canary_labels or plan.labels))  # fmt: skip
    context = {
        "plan": plan,
        "form": form,
        "free": free,
        "running": plan.drills.exclude(state=Drill.State.FINISHED).first(),
        "steps": [(step, words.question(step.code)) for step in STEPS],
        "create_namespace": _namespace_yaml(starting.NAMESPACE),
    }
    return render(request, "claims/drill_form.html", context, status=status)


@require_safe
@require_reader_of_everything
def drill_detail(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """How far it is, what was observed, and what it asks for."""
    drill = drill_or_404(key)
    finished = drill.state == Drill.State.FINISHED
    context = _context(request, drill) | {"finished": finished}
    return htmx.render(request, "claims/drill_detail.html", context, partial="steps", finished=finished)


@require_safe
@require_reader_of_everything
def drill_print(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """The evidence for paper."""
    return render(request, "claims/drill_print.html", _context(request, drill_or_404(key)))


@require_safe
@require_reader_of_everything
def drill_export(_request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """The evidence as a file."""
    drill = drill_or_404(key)
    answer = JsonResponse(report.document(drill), json_dumps_params={"indent": 2, "ensure_ascii": False})
    answer["Content-Disposition"] = f'attachment; filename="drill-{str(drill.key)[:8]}.json"'
    return answer


@require_POST
@require_administrator
def drill_answer(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """ "I did it", or "skip"."""
    drill = drill_or_404(key)
    try:
        starting.answer(
            drill=drill,
            code=request.POST.get("question", "")[:40],
            did=request.POST.get("answer") == "did",
            user=person(request),
            now=timezone.now(),
            source_ip=source_ip(request),
        )
    except UnableToDrill as error:
        messages.error(request, " ".join(said for many in error.errors.values() for said in many))
    return htmx.redirect(request, "drill-detail", key)


@require_POST
@require_administrator
def drill_cancel(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """Call it off; everything of it is removed."""
    starting.cancel(
        drill=drill_or_404(key), user=person(request), now=timezone.now(), source_ip=source_ip(request)
    )
    messages.success(request, _("Called off. What it made is being removed."))
    return htmx.redirect(request, "drill-detail", key)


# --- inside -----------------------------------------------------------------------------------------


def drill_or_404(key: uuid.UUID) -> Drill:
    """The drill with what is told of it."""
    rows = Drill.objects.select_related("cluster", "plan", "person")
    return get_object_or_404(rows.defer("cluster__kubeconfig_encrypted"), key=key)


def run_as() -> dict[str, Any]:
    """What Pods of drills run, as the desk's settings say."""
    return {"image": settings.DRILL_IMAGE, "command": tuple(settings.DRILL_COMMAND)}


def _context(request: HttpRequest, drill: Drill) -> dict[str, Any]:
    return {
        "drill": drill,
        "steps": report.steps_of(drill),
        "may_administer": may_administer(person(request)),
        "now": timezone.now(),
    }


def _values(plan: PoolPlan) -> dict[str, object]:
    return {
        "namespace": starting.NAMESPACE,
        "part": "canary" if plan.canary_labels else "pool",
        "step_seconds": "120",
        "ask_hours": "24",
        "questions": [step.code for step in STEPS],
    }


def _namespace_yaml(name: str) -> str:
    return (
        "apiVersion: v1\nkind: Namespace\nmetadata:\n"
        f"  name: {name}\n  labels:\n    pod-security.kubernetes.io/enforce: restricted\n"
    )
