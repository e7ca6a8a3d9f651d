"""Statements: the month's list, one project's month with its lines, and their course to closed."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from claims.models import Adjustment, BookedTotal, Statement
from claims.money import closing, idle_cost, reconciling, statements
from claims.money.closing import UnableToMove
from claims.money.idle_cost import UnableToPassOn
from claims.money.months import Month, NoMonth, zone_named
from claims.money.reconciling import UnableToImport
from claims.money.statements import Told
from portal import access, csvs, htmx
from portal.access import person
from portal.accounts.audit import source_ip
from portal.accounts.models import Project

COLUMNS = (
    "month", "project", "kind", "cost_centre", "device_class", "product", "use", "unit", "per", "unit_hours",
    "list_price", "percent_off", "price", "currency", "amount", "exact_numerator", "exact_denominator",
    "note", "state",
)  # fmt: skip


def zone() -> Any:
    """The organisation's time zone, in which months begin."""
    return zone_named(settings.ORGANISATION_ZONE)


def month_or_404(text: str) -> Month:
    """A month of an address."""
    try:
        return Month.parse(text)
    except NoMonth:
        raise Http404 from None


@require_safe
def statement_list(request: HttpRequest) -> HttpResponse:
    """All statements of a month that the reader may see; last month's unless the address says otherwise."""
    now, user, error = timezone.now(), person(request), ""
    month = Month.of(now, zone()).previous()
    typed = request.GET.get("month", "")[:40]
    try:
        month = Month.parse(typed) if typed else month
    except NoMonth as wrong:
        error = str(wrong)
    sees_all = access.may_see_costs_of_all(user)
    bounds = month.bounds(zone())
    context = {
        "rows": statements.overview(
            month=month,
            projects=statements.visible(user, month=month),
            unattributed=sees_all,
            zone=zone(),
            now=now,
        ),
        "month": month,
        "typed": typed or str(month),
        "error": error,
        "bounds": bounds,
        "over": bounds[1] <= now,
        "zone": settings.ORGANISATION_ZONE,
        "sees_all": sees_all,
        "keeps": access.may_keep_accounts(user),
        "previous": month.previous() if month > Month(1970, 1) else None,
        "next": month.next() if month < Month.of(now, zone()) else None,
    }
    return htmx.render(request, "claims/statements.html", context, partial="rows")


@require_safe
def statement_detail(request: HttpRequest, month: str, slug: str = "") -> HttpResponse:
    """One project's month, line by line; without a project what nobody is known to pay."""
    told = _told(request, month, slug)
    user = person(request)
    row = told.row
    context = {
        "told": told,
        "project": told.project,
        "month": told.month,
        "state": told.state,
        "intact": closing.verify(row) if row and row.state == Statement.State.CLOSED else None,
        "adjustments": Adjustment.objects.filter(project=told.project, month=str(told.month))
        .select_related("proposed_by", "decided_by")
        .order_by("-proposed_at")
        if told.project
        else [],
        "keeps": access.may_keep_accounts(user),
        "me": user,
        "over": told.ends_at <= timezone.now(),
        "zone": settings.ORGANISATION_ZONE,
        "organisation": settings.ORGANISATION,
        "now": timezone.now(),
    }
    template = "claims/statement_print.html" if "print" in request.GET else "claims/statement.html"
    return htmx.render(request, template, context)


@require_safe
def statement_export(request: HttpRequest, month: str, slug: str = "") -> HttpResponseBase:
    """Its lines as CSV."""
    told = _told(request, month, slug)
    name = told.project.slug if told.project else "unattributed"
    return csvs.download(
        f"statement-{told.month}-{name}.csv", COLUMNS, (_row(told, line) for line in told.lines)
    )


@require_http_methods(["GET", "HEAD", "POST"])
@access.require_keeper_of_accounts
def statement_move(request: HttpRequest, month: str, slug: str = "") -> HttpResponse:
    """Into review, back from it, or closed, which is asked before."""
    wanted = month_or_404(month)
    project = access.get_project_or_404(person(request), slug) if slug else None
    back = (
        reverse("statement-detail", args=[wanted, project.slug])
        if project
        else reverse("statement-nobody", args=[wanted])
    )
    if request.method != "POST":
        context = {
            "title": _("Close %(month)s") % {"month": f"{wanted}, {project or _('Unattributed')}"},
            "text": _("The statement is rated once more and closed, for good."),
            "consequences": [_("What turns out to be otherwise later is corrected in the next open month.")],
            "submit_label": _("Close for good"),
            "post_url": f"{request.path}?action=close",
            "cancel_url": back,
        }
        return htmx.render(request, "components/confirm.html", context)
    common: dict[str, Any] = {
        "project": project, "month": wanted, "zone": zone(), "actor": person(request),
        "now": timezone.now(), "source_ip": source_ip(request),
    }  # fmt: skip
    action = request.POST.get("action") or request.GET.get("action", "")
    try:
        if action == "close":
            closing.close(**common)
            messages.success(request, _("The statement is closed."))
        elif action in closing.MOVES:
            closing.move(**common, action=action)
            messages.success(request, _("The statement has moved."))
        else:
            messages.error(request, _("The desk cannot make sense of what was sent."))
    except UnableToMove as unable:
        messages.error(request, unable.message)
    return htmx.redirect(request, back)


