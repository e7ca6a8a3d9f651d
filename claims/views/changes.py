"""Changes of requests: asking for one, deciding, accepting a condition, withdrawing. Never by GET."""

import uuid
from collections.abc import Mapping

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from claims.asks import judging as asks
from claims.asks.again import values_of
from claims.changes import changing as changes
from claims.changes import decisions as change_decisions
from claims.changes.forms import ChangeForm
from claims.changes.told import may_answer, related
from claims.changes.wanted import UnableToChangeRequest
from claims.models import Request, RequestChange
from claims.money.pricing import price_list
from claims.preview.changing import Changing
from claims.preview.panel import preview
from claims.requests.approvals import UnableToDecide, Verdict
from claims.requests.browse import get_request_or_404
from claims.requests.states import LIVE
from claims.views.approvals import approval_page
from portal import access, htmx
from portal.access import person
from portal.accounts.audit import source_ip
from portal.accounts.models import User

_WHEN_SERVED = RequestChange.Release.WHEN_SERVED.value


@require_http_methods(["GET", "HEAD", "POST"])
def request_change(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """The form; what was typed stays on any error. Beside it, what the engine says of what is typed."""
    user, now = person(request), timezone.now()
    found = get_request_or_404(user, key, for_write=True)
    if request.method == "POST":
        try:
            made = changes.ask(
                request=found, user=user, values=request.POST, now=now, source_ip=source_ip(request)
            )
        except UnableToChangeRequest as error:
            form = ChangeForm(request=found, values=request.POST.dict(), errors=error.errors)
            return _form_page(request, found, form, values=request.POST.dict(), status=422)
        _tell(request, made)
        return htmx.redirect(request, "request-detail", key)
    values = request.GET.dict()
    return _form_page(request, found, ChangeForm(request=found, values=values), values=values)


@require_POST
def change_approve(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """Agree to a change, or to less than was asked for."""
    return _decide(request, key, Verdict.APPROVED, _("Approved."))


@require_POST
def change_reject(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """Turn a change down; the comment says why."""
    return _decide(request, key, Verdict.REJECTED, _("Rejected."))


@require_POST
def change_accept(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """Accept the condition of an approval."""
    user = person(request)
    change = get_change_or_404(user, key)
    if asker_is_another(user, change):
        raise PermissionDenied(_("Only who asked accepts a condition."))
    try:
        change_decisions.accept(change=change, user=user, now=timezone.now(), source_ip=source_ip(request))
    except UnableToChangeRequest as error:
        messages.error(request, _all(error.errors))
    else:
        _tell(request, change)
    return htmx.redirect(request, "request-detail", change.request.key)


@require_POST
def change_withdraw(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """Give a change up."""
    user = person(request)
    change = get_change_or_404(user, key, for_write=True)
    try:
        changes.withdraw(change=change, user=user, now=timezone.now(), source_ip=source_ip(request))
    except UnableToChangeRequest as error:
        messages.error(request, _all(error.errors))
    else:
        messages.success(request, _("The change is withdrawn."))
    return htmx.redirect(request, "request-detail", change.request.key)


@require_POST
def request_offer(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """Approve a request that waits, on a condition."""
    user = person(request)
    found = get_request_or_404(user, key)
    try:
        change_decisions.offer(
            request=found,
            user=user,
            condition=condition_of(request.POST),
            comment=request.POST.get("comment", ""),
            now=timezone.now(),
            source_ip=source_ip(request),
        )
    except UnableToDecide as error:
        if error.field:
            return _refused(request, key, error)
        messages.error(request, error.message)
    else:
        messages.success(request, _("The condition waits for the requester."))
    return _back(request, found)


def get_change_or_404(user: User, key: uuid.UUID, *, for_write: bool = False) -> RequestChange:
    """The change, if `user` may know of its request; a stranger gets 404, a reader who may not act 403."""
    change = related(RequestChange.objects.filter(key=key)).first()
    if change is None:
        raise Http404
    access.authorise(user, change.request.project, details=True, for_write=for_write)
    return change


def asker_is_another(user: User, change: RequestChange) -> bool:
    """Whether the condition waits for somebody else."""
    return change.state == RequestChange.State.OFFERED and not may_answer(user, change)


def condition_of(values: Mapping[str, object]) -> dict[str, object]:
    """What an approver typed as their condition; empty = none."""
    found = {name: values.get(name) for name in ("count", "duration") if values.get(name)}
    unit = values.get("duration_unit")
    return {**found, "duration_unit": unit or "hours"} if found else {}


# --- inside ---------------------------------------------------------------------------------------


def _decide(request: HttpRequest, key: uuid.UUID, verdict: str, done: str) -> HttpResponse:
    user = person(request)
    change = get_change_or_404(user, key)
    try:
        change_decisions.decide(
            change=change,
            user=user,
            verdict=verdict,
            comment=request.POST.get("comment", ""),
            condition=condition_of(request.POST) if verdict == Verdict.APPROVED else None,
            now=timezone.now(),
            source_ip=source_ip(request),
        )
    except UnableToDecide as error:
        if error.field:
            return _refused(request, key, error)
        messages.error(request, error.message)
    else:
        messages.success(request, done)
    return _back(request, change.request)


def _refused(request: HttpRequest, key: uuid.UUID, error: UnableToDecide) -> HttpResponse:
    """The queue with what was typed: nothing is lost."""
    names = ("comment", "count", "duration", "duration_unit")
    typed = {name: request.POST.get(name, "") for name in names}
    refused = {"key": key, "field": error.field, "message": error.message, **typed}
    return approval_page(request, person(request), refused=refused, status=422)


def _back(request: HttpRequest, found: Request) -> HttpResponse:
    if request.POST.get("back") == "request":
        return htmx.redirect(request, "request-detail", found.key)
    return htmx.redirect(request, "approval-list")


def _form_page(
    request: HttpRequest,
    found: Request,
    form: ChangeForm,
    *,
    values: Mapping[str, str],
    status: int = 200,
) -> HttpResponse:
    user, now = person(request), timezone.now()
    reading = asks.read({**values_of(found), **values, "key": ""}, user=user, now=now)
    context = {
        "form": form,
        "request_": found,
        "changeable": found.state in LIVE,
        "preview": preview(
            reading,
            prices=price_list(),
            now=now,
            viewer=user,
            changing=Changing(request=found, release=values.get("release") or _WHEN_SERVED),
        ),
    }
    return htmx.render(request, "claims/request_change.html", context, partial="panel", status=status)


def _tell(request: HttpRequest, change: RequestChange) -> None:
    match change.state:
        case RequestChange.State.APPLIED if change.replaces:
            messages.success(request, _("A new request takes its place; you find it below."))
        case RequestChange.State.APPLIED:
            messages.success(request, _("It is changed."))
        case RequestChange.State.FAILED:
            messages.error(request, change.message)
        case _:
            messages.success(request, _("The change waits for a decision."))


def _all(errors: Mapping[str, list[str]]) -> str:
    return " ".join(text for said in errors.values() for text in said)
