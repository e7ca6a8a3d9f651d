"""Finding requests: one by its key, or many by a query string, as far as the reader may know of them."""

import uuid
from collections.abc import Mapping

from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import Http404
from django.utils.translation import gettext as _

from claims.models import FINAL_STATES, Request
from claims.models.requests import RequestQuerySet
from inventory.filters import clean_text
from portal import access
from portal.accounts.models import User


def get_request_or_404(
    user: User, key: uuid.UUID, *, for_write: bool = False, to_end: bool = False
) -> Request:
    """The request, if `user` may know of it; a stranger gets 404, a reader who may not act 403.

    `to_end` asks for the right to give it up, which outlives the archiving of the project."""
    request = (
        Request.objects.select_related("project", "requester", "cluster", "flavor")
        .defer("cluster__kubeconfig_encrypted")
        .filter(key=key)
        .first()
    )
    if request is None:
        raise Http404
    access.authorise(user, request.project, details=True, for_write=for_write)
    if to_end and not may_end(user, request):
        raise PermissionDenied(_("You may look at this request but not end it."))
    return request


def may_end(user: User, request: Request) -> bool:
    """Whether the person may give the request up: members and administrators, also in an archived project."""
    if user.is_auditor:
        return False
    return access.may_administer(user) or access.role_in(user, request.project) is not None


def filtered(rows: RequestQuerySet, values: Mapping[str, str], user: User) -> RequestQuerySet:
    """Requests narrowed by a query string: q, state (a state, "active" or "over"), project, mine."""
    wanted = chosen(values)
    state = wanted["state"]
    if state == "active":
        rows = rows.active()
    elif state == "over":
        rows = rows.filter(state__in=FINAL_STATES)
    elif state:
        rows = rows.filter(state=state)
    if wanted["project"]:
        rows = rows.filter(project__slug=wanted["project"])
    if wanted["mine"] in ("1", "true", "on"):
        rows = rows.filter(requester=user)
    if text := wanted["q"]:
        rows = rows.filter(
            Q(object_name__icontains=text)
            | Q(device_class__icontains=text)
            | Q(extended_resource__icontains=text)
            | Q(flavor__name__icontains=text)
            | Q(purpose__icontains=text)
        )
    return rows


def chosen(values: Mapping[str, str]) -> dict[str, str]:
    """The filters as typed, fit for a search."""
    return {name: clean_text(str(values.get(name) or "")) for name in ("q", "state", "project", "mine")}
