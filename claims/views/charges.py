"""Charges one by one: the list behind a statement, why each is what it is; disputes and adjustments."""

from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from claims.models import Adjustment, Charge, Dispute, Statement
from claims.money import adjusting, disputing, explaining, reconciling
from claims.money.adjusting import UnableToAdjust
from claims.money.disputing import UnableToDispute
from claims.money.months import Month, NoMonth
from claims.views.statements import month_or_404, zone
from portal import access, htmx, texts
from portal.access import person
from portal.accounts.audit import source_ip
from portal.accounts.models import Project, User
from portal.texts import UncleanText

PAGE = 50
MAX_REASON = 500


@require_safe
def charge_list(request: HttpRequest, month: str, slug: str) -> HttpResponse:
    """A project's charges of a month, the latest first."""
    project = access.get_project_or_404(person(request), slug)
    wanted = month_or_404(month)
    rows = Charge.objects.filter(project=project, month=str(wanted)).select_related("cluster")
    kind = request.GET.get("kind", "")
    if kind in Charge.Kind.values:
        rows = rows.filter(kind=kind)
    pages = Paginator(rows.order_by("-started_us", "-pk"), PAGE)
    page = pages.get_page(request.GET.get("page"))
    now = timezone.now()
    context = {
        "project": project,
        "month": wanted,
        "page": page,
        "rows": [explaining.priced(charge, now=now) for charge in page.object_list],
        "kinds": Charge.Kind.choices,
        "kind": kind,
    }
    return htmx.render(request, "claims/charges.html", context, partial="rows")


@require_safe
def charge_detail(request: HttpRequest, pk: int) -> HttpResponse:
    """Why a charge is what it is."""
    user = person(request)
    charge = _charge_or_404(user, pk)
    project = charge.project
    details = access.may_read_everything(user) or (
        project is not None and access.may_see_details(user, project)
    )
    context = {
        "told": explaining.explain(charge=charge, now=timezone.now()),
        "charge": charge,
        "details": details,
        "disputes": charge.disputes.order_by("-opened_at"),
        "may_dispute": project is not None
        and access.may_lead(user, project)
        and not charge.disputes.filter(state=Dispute.State.OPEN).exists(),
    }
    return htmx.render(request, "claims/charge.html", context)


class DisputeForm(forms.Form):
    text = forms.CharField(
        label=gettext_lazy("What is wrong with it"),
        max_length=1000,
        widget=forms.Textarea(attrs={"rows": 4, "maxlength": 1000}),
    )


@require_http_methods(["GET", "HEAD", "POST"])
def dispute_create(request: HttpRequest, pk: int) -> HttpResponse:
    """Say that a charge is wrong: the project's leads."""
    user = person(request)
    charge = _charge_or_404(user, pk)
    if charge.project is None:
        raise Http404
    access.authorise(user, charge.project, for_lead=True)
    form = DisputeForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            made = disputing.open_dispute(
                charge=charge,
                text=form.cleaned_data["text"],
                actor=user,
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        except UnableToDispute as unable:
            form.add_error(None, unable.message)
        else:
            return htmx.redirect(request, "dispute-detail", made.pk)
    context = {"form": form, "charge": charge}
    return htmx.render(request, "claims/dispute_form.html", context, status=422 if form.errors else 200)


@require_safe
def dispute_list(request: HttpRequest) -> HttpResponse:
    """Disputes of the projects whose costs the reader may see, those that are open first."""
    projects = Project.objects.visible_to(person(request))
    rows = Dispute.objects.filter(project__in=projects).select_related("project", "opened_by", "charge")
    open_first = rows.order_by("-state", "-opened_at")
    page = Paginator(open_first, PAGE).get_page(request.GET.get("page"))
    return htmx.render(request, "claims/disputes.html", {"page": page, "rows": page.object_list})


@require_http_methods(["GET", "HEAD", "POST"])
def dispute_detail(request: HttpRequest, pk: int) -> HttpResponse:
    """The course of a dispute, and the next step for who may take one."""
    user = person(request)
    dispute = get_object_or_404(Dispute.objects.select_related("project", "charge"), pk=pk)
    access.authorise(user, dispute.project)
    steps = _steps(user, dispute)
    form = DisputeForm(request.POST or None)
    form.fields["text"].label = _("Your answer")
    if request.method == "POST":
        state = request.POST.get("state", Dispute.State.OPEN)
        if state not in dict(steps):
            raise PermissionDenied(_("You may look at this dispute, but not answer it."))
        if form.is_valid():
            try:
                disputing.answer(
                    dispute=dispute,
                    state=state,
                    text=form.cleaned_data["text"],
                    actor=user,
                    now=timezone.now(),
                    source_ip=source_ip(request),
                )
            except UnableToDispute as unable:
                form.add_error(None, unable.message)
            else:
                return htmx.redirect(request, "dispute-detail", dispute.pk)
    context = {
        "dispute": dispute,
        "entries": dispute.entries.select_related("by").order_by("at", "pk"),
        "form": form,
        "steps": steps if dispute.state == Dispute.State.OPEN else [],
    }
    return htmx.render(request, "claims/dispute.html", context, status=422 if form.errors else 200)


def _steps(user: User, dispute: Dispute) -> list[tuple[str, str]]:
    """What somebody may do with a dispute."""
    labels: dict[str, str] = {
        Dispute.State.OPEN: pgettext("verb", "Answer"),
        Dispute.State.ACCEPTED: _("Accept"),
        Dispute.State.REJECTED: _("Reject"),
        Dispute.State.WITHDRAWN: _("Withdraw"),
    }
    return [(state, labels[state]) for state in disputing.steps_of(user, dispute)]


# --- adjustments --------------------------------------------------------------------------------------


class AdjustmentForm(forms.Form):
    kind = forms.ChoiceField(
        label=gettext_lazy("What it is"),
        choices=[("credit", gettext_lazy("credit note")), ("adjustment", gettext_lazy("additional amount"))],
    )
    amount = forms.CharField(
        label=gettext_lazy("Amount"),
        max_length=20,
        widget=forms.TextInput(attrs={"inputmode": "decimal", "autocomplete": "off"}),
    )
    currency = forms.CharField(label=gettext_lazy("Currency"), max_length=3)
    month = forms.CharField(label=gettext_lazy("In the month"), max_length=7)
    refers_to = forms.CharField(
        label=gettext_lazy("Makes good the statement of"),
        max_length=7,
        required=False,
        help_text=gettext_lazy("A month, or nothing."),
    )
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=MAX_REASON,
        widget=forms.Textarea(attrs={"rows": 3, "maxlength": MAX_REASON}),
    )


