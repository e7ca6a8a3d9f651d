"""Bookings: the calendar of a flavor, the form with its live check, the list, one booking and what people do
with it."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from claims.asks.nowhere import archived_of
from claims.bookings import booking as bookings
from claims.bookings.approvals import decidable, decide, may_decide, missing
from claims.bookings.booking import Answer, UnableToBook, UnableToCancel, get_booking_or_404, may_end
from claims.bookings.calendar import MONTH, VIEWS, WEEK, calendar, places_to_book, read_day
from claims.bookings.costs import cost_of
from claims.bookings.forms import BookingForm, initial_values
from claims.bookings.listing import BOOKING_HEADER, booking_lines, bookings_for
from claims.bookings.reading import Wanted, read
from claims.bookings.start import deadline
from claims.models import PLANNED, Booking, Decision, Flavor
from claims.money.pricing import price_list
from claims.requests.approvals import UnableToDecide, Verdict
from portal import access, csvs, htmx, lists
from portal.access import person
from portal.accounts.audit import source_ip
from portal.accounts.models import Project, User

EXPORT_CHUNK = 500


@require_safe
def booking_calendar(request: HttpRequest, slug: str) -> HttpResponse:
    """A week or a month of one flavor in one place: what is left, and what is booked."""
    user, now, zone = person(request), timezone.now(), timezone.get_current_timezone()
    flavor = Flavor.objects.visible_to(user).offered().filter(slug=slug).first()
    if flavor is None:
        raise Http404
    places = places_to_book(flavor)
    asked = (request.GET.get("cluster", ""), request.GET.get("pool", ""))
    chosen = next((p for p in places if (p.cluster.name, p.pool) == asked), places[0] if places else None)
    view = request.GET.get("view", "") if request.GET.get("view", "") in VIEWS else WEEK
    day = read_day(request.GET.get("day", ""), today=now.astimezone(zone).date())
    context: dict[str, Any] = {
        "flavor": flavor,
        "places": places,
        "view": view,
        "can_request": Project.objects.all().workable_by(user).exists(),
        "zone": zone,
    }
    if chosen is not None:
        told = calendar(placement=chosen, user=user, view=view, day=day, zone=zone, now=now)
        at = {"cluster": chosen.cluster.name, **({"pool": chosen.pool} if chosen.pool else {})}
        context |= {
            "calendar": told,
            "chosen": chosen,
            "book": f"{reverse('booking-create')}?{urlencode({'flavor': flavor.slug, **at})}",
            "earlier": urlencode({**at, "view": view, "day": told.before}),
            "later": urlencode({**at, "view": view, "day": told.after}),
            "now_link": urlencode({**at, "view": view}),
            "other_view": urlencode({**at, "view": WEEK if view == MONTH else MONTH, "day": day}),
        }
    return htmx.render(request, "claims/booking_calendar.html", context)


@require_safe
def booking_list(request: HttpRequest) -> HttpResponseBase:
    """Bookings of the reader's projects; filters are in the address."""
    user = person(request)
    listing = bookings_for(user)
    if (back := listing.remembered(request)) is not None:
        return back
    state = listing.read(request)
    visible = Booking.objects.all().visible_to(user)
    rows = state.narrowed(visible.select_related("project", "cluster", "requester", "flavor"))
    rows = rows.defer("cluster__kubeconfig_encrypted")
    if state.wants_csv:
        found = state.ordered(rows).iterator(chunk_size=EXPORT_CHUNK)
        return csvs.download("bookings.csv", BOOKING_HEADER, booking_lines(found))
    context = {
        "page": state.page(rows),
        "facets": state.facets(visible),
        "can_request": Project.objects.all().workable_by(user).exists(),
        "to_decide": decidable(user).count(),
    }
    return lists.answer(request, "claims/booking_list.html", context, state=state)


@require_http_methods(["GET", "HEAD", "POST"])
def booking_create(request: HttpRequest) -> HttpResponse:
    """The form; a POST books."""
    user, now, zone = person(request), timezone.now(), timezone.get_current_timezone()
    if request.method == "POST":
        try:
            made = bookings.book(
                user=user,
                values=request.POST,
                key=request.POST.get("key"),
                now=now,
                zone=zone,
                source_ip=source_ip(request),
            )
        except UnableToBook as error:
            form = BookingForm(user=user, now=now, zone=zone, values=request.POST.dict(), errors=error.errors)
            return _form_page(request, form, now=now, status=422)
        if made.created_at != now:
            messages.info(
                request, _("This form was sent before. This is what came of it then; nothing was done again.")
            )
        return htmx.redirect(request, "booking-detail", made.key)
    values = initial_values(user=user, now=now, zone=zone, chosen=request.GET)
    return _form_page(request, BookingForm(user=user, now=now, zone=zone, values=values), now=now)


