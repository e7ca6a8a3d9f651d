"""A project's budget with its forecast, and the cost centres that it belonged to."""

from datetime import datetime

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from claims.models import Budget, CostCentre
from claims.money import budgets, centres, reconciling
from claims.money.budgets import THRESHOLDS, UnableToBudget
from claims.money.centres import UnableToAssign
from claims.money.months import Month, midnight_of
from claims.views.statements import zone
from portal import access, htmx
from portal.access import person
from portal.accounts.audit import source_ip
from portal.accounts.models import Project

_NUMBER = forms.TextInput(attrs={"inputmode": "decimal", "autocomplete": "off"})


class BudgetForm(forms.Form):
    amount = forms.CharField(
        label=gettext_lazy("A month"), max_length=20, required=False, widget=_NUMBER,
        help_text=gettext_lazy("Empty: no budget."),
    )  # fmt: skip
    currency = forms.CharField(label=gettext_lazy("Currency"), max_length=3)
    thresholds = forms.CharField(
        label=gettext_lazy("Tell the leads at (percent)"), max_length=60, required=False,
        help_text=gettext_lazy("Numbers with commas between them, such as 50, 80, 100."),
    )  # fmt: skip
    blocks = forms.BooleanField(label=gettext_lazy("Refuse new requests once it is spent"), required=False)


@require_http_methods(["GET", "HEAD", "POST"])
def budget(request: HttpRequest, slug: str) -> HttpResponse:
    """What is spent, what it will come to, and the budget, which the project's leads set."""
    user, now = person(request), timezone.now()
    project = access.get_project_or_404(user, slug, for_lead=request.method == "POST")
    told = budgets.forecasts(project=project, zone=zone(), now=now)
    rows = budgets.standings(project=project, zone=zone(), now=now, told=told)
    first: Budget | None = rows[0].budget if rows else None
    form = BudgetForm(request.POST or None, initial=_initial(first))
    if request.method == "POST" and form.is_valid():
        try:
            _set(request, project, form)
        except UnableToBudget as unable:
            form.add_error(unable.field, unable.message)
        else:
            messages.success(request, _("The budget is kept."))
            return htmx.redirect(request, "budget", project.slug)
    context = {
        "project": project,
        "form": form,
        "standings": rows,
        "forecasts": told.values(),
        "month": Month.of(now, zone()),
        "may_set": access.may_lead(user, project),
    }
    return htmx.render(request, "claims/budget.html", context, status=422 if form.errors else 200)


def _initial(row: Budget | None) -> dict[str, object]:
    if row is None:
        return {"currency": "EUR", "thresholds": ", ".join(map(str, THRESHOLDS))}
    return {
        "amount": str(row.amount),
        "currency": row.currency,
        "thresholds": ", ".join(map(str, row.thresholds)),
        "blocks": row.blocks,
    }


def _set(request: HttpRequest, project: Project, form: BudgetForm) -> None:
    typed = form.cleaned_data
    minor = None
    if typed["amount"]:
        try:
            minor = reconciling.read_minor(typed["amount"], currency=typed["currency"])
        except ValueError as error:
            raise UnableToBudget(str(error), field="amount") from None
    words = [word.strip() for word in typed["thresholds"].split(",") if word.strip()]
    if any(not (word.isascii() and word.isdigit() and len(word) <= 4) for word in words):
        raise UnableToBudget(_("Write whole numbers with commas between them."), field="thresholds")
    budgets.set_budget(
        project=project,
        currency=typed["currency"],
        minor=minor,
        thresholds=[int(word) for word in words],
        blocks=typed["blocks"],
        actor=person(request),
        now=timezone.now(),
        source_ip=source_ip(request),
    )


class CentreForm(forms.Form):
    code = forms.CharField(label=gettext_lazy("Cost centre"), max_length=40, required=False)
    valid_from = forms.CharField(
        label=gettext_lazy("From (a date)"), max_length=10, widget=forms.TextInput(attrs={"type": "date"})
    )


@require_http_methods(["GET", "HEAD", "POST"])
def cost_centres(request: HttpRequest, slug: str) -> HttpResponse:
    """Which cost centre the project belonged to when; finance and administrators move it."""
    user = person(request)
    project = access.get_project_or_404(user, slug)
    form = CentreForm(request.POST or None)
    if request.method == "POST":
        access.demand_keeper_of_accounts(user)
        if form.is_valid():
            try:
                centres.assign(
                    project=project,
                    code=form.cleaned_data["code"],
                    valid_from=_day(form.cleaned_data["valid_from"]),
                    actor=user,
                    now=timezone.now(),
                    source_ip=source_ip(request),
                )
            except UnableToAssign as unable:
                form.add_error(unable.field, unable.message)
            else:
                messages.success(request, _("The cost centre is kept."))
                return htmx.redirect(request, "cost-centres", project.slug)
    context = {
        "project": project,
        "form": form,
        "rows": CostCentre.objects.filter(project=project).order_by("-valid_from"),
        "zone": settings.ORGANISATION_ZONE,
        "keeps": access.may_keep_accounts(user),
    }
    return htmx.render(request, "claims/cost_centres.html", context, status=422 if form.errors else 200)


def _day(typed: str) -> datetime:
    """Midnight of a date in the organisation's zone."""
    found = midnight_of(typed, zone())
    if found is None:
        raise UnableToAssign(_("Write a date such as 2026-03-01."), field="valid_from")
    return found
