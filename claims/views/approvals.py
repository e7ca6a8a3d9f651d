"""Approvals: the queue of leads and administrators, and deciding. Never by GET."""

import uuid
from collections.abc import Mapping

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from claims.asks.reading import read_flag
from claims.changes.told import decidable_changes, related, told
from claims.models import RequestChange
from claims.money.pricing import price_list
from claims.requests import approvals
from claims.requests.approvals import UnableToDecide, Verdict, decidable, queue
from claims.requests.browse import get_request_or_404
from portal import access, htmx
from portal.access import person
from portal.accounts.audit import source_ip
from portal.accounts.models import Membership, User

PAGE_SIZE = 25


@require_safe
def approval_list(request: HttpRequest) -> HttpResponse:
    """What waits for a decision in the projects that the reader leads, the oldest first; administrators see
    all of it."""
    user = person(request)
    if not _may_look(user):
        raise PermissionDenied(_("Only leads and administrators decide about requests."))
    return approval_page(request, user)


@require_POST
def request_approve(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """Agree to a request."""
    return _decide(request, key, Verdict.APPROVED, _("Approved."))


@require_POST
def request_reject(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """Turn a request down; the comment says why."""
    return _decide(request, key, Verdict.REJECTED, _("Rejected."))


def _decide(request: HttpRequest, key: uuid.UUID, verdict: str, done: str) -> HttpResponse:
    user = person(request)
    found = get_request_or_404(user, key)
    comment = request.POST.get("comment", "")
    try:
        approvals.decide(
            request=found,
            user=user,
            verdict=verdict,
            comment=comment,
            over_quota=read_flag(request.POST, "over_quota"),
            now=timezone.now(),
            source_ip=source_ip(request),
        )
    except UnableToDecide as error:
        if error.field:
            # Back to the queue with what was typed: nothing is lost.
            refused = {
                "key": found.key, "comment": comment, "message": error.message, "field": error.field,
            }  # fmt: skip
            return approval_page(request, user, refused=refused, status=422)
        messages.error(request, error.message)
    else:
        messages.success(request, done)
    if request.POST.get("back") == "request":
        return htmx.redirect(request, "request-detail", key)
    return htmx.redirect(request, "approval-list")


def approval_page(
    request: HttpRequest, user: User, *, refused: Mapping[str, object] | None = None, status: int = 200
) -> HttpResponse:
    """The queue; `refused` is what was typed about one of its entries, and what is wrong with it."""
    rows = (
        decidable(user)
        .select_related("project", "cluster", "requester", "flavor")
        .defer("cluster__kubeconfig_encrypted")
        .order_by("created_at", "pk")
    )
    page = Paginator(rows, PAGE_SIZE).get_page(request.GET.get("page"))
    context = {
        "page": page,
        "rows": queue(list(page.object_list), user=user, prices=price_list(), now=timezone.now()),
        "changes": told(_changes(user), user),
        "refused": refused,
    }
    return htmx.render(request, "claims/approval_list.html", context, partial="rows", status=status)


def _changes(user: User) -> QuerySet[RequestChange]:
    return related(decidable_changes(user)).order_by("created_at", "pk")[:PAGE_SIZE]


def _may_look(user: User) -> bool:
    if access.may_read_everything(user):
        return True
    return Membership.objects.filter(user=user, role=Membership.Role.LEAD).exists()
