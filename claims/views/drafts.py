"""Drafts of requests: keeping what a form holds, the list, deleting one. Sending is the form's way."""

import uuid

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from claims.asks import drafts
from claims.asks.drafts import UnableToKeep, get_draft_or_404
from claims.asks.forms import RequestForm
from claims.asks.judging import FIELDS, parse_key, projects_for
from claims.asks.values import UnableToSubmit
from claims.catalogue.offers import flavor_names
from claims.models import Draft
from claims.views.requests import form_page
from portal import htmx
from portal.access import person
from portal.accounts.audit import source_ip


@require_safe
def draft_list(request: HttpRequest) -> HttpResponse:
    """The reader's own."""
    user = person(request)
    projects = projects_for(user)
    context = {
        "rows": Draft.objects.filter(owner=user).order_by("-changed_at", "-pk"),
        "can_request": bool(projects),
        "projects": {project.slug: project.name for project in projects},
        "flavors": flavor_names(user),
    }
    return render(request, "claims/draft_list.html", context)


@require_POST
def draft_keep(request: HttpRequest) -> HttpResponse:
    """Keep what the form of a request holds, complete or not; again, in the place of what was kept."""
    user, now = person(request), timezone.now()
    values = {name: request.POST.get(name, "") for name in FIELDS}
    try:
        key = parse_key(request.POST.get("key"))
        drafts.keep(user=user, values=values, key=key, now=now, source_ip=source_ip(request))
    except (UnableToKeep, UnableToSubmit) as error:
        form = RequestForm(user=user, now=now, values=request.POST.dict(), errors=error.errors)
        return form_page(request, form, status=422)
    messages.success(request, _("Kept as a draft. Nothing was asked for yet."))
    return htmx.redirect(request, "draft-list")


@require_http_methods(["GET", "HEAD", "POST"])
def draft_delete(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """Forget it, after a page that says what it means."""
    user = person(request)
    draft = get_draft_or_404(user, key)
    if request.method == "POST":
        drafts.discard(draft=draft, user=user, now=timezone.now(), source_ip=source_ip(request))
        messages.success(request, _("The draft is deleted."))
        return htmx.redirect(request, "draft-list")
    context = {
        "title": _("Delete the draft?"),
        "text": _("What you typed is lost. Nothing was asked for with it."),
        "consequences": [],
        "submit_label": _("Delete"),
        "cancel_url": reverse("draft-list"),
    }
    return render(request, "components/confirm.html", context)