@require_safe
def booking_check(request: HttpRequest) -> HttpResponse:
    """The panel beside the form, for what has been typed so far."""
    user, now, zone = person(request), timezone.now(), timezone.get_current_timezone()
    wanted = read(request.GET, user=user, now=now, zone=zone)
    return render(request, "claims/_booking_check.html", _checked(wanted, now=now))


@require_safe
def booking_detail(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """One booking."""
    found = get_booking_or_404(person(request), key)
    return _detail(request, found)


@require_http_methods(["GET", "HEAD", "POST"])
def booking_cancel(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """Give the time back, after a page that says what it means."""
    user = person(request)
    found = get_booking_or_404(user, key, to_end=True)
    if request.method == "POST":
        try:
            bookings.cancel(booking=found, user=user, now=timezone.now(), source_ip=source_ip(request))
        except UnableToCancel as error:
            messages.error(request, error.message)
        else:
            messages.success(request, _("The booking is cancelled; its time is free for others."))
        return htmx.redirect(request, "booking-detail", key)
    context = {
        "title": _("Cancel the booking of %(what)s?") % {"what": found},
        "text": _("Others can book the time at once."),
        "consequences": [],
        "submit_label": _("Cancel the booking"),
        "cancel_url": reverse("booking-detail", args=[found.key]),
    }
    return render(request, "components/confirm.html", context)


@require_POST
def booking_approve(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """Agree ahead."""
    return _decide(request, key, Verdict.APPROVED, _("Approved."))


@require_POST
def booking_reject(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """Turn it down; the comment says why."""
    return _decide(request, key, Verdict.REJECTED, _("Rejected."))


# --- inside -----------------------------------------------------------------------------------------


def _form_page(request: HttpRequest, form: BookingForm, *, now: datetime, status: int = 200) -> HttpResponse:
    context = {
        "form": form,
        "no_project": not form.projects,
        "archived_projects": [] if form.projects else archived_of(person(request)),
        **_checked(form.wanted, now=now),
    }
    return htmx.render(request, "claims/booking_form.html", context, partial="fields", status=status)


def _checked(wanted: Wanted, *, now: datetime) -> dict[str, Any]:
    seen = wanted.reading
    said = Answer()
    if wanted.placed and "start" not in wanted.errors:
        said = bookings.answer(wanted, now=now)
    # What is wrong with the purpose is told when it is sent.
    remarks = [text for name, texts in wanted.errors.items() if name != "purpose" for text in texts]
    return {
        "wanted": wanted,
        "answer": said,
        "fits": said.fits(seen.count or 1),
        "too_many": said.usable is not None and said.on_one_node < (seen.count or 1),
        "full": bookings.full(said),
        "remarks": remarks,
        "needs": bookings.approval_words(wanted),
        "cost": cost_of(wanted, prices=price_list(), now=now),
    }


def _detail(
    request: HttpRequest, found: Booking, *, refused: Mapping[str, Any] | None = None, status: int = 200
) -> HttpResponse:
    user = person(request)
    decisions = list(found.decisions.select_related("person").order_by("at"))
    context = {
        "booking": found,
        "planned": found.state in PLANNED,
        "decisions": decisions,
        "missing": _roles(missing(found, decisions)),
        "may_decide": may_decide(user, found, decisions),
        "may_end": may_end(user, found),
        "may_request": access.may_work_in(user, found.project),
        "deadline": deadline(found),
        "refused": refused,
    }
    return htmx.render(request, "claims/booking_detail.html", context, status=status)


def _roles(roles: Sequence[str]) -> str:
    return _(" and ").join(str(Decision.Role(role).label) for role in roles)


def _decide(request: HttpRequest, key: uuid.UUID, verdict: str, done: str) -> HttpResponse:
    user: User = person(request)
    found = get_booking_or_404(user, key)
    comment = request.POST.get("comment", "")
    try:
        decide(
            booking=found, user=user, verdict=verdict, comment=comment, now=timezone.now(),
            source_ip=source_ip(request),
        )  # fmt: skip
    except UnableToDecide as error:
        if error.field:
            # Back to the page with what was typed: nothing is lost.
            refused = {"comment": comment, "message": error.message}
            return _detail(request, found, refused=refused, status=422)
        messages.error(request, error.message)
    else:
        messages.success(request, done)
    return htmx.redirect(request, "booking-detail", key)
