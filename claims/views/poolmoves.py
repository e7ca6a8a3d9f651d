"""Node pools on their way from a Device Plugin to DRA, for administrators; auditors look."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_safe

from claims.asks.reading import WrongValue, read_text
from claims.catalogue.forms import DomainForm
from claims.models import Placement, PoolPlan, PoolPlanEntry
from claims.money.costs import Period
from claims.poolmoves import checklist, export, planner, plans, stages, switching
from claims.poolmoves.plans import UnableToPlan
from claims.views.statements import zone
from inventory.models import Cluster, CountedUnits, DeviceClass, Pool
from portal import csvs, htmx
from portal.access import may_administer, person, require_administrator, require_reader_of_everything
from portal.accounts.audit import source_ip

_PLAIN = {"autocomplete": "off", "spellcheck": "false"}
_LINES = {"rows": 2, "class": "cd-mono", "spellcheck": "false"}


class PlanForm(DomainForm):
    name = forms.CharField(label=gettext_lazy("Node pool"), widget=forms.TextInput(attrs=_PLAIN))
    cluster = forms.CharField(label=gettext_lazy("Cluster"), widget=forms.Select)
    labels = forms.CharField(
        label=gettext_lazy("Labels of its nodes"),
        help_text=gettext_lazy("One a line, as name=value."),
        widget=forms.Textarea(attrs=_LINES),
    )
    canary_labels = forms.CharField(
        label=gettext_lazy("Labels of the canary's nodes"),
        required=False,
        help_text=gettext_lazy("The few nodes where DRA is tried first; empty until they are chosen."),
        widget=forms.Textarea(attrs=_LINES),
    )
    extended_resource = forms.CharField(
        label=gettext_lazy("Resource of the Device Plugin"),
        help_text=gettext_lazy("As nodes advertise it, such as nvidia.com/gpu."),
        widget=forms.TextInput(attrs=_PLAIN | {"list": "extended-resources"}),
    )
    device_class = forms.CharField(
        label=gettext_lazy("DeviceClass"), widget=forms.TextInput(attrs=_PLAIN | {"list": "device-classes"})
    )
    driver = forms.CharField(
        label=gettext_lazy("DRA driver"),
        required=False,
        help_text=gettext_lazy("Empty for any driver of the vendor."),
        widget=forms.TextInput(attrs=_PLAIN | {"list": "drivers", "maxlength": 63}),
    )
    way = forms.CharField(
        label=gettext_lazy("What it is to become"),
        required=False,
        widget=forms.Select(choices=PoolPlan.Way.choices),
    )
    reason = forms.CharField(
        label=gettext_lazy("The reason of the business"),
        required=False,
        help_text=gettext_lazy("Why DRA, or why the Device Plugin stays; needed before the canary."),
        widget=forms.Textarea(attrs={"rows": 4, "maxlength": plans.MAX_REASON}),
    )


class StageForm(DomainForm):
    stage = forms.CharField(label=gettext_lazy("Stage"), widget=forms.Select)
    why = forms.CharField(
        label=gettext_lazy("Why"), widget=forms.Textarea(attrs={"rows": 3, "maxlength": stages.MAX_WHY})
    )


class SwitchForm(DomainForm):
    version = forms.CharField(widget=forms.HiddenInput, required=False)
    seen = forms.CharField(widget=forms.HiddenInput)
    why = forms.CharField(
        label=gettext_lazy("Why"), widget=forms.Textarea(attrs={"rows": 3, "maxlength": stages.MAX_WHY})
    )


class SignForm(DomainForm):
    version = forms.CharField(widget=forms.HiddenInput, required=False)
    note = forms.CharField(
        label=gettext_lazy("What was looked at, and what was found"),
        widget=forms.Textarea(attrs={"rows": 4, "maxlength": checklist.MAX_NOTE}),
    )


@require_safe
@require_reader_of_everything
def migration_list(request: HttpRequest) -> HttpResponseBase:
    """The board: every pool at its stage."""
    rows = list(PoolPlan.objects.select_related("cluster", "changed_by").order_by("cluster__name", "name"))
    if request.GET.get("format") == "csv":
        header = ("cluster", "pool", "stage", "way", "reason", "resource", "class", "driver", "changed")
        values = (
            (r.cluster.name, r.name, r.stage, r.way, r.reason, r.extended_resource, r.device_class, r.driver,
             r.changed_at.isoformat())
            for r in rows
        )  # fmt: skip
        return csvs.download("migration.csv", header, values)
    board = [(PoolPlan.Stage(stage), [row for row in rows if row.stage == stage]) for stage in stages.ORDER]
    context = {"rows": rows, "board": board, "may_administer": may_administer(person(request))}
    return render(request, "claims/migration_list.html", context)


@require_safe
@require_reader_of_everything
def migration_detail(request: HttpRequest, pk: int) -> HttpResponse:
    """One pool's plan with everything that is known of it."""
    return render(request, "claims/migration_detail.html", _context(request, plan_or_404(pk)))


@require_safe
@require_reader_of_everything
def migration_print(request: HttpRequest, pk: int) -> HttpResponse:
    """The same for paper."""
    return render(request, "claims/migration_print.html", _context(request, plan_or_404(pk)))