@require_http_methods(["GET", "HEAD", "POST"])
@access.require_keeper_of_accounts
def adjustment_create(request: HttpRequest, slug: str) -> HttpResponse:
    """Propose a credit note or an additional amount."""
    project = access.get_project_or_404(person(request), slug)
    month = request.GET.get("month", "")[:7] or str(Month.of(timezone.now(), zone()))
    form = AdjustmentForm(request.POST or None, initial={"currency": "EUR", "month": month})
    if request.method == "POST" and form.is_valid():
        try:
            made = _propose(request, project, form.cleaned_data)
        except UnableToAdjust as unable:
            form.add_error(unable.field if unable.field in form.fields else None, unable.message)
        else:
            messages.success(request, _("It counts once a second person has agreed."))
            return htmx.redirect(request, "statement-detail", made.month, project.slug)
    context = {"form": form, "project": project}
    return htmx.render(request, "claims/adjustment_form.html", context, status=422 if form.errors else 200)


def _propose(request: HttpRequest, project: Project, typed: dict[str, Any]) -> Adjustment:
    months: dict[str, Month] = {}
    for name in ("month", "refers_to"):
        if typed[name]:
            try:
                months[name] = Month.parse(typed[name])
            except NoMonth as error:
                raise UnableToAdjust(str(error), field=name) from None
    try:
        minor = reconciling.read_minor(typed["amount"], currency=typed["currency"])
    except ValueError as error:
        raise UnableToAdjust(str(error), field="amount") from None
    if minor < 0:
        raise UnableToAdjust(_("Write it without a sign, and say above what it is."), field="amount")
    refers_to = None
    if "refers_to" in months:
        refers_to = Statement.objects.filter(project=project, month=str(months["refers_to"])).first()
        if refers_to is None:
            raise UnableToAdjust(_("There is no statement of that month."), field="refers_to")
    return adjusting.propose(
        project=project,
        month=months["month"],
        minor=-minor if typed["kind"] == "credit" else minor,
        currency=typed["currency"],
        reason=texts.plain(typed["reason"]),
        refers_to=refers_to,
        actor=person(request),
        now=timezone.now(),
        source_ip=source_ip(request),
        zone=zone(),
    )


@require_POST
@access.require_keeper_of_accounts
def adjustment_decide(request: HttpRequest, pk: int) -> HttpResponse:
    """Agree, or not; what is neither is no decision."""
    adjustment = get_object_or_404(Adjustment.objects.select_related("project"), pk=pk)
    back = "statement-detail", adjustment.month, adjustment.project.slug
    decision = request.POST.get("decision", "")
    if decision not in ("approve", "reject"):
        messages.error(request, _("The desk cannot make sense of what was sent."))
        return htmx.redirect(request, *back)
    try:
        adjusting.decide(
            adjustment=adjustment,
            approve=decision == "approve",
            note=texts.plain(request.POST.get("note", "")),
            actor=person(request),
            now=timezone.now(),
            source_ip=source_ip(request),
            zone=zone(),
        )
    except (UnableToAdjust, UncleanText) as unable:
        messages.error(request, unable.message)
    else:
        messages.success(request, _("Your decision is kept."))
    return htmx.redirect(request, *back)


def _charge_or_404(user: User, pk: int) -> Charge:
    """A charge that `user` may know of."""
    rows = Charge.objects.select_related("project", "cluster", "book", "origin", "person")
    charge = get_object_or_404(rows, pk=pk) if pk < 2**63 else None
    if charge is None:
        raise Http404
    if charge.project is not None:
        access.authorise(user, charge.project)
    elif not access.may_see_costs_of_all(user):
        raise Http404
    return charge
