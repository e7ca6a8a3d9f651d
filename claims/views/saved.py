"""Saved requests: keeping one, the list, giving it another name or sharing it, deleting it."""

import uuid

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from claims.asks import saved
from claims.asks.forms import RequestForm
from claims.asks.judging import FIELDS, projects_for
from claims.asks.saved import UnableToSave, get_saved_or_404
from claims.asks.saved_forms import SavingForm
from claims.catalogue.offers import flavor_names
from claims.models import SavedRequest
from claims.views.requests import form_page
from portal import htmx
from portal.access import person
from portal.accounts.audit import source_ip


@require_safe
def saved_list(request: HttpRequest) -> HttpResponse:
    """The reader's own, and those shared with their projects."""
    user = person(request)
    rows = (
        SavedRequest.objects.all().visible_to(user).select_related("owner", "project").order_by("name", "pk")
    )
    context = {
        "rows": rows.order_by("name", "pk"),
        "changeable": set(SavedRequest.objects.all().changeable_by(user).values_list("pk", flat=True)),
        "can_request": bool(projects_for(user)),
        "flavors": flavor_names(user),
    }
    return render(request, "claims/saved_list.html", context)


@require_POST
def saved_create(request: HttpRequest) -> HttpResponse:
    """Keep what the form of a request holds, complete or not."""
    user, now = person(request), timezone.now()
    typed = {"name": request.POST.get("save_name", ""), "project": request.POST.get("save_project", "")}
    values = {name: request.POST.get(name, "") for name in FIELDS}
    try:
        made = saved.save(user=user, values=values, now=now, source_ip=source_ip(request), **typed)
    except UnableToSave as error:
        form = RequestForm(user=user, now=now, values=request.POST.dict(), errors=_of_fields(error))
        saving = SavingForm(projects=form.projects, values=typed, errors=_of_saving(error))
        return form_page(request, form, status=422, saving=saving)
    messages.success(request, _("Saved as “%(name)s”. Nothing was asked for yet.") % {"name": made.name})
    return htmx.redirect(request, "saved-list")


@require_http_methods(["GET", "HEAD", "POST"])
def saved_edit(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """Another name, or shared with others."""
    user = person(request)
    found = get_saved_or_404(user, key, for_write=True)
    slug = found.project.slug if found.project else ""
    if request.method != "POST":
        return _edit_page(request, found, {"name": found.name, "project": slug}, None)
    typed = {"name": request.POST.get("save_name", ""), "project": request.POST.get("save_project", "")}
    try:
        saved.change(saved=found, user=user, now=timezone.now(), source_ip=source_ip(request), **typed)
    except UnableToSave as error:
        return _edit_page(request, get_saved_or_404(user, key), typed, error)
    messages.success(request, _("Saved."))
    return htmx.redirect(request, "saved-list")


@require_http_methods(["GET", "HEAD", "POST"])
def saved_delete(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """Forget it, after a page that says what it means."""
    user = person(request)
    found = get_saved_or_404(user, key, for_write=True)
    if request.method == "POST":
        saved.delete(saved=found, user=user, now=timezone.now(), source_ip=source_ip(request))
        messages.success(request, _("“%(name)s” is deleted.") % {"name": found.name})
        return htmx.redirect(request, "saved-list")
    consequences = []
    if found.project:
        consequences.append(_("The members of %(project)s lose it, too.") % {"project": found.project.name})
    context = {
        "title": _("Delete “%(name)s”?") % {"name": found.name},
        "text": _("Requests that were made with it go on."),
        "consequences": consequences,
        "submit_label": _("Delete"),
        "cancel_url": reverse("saved-list"),
    }
    return render(request, "components/confirm.html", context)


def _edit_page(
    request: HttpRequest, found: SavedRequest, values: dict[str, str], error: UnableToSave | None
) -> HttpResponse:
    projects = projects_for(person(request))
    errors = error.errors if error else None
    form = SavingForm(projects=projects, values=values, errors=errors)
    context = {"form": form, "saved": found}
    return render(request, "claims/saved_form.html", context, status=422 if error else 200)


def _of_saving(error: UnableToSave) -> dict[str, list[str]]:
    return {name: said for name, said in error.errors.items() if name in ("name", "project")}


def _of_fields(error: UnableToSave) -> dict[str, list[str]]:
    return {name: said for name, said in error.errors.items() if name not in ("name", "project")}
