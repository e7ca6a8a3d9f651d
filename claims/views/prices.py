"""Price books: their versions, the editor of a draft, and publishing it once its effect was seen."""

from datetime import UTC, datetime, time
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from claims.models import PriceBook, PriceDraft
from claims.money import price_drafts
from claims.money.books import Profiles, stored_book
from claims.money.months import FIRST_YEAR, LAST_YEAR, Month, NoMonth, zone_named
from claims.money.price_books import UnableToAddBook
from claims.money.price_drafts import UnableToChangeDraft
from claims.money.price_forms import Editor, document_from
from claims.money.price_terms import Terms, UnableToPrice, read_terms, tidied
from portal import access, htmx
from portal.access import person
from portal.accounts.audit import source_ip
from portal.accounts.models import Project


@require_safe
@access.require_reader_of_costs
def price_book_list(request: HttpRequest) -> HttpResponse:
    """Every version, the newest first, and what is being written."""
    now = timezone.now()
    books = list(PriceBook.objects.select_related("published_by").order_by("-valid_from"))
    current = next((book for book in books if book.valid_from <= now), None)
    may_write = access.may_administer(person(request))
    drafts = PriceDraft.objects.select_related("changed_by")
    context = {
        "books": [(book, _state(book, current, now)) for book in books],
        "drafts": drafts.order_by("-changed_at") if may_write else [],
        "current": current,
        "may_write": may_write,
    }
    return htmx.render(request, "claims/price_books.html", context)


@require_safe
@access.require_reader_of_costs
def price_book_detail(request: HttpRequest, pk: int) -> HttpResponse:
    """One version: its rules in order, its price list, its discounts."""
    row = get_object_or_404(PriceBook.objects.select_related("published_by"), pk=pk)
    book = stored_book(row, Profiles())
    following = PriceBook.objects.filter(valid_from__gt=row.valid_from).order_by("valid_from").first()
    projects = Project.objects.in_bulk([d.project_id for d in book.discounts if d.project_id is not None])
    context = {
        "row": row,
        "book": book,
        "rules": row.rules.order_by("position"),
        "discounts": [(projects.get(d.project_id or 0), d) for d in book.discounts],
        "until": following.valid_from if following else None,
        "may_write": access.may_administer(person(request)),
    }
    return htmx.render(request, "claims/price_book.html", context)


@require_POST
@access.require_administrator
def price_draft_create(request: HttpRequest) -> HttpResponse:
    """A new version to write, from a book or from nothing."""
    typed = request.POST.get("based_on", "")
    based_on = None
    if typed:
        if not (typed.isascii() and typed.isdigit() and len(typed) < 19):
            raise Http404
        based_on = get_object_or_404(PriceBook, pk=int(typed))
    draft = price_drafts.create_draft(based_on=based_on, actor=person(request), now=timezone.now())
    return htmx.redirect(request, "price-draft-edit", draft.pk)


@require_http_methods(["GET", "HEAD", "POST"])
@access.require_administrator
def price_draft_edit(request: HttpRequest, pk: int) -> HttpResponse:
    """Write it. What is wrong is kept as well, and named."""
    draft = get_object_or_404(PriceDraft, pk=pk)
    document, conflict = draft.document, ""
    if request.method == "POST":
        document = tidied(document_from(request.POST))
        try:
            price_drafts.save_draft(
                draft=draft,
                document=document,
                seen_version=_version(request),
                actor=person(request),
                now=timezone.now(),
            )
        except UnableToChangeDraft as unable:
            conflict = unable.message
    errors: dict[str, Any] = {}
    terms: Terms | None = None
    try:
        terms = read_terms(document)
    except UnableToPrice as unable:
        errors = dict(unable.errors)
    if request.method == "POST" and not conflict and terms is not None:
        messages.success(request, _("The draft is saved."))
        following = "price-draft-publish" if "try" in request.POST else "price-draft-edit"
        return htmx.redirect(request, following, draft.pk)
    editor = Editor(document=document, errors=errors if request.method == "POST" else {})
    context = {"draft": draft, "editor": editor, "conflict": conflict, "ready": terms is not None}
    context |= {"suggestions": editor.suggestions(), "version": request.POST.get("version") or draft.version}
    if request.method == "POST" and not conflict:
        context["version"] = draft.version
    return htmx.render(
        request, "claims/price_draft.html", context, status=422 if editor.wrong or conflict else 200
    )


@require_http_methods(["GET", "HEAD", "POST"])
@access.require_administrator
def price_draft_publish(request: HttpRequest, pk: int) -> HttpResponse:
    """What it would have changed in a past month; and publishing it."""
    draft = get_object_or_404(PriceDraft, pk=pk)
    try:
        terms = read_terms(draft.document)
    except UnableToPrice:
        messages.error(request, _("Something in this draft is not right yet."))
        return htmx.redirect(request, "price-draft-edit", draft.pk)
    zone, now, errors = zone_named(settings.ORGANISATION_ZONE), timezone.now(), {}
    if request.method == "POST":
        try:
            book = price_drafts.publish_draft(
                draft=draft,
                valid_from=_moment(request.POST.get("valid_from", "")),
                seen_version=_version(request),
                actor=person(request),
                now=now,
                source_ip=source_ip(request),
            )
        except (UnableToAddBook, UnableToChangeDraft, _NoMoment) as unable:
            errors["valid_from"] = unable.message
        else:
            messages.success(request, _("The prices are published."))
            return htmx.redirect(request, "price-book-detail", book.pk)
    typed = request.GET.get("month", "")
    month = Month.of(now, zone).previous()
    try:
        month = Month.parse(typed) if typed else month
    except NoMonth as error:
        errors["month"] = str(error)
    start, end = month.bounds(zone)
    context = {
        "draft": draft,
        "terms": terms,
        "month": typed or str(month),
        "effect": price_drafts.effect(terms=terms, start=start, end=end, now=now),
        "shown": str(month),
        "errors": errors,
        "valid_from": request.POST.get("valid_from", str(Month.of(now, zone).next()) + "-01"),
        "zone": settings.ORGANISATION_ZONE,
    }
    return htmx.render(request, "claims/price_effect.html", context, status=422 if errors else 200)


@require_POST
@access.require_administrator
def price_draft_discard(request: HttpRequest, pk: int) -> HttpResponse:
    """Throw a draft away."""
    price_drafts.discard_draft(
        draft=get_object_or_404(PriceDraft, pk=pk), actor=person(request), now=timezone.now()
    )
    messages.success(request, _("The draft is thrown away."))
    return htmx.redirect(request, "price-book-list")


class _NoMoment(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def _moment(typed: str) -> datetime:
    """A date (midnight in the organisation's zone) or an ISO 8601 time."""
    zone, found = zone_named(settings.ORGANISATION_ZONE), None
    try:
        if "T" in typed:
            found = parse_datetime(typed.strip())
        elif (day := parse_date(typed.strip())) is not None:
            found = datetime.combine(day, time())
    except ValueError:
        found = None
    if found is None or not FIRST_YEAR < found.year <= LAST_YEAR:
        raise _NoMoment(_("Write a date such as 2026-03-01, or a time such as 2026-03-01T12:00Z."))
    return (found if found.tzinfo else found.replace(tzinfo=zone)).astimezone(UTC)


def _version(request: HttpRequest) -> int:
    typed = request.POST.get("version", "")
    return int(typed) if typed.isascii() and typed.isdigit() and len(typed) < 10 else 0


def _state(book: PriceBook, current: PriceBook | None, now: datetime) -> str:
    if book == current:
        return "current"
    return "planned" if book.valid_from > now else "past"