@require_safe
@require_reader_of_everything
def migration_export(request: HttpRequest, pk: int) -> HttpResponseBase:
    """The same as a file: JSON, or the nodes as CSV."""
    plan = plan_or_404(pk)
    found = _look(request, plan)
    name = f"migration-{plan.pk}"
    if request.GET.get("format") == "csv":
        return csvs.download(f"{name}.csv", export.NODE_COLUMNS, export.node_rows(found.comparison))
    document = export.document(found, entries=planner.history(plan))
    answer = JsonResponse(document, json_dumps_params={"indent": 2, "ensure_ascii": False})
    answer["Content-Disposition"] = f'attachment; filename="{name}.json"'
    return answer


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def migration_create(request: HttpRequest) -> HttpResponse:
    """Plan a further pool."""
    return _form_page(request, None)


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def migration_edit(request: HttpRequest, pk: int) -> HttpResponse:
    """Change what the plan says."""
    return _form_page(request, plan_or_404(pk))


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def migration_remove(request: HttpRequest, pk: int) -> HttpResponse:
    """Drop a plan, after a page that asks."""
    plan = plan_or_404(pk)
    if request.method == "POST":
        try:
            plans.remove(plan=plan, user=person(request), now=timezone.now(), source_ip=source_ip(request))
        except UnableToPlan as error:
            messages.error(request, " ".join(said for many in error.errors.values() for said in many))
            return htmx.redirect(request, "migration-detail", pk)
        messages.success(request, _("Removed."))
        return htmx.redirect(request, "migration-list")
    context = {
        "title": _("Remove the plan of %(name)s?") % {"name": plan.name},
        "text": _("Its stages, signatures and drills go with it. Flavors stay as they are."),
        "submit_label": _("Remove"),
        "cancel_url": reverse("migration-detail", args=[pk]),
    }
    return render(request, "components/confirm.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def migration_stage(request: HttpRequest, pk: int) -> HttpResponse:
    """One stage on, or back."""
    plan = plan_or_404(pk)
    found = _look(request, plan)
    open_to = stages.choices(plan.stage)
    form = StageForm(values={"version": plan.version, "stage": request.GET.get("to") or open_to[0]})
    status = 200
    if request.method == "POST":
        try:
            stages.move(
                plan=plan,
                to=_said(request, "stage", 20),
                why=_said(request, "why", stages.MAX_WHY),
                seen_version=_version(request),
                points=list(found.points),
                user=person(request),
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        except UnableToPlan as error:
            status = 409 if error.conflict else 422
            form = StageForm(values=_again(request, plan_or_404(pk), error), errors=error.errors)
        else:
            messages.success(request, _("The pool is at another stage now. Its flavors are as they were."))
            return htmx.redirect(request, "migration-detail", pk)
    widget = form.fields["stage"].widget
    assert isinstance(widget, forms.Select)
    widget.choices = [(stage, PoolPlan.Stage(stage).label) for stage in open_to]
    points = [point for point in found.points if point.before == open_to[0]]
    context = {"plan": plan, "form": form, "points": points, "next": PoolPlan.Stage(open_to[0]).label}
    return render(request, "claims/migration_stage.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def migration_switch(request: HttpRequest, pk: int) -> HttpResponse:
    """What switching the pool's flavors would do, and doing it: as the stage asks for, all one way (`to`), or
    back to before an earlier switch (`undo`)."""
    plan = plan_or_404(pk)
    members = planner.members_now(plan)
    rows = switching.places_in(plan, members)
    undoes = _undoes(request, plan)
    way, errors, status = request.GET.get("to", ""), None, 200
    try:
        targets = switching.targets_for(rows, way) if way else switching.targets_of(plan, rows, members)
    except UnableToPlan:
        way, targets = "", switching.targets_of(plan, rows, members)
    if undoes is not None:
        targets = switching.targets_back(undoes, rows)
    effect = switching.effect(plan, members, targets=targets, rows=rows)
    if request.method == "POST":
        try:
            switching.apply(
                plan=plan,
                found=effect,
                seen=_said(request, "seen", 64),
                why=_said(request, "why", stages.MAX_WHY),
                user=person(request),
                now=timezone.now(),
                undoes=undoes,
                source_ip=source_ip(request),
            )
        except UnableToPlan as error:
            errors, status = error.errors, 409 if error.conflict else 422
        else:
            messages.success(request, _("Switched. Requests that were made keep what they have."))
            return htmx.redirect(request, "migration-detail", pk)
    values = {"seen": effect.seen, "why": request.POST.get("why", "")}
    context = {
        "plan": plan,
        "effect": effect,
        "form": SwitchForm(values=values, errors=errors),
        "undoes": undoes,
        "way": way,
        "ways": Placement.Stage.choices,
    }
    return render(request, "claims/migration_switch.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def migration_sign(request: HttpRequest, pk: int, item: str) -> HttpResponse:
    """Sign for a point of the checklist, or take that back (`settled` = no)."""
    plan = plan_or_404(pk)
    known = checklist.BY_KEY.get(item)
    if known is None or not known.signable:
        return htmx.redirect(request, "migration-detail", pk)
    form, status = SignForm(values={}), 200
    if request.method == "POST":
        try:
            checklist.sign(
                plan=plan,
                item=item,
                note=_said(request, "note", checklist.MAX_NOTE),
                settled=request.POST.get("settled") != "no",
                user=person(request),
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        except UnableToPlan as error:
            form, status = SignForm(values=request.POST, errors=error.errors), 422
        else:
            messages.success(request, _("Kept, with your name and the time."))
            return htmx.redirect(request, "migration-detail", pk)
    point = next(p for p in _look(request, plan).points if p.key == item)
    context = {"plan": plan, "point": point, "form": form}
    return render(request, "claims/migration_sign.html", context, status=status)


# --- inside -----------------------------------------------------------------------------------------


def plan_or_404(pk: int) -> PoolPlan:
    """The plan with its cluster."""
    rows = PoolPlan.objects.select_related("cluster", "changed_by")
    return get_object_or_404(rows.defer("cluster__kubeconfig_encrypted"), pk=pk)


def _look(request: HttpRequest, plan: PoolPlan) -> planner.Planner:
    now = timezone.now()
    period = Period.parse(request.GET, now=now, zone=zone())
    return planner.look(plan, start=period.start, end=period.end, now=now)


def _context(request: HttpRequest, plan: PoolPlan) -> dict[str, Any]:
    now = timezone.now()
    period = Period.parse(request.GET, now=now, zone=zone())
    found = planner.look(plan, start=period.start, end=period.end, now=now)
    order = stages.ORDER
    return {
        "plan": plan,
        "found": found,
        "period": period,
        "parts": [
            (part, label, found.comparison.total(part), found.fates[part], found.use[part])
            for part, label in (("canary", _("Canary")), ("old", _("Other nodes")))
        ],
        "rows": found.comparison.rows[: planner.SHOWN],
        "stages": [(PoolPlan.Stage(s).label, order.index(s) - order.index(plan.stage)) for s in order],
        "settled": sum(point.settled for point in found.points),
        "entries": planner.history(plan),
        "undone": switching.undone(plan),
        "drills": plan.drills.select_related("person").order_by("-created_at", "-pk")[:10],
        "may_administer": may_administer(person(request)),
        "now": now,
    }


def _form_page(request: HttpRequest, plan: PoolPlan | None) -> HttpResponse:
    status = 200
    form = PlanForm(values=_values(plan))
    if request.method == "POST":
        try:
            made = plans.save(
                plan=plan,
                terms=plans.read_plan(request.POST),
                seen_version=_version(request),
                user=person(request),
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        except UnableToPlan as error:
            status = 409 if error.conflict else 422
            current = plan_or_404(plan.pk) if plan else None
            form = PlanForm(values=_again(request, current, error), errors=error.errors)
        else:
            messages.success(request, _("Saved."))
            return htmx.redirect(request, "migration-detail", made.pk)
    widget = form.fields["cluster"].widget
    assert isinstance(widget, forms.Select)
    names = Cluster.objects.order_by("name").values_list("name", flat=True)
    widget.choices = [(name, name) for name in names]

    def known(model: Any, column: str) -> Any:
        return model.objects.order_by(column).values_list(column, flat=True).distinct()

    context = {
        "form": form,
        "plan": plan,
        "device_classes": known(DeviceClass, "name"),
        "extended_resources": known(CountedUnits, "resource"),
        "drivers": known(Pool, "driver"),
    }
    return render(request, "claims/migration_form.html", context, status=status)


def _values(plan: PoolPlan | None) -> dict[str, object]:
    if plan is None:
        return {}

    def lines(labels: dict[str, str]) -> str:
        return "\n".join(f"{name}={value}" for name, value in labels.items())

    told = {"labels": lines(plan.labels), "canary_labels": lines(plan.canary_labels)}
    return plans.as_dict(plan) | told | {"version": plan.version}


def _again(request: HttpRequest, plan: PoolPlan | None, error: UnableToPlan) -> Any:
    """What was typed; after a conflict for the version that holds now, which the page says."""
    values = request.POST.copy()
    if error.conflict and plan is not None:
        values["version"] = str(plan.version)
    return values


def _said(request: HttpRequest, name: str, limit: int) -> str:
    """A text of the form. Raises UnableToPlan."""
    try:
        return read_text(request.POST, name, limit=limit)
    except WrongValue as error:
        raise UnableToPlan({name: [str(error)]}) from None


def _version(request: HttpRequest) -> int:
    typed = request.POST.get("version", "")
    return int(typed) if typed.isascii() and typed.isdigit() and len(typed) < 10 else 0


def _undoes(request: HttpRequest, plan: PoolPlan) -> PoolPlanEntry | None:
    typed = request.GET.get("undo", "")
    if not (typed.isascii() and typed.isdigit() and len(typed) < 18) or int(typed) in switching.undone(plan):
        return None
    return plan.entries.filter(pk=int(typed), kind=PoolPlanEntry.Kind.SWITCH).first()