@require_http_methods(["GET", "HEAD", "POST"])
@access.require_keeper_of_accounts
def statement_move_all(request: HttpRequest, month: str, action: str) -> HttpResponse:
    """All statements of a month into review, or closed; asked before."""
    wanted, now = month_or_404(month), timezone.now()
    if action not in ("review", "close"):
        raise Http404
    projects: list[Project | None] = [*statements.visible(person(request), month=wanted), None]
    if request.method == "POST":
        moved, refused = closing.move_all(
            projects=projects,
            month=wanted,
            zone=zone(),
            action=action,
            actor=person(request),
            now=now,
            source_ip=source_ip(request),
        )
        said = ngettext("%(count)s statement has moved.", "%(count)s statements have moved.", moved)
        messages.success(request, said % {"count": moved})
        for project, why in refused[:20]:
            messages.error(request, f"{project or _('Unattributed')}: {why}")
        return htmx.redirect(request, _list_of(wanted))
    closes = action == "close"
    context = {
        "title": _("Close %(month)s") % {"month": wanted}
        if closes
        else _("Put %(month)s into review") % {"month": wanted},
        "text": _("Every statement that is in review is rated once more and closed, for good.")
        if closes
        else _("Every statement that is open goes into review."),
        "consequences": [_("What turns out to be otherwise later is corrected in the next open month.")]
        if closes
        else [],
        "submit_label": _("Close them") if closes else _("Into review"),
        "danger": closes,
        "cancel_url": _list_of(wanted),
    }
    return htmx.render(request, "components/confirm.html", context)


@require_POST
@access.require_keeper_of_accounts
def idle_pass_on(request: HttpRequest, month: str) -> HttpResponse:
    """Idle cost of a month, passed on to who used devices."""
    wanted = month_or_404(month)
    try:
        count = idle_cost.pass_on(month=wanted, zone=zone(), actor=person(request), now=timezone.now())
    except UnableToPassOn as unable:
        messages.error(request, unable.message)
    else:
        said = ngettext(
            "Idle time is passed on to %(count)s project.",
            "Idle time is passed on to %(count)s projects.",
            count,
        )
        messages.success(request, said % {"count": count})
    return htmx.redirect(request, "statement-nobody", str(wanted))


@require_http_methods(["GET", "HEAD", "POST"])
def reconciliation(request: HttpRequest, month: str) -> HttpResponse:
    """A month's statements beside what the ledger of the house has booked."""
    return _reconciliation(request, month)


@access.require_reader_of_costs
def _reconciliation(request: HttpRequest, month: str) -> HttpResponse:
    wanted, now, user = month_or_404(month), timezone.now(), person(request)
    faults: list[str] = []
    text = request.POST.get("totals", "")
    if request.method == "POST":
        access.demand_keeper_of_accounts(user)
        try:
            count = reconciling.import_totals(text=text, month=wanted, actor=user, now=now)
        except UnableToImport as unable:
            faults = list(unable.faults)
        else:
            messages.success(request, _("%(count)s totals are imported.") % {"count": count})
            return htmx.redirect(request, "reconciliation", str(wanted))
    projects = statements.visible(user, month=wanted)
    rows = statements.overview(month=wanted, projects=projects, unattributed=False, zone=zone(), now=now)
    ours = {
        (row.project.pk, currency): total
        for row in rows
        for currency, total in row.totals.items()
        if row.project
    }
    compared = reconciling.compare(month=wanted, ours=ours, projects={p.pk: p for p in projects})
    context = {
        "month": wanted,
        "rows": compared,
        "differing": sum(1 for row in compared if row.difference),
        "faults": faults,
        "typed": text,
        "imported": BookedTotal.objects.filter(month=str(wanted)).select_related("imported_by").first(),
        "keeps": access.may_keep_accounts(user),
    }
    return htmx.render(request, "claims/reconciliation.html", context, status=422 if faults else 200)


def _list_of(month: Month) -> str:
    return f"{reverse('statement-list')}?month={month}"


def _told(request: HttpRequest, month: str, slug: str) -> Told:
    """What the reader may see of it: a stranger's project does not exist, and neither does what nobody pays
    for to those who do not see all costs."""
    wanted, user = month_or_404(month), person(request)
    project = None
    if slug:
        project = access.get_project_or_404(user, slug)
    elif not access.may_see_costs_of_all(user):
        raise Http404
    return statements.told_of(project=project, month=wanted, bounds=wanted.bounds(zone()), now=timezone.now())


def _row(told: Told, line: statements.Line) -> list[str]:
    key = line.key
    return [
        str(told.month),
        told.project.slug if told.project else "unattributed",
        key.kind,
        key.cost_centre,
        key.device_class,
        key.product,
        key.use,
        key.unit,
        key.per,
        line.hours_text,
        line.list_price,
        f"{line.percent:f}",
        line.price,
        key.currency,
        "" if line.amount is None else str(line.amount),
        "" if line.exact is None else str(line.exact.numerator),
        "" if line.exact is None else str(line.exact.denominator),
        key.note,
        told.state,
    ]
