"""Launches: the templates, starting one on a request, how they are, and stopping them."""

import uuid
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from claims.asks.judging import projects_for
from claims.asks.reading import WrongValue, read_integer
from claims.launches import launching as launches
from claims.launches import templates as launch_templates
from claims.launches.forms import LaunchForm, LaunchTemplateForm, filled_in, template_values
from claims.launches.launching import UnableToLaunch
from claims.launches.templates import terms_of
from claims.launches.terms import LaunchTerms, UnableToChangeLaunch, read_launch_terms
from claims.launches.told import launches_context, offered_to
from claims.models import Launch, LaunchTemplate
from claims.requests.browse import get_request_or_404
from portal import access, htmx
from portal.access import person, require_administrator
from portal.accounts.audit import source_ip

# --- templates --------------------------------------------------------------------------------------


@require_safe
def template_list(request: HttpRequest) -> HttpResponse:
    """What the desk can start for the reader; to administrators and auditors everything."""
    user = person(request)
    archived = LaunchTemplate.objects.exclude(archived_at=None).order_by("name")
    context = {
        "rows": offered_to(user),
        "archived": archived if access.may_read_everything(user) else [],
        "may_administer": access.may_administer(user),
        "can_request": bool(projects_for(user)),
    }
    return render(request, "claims/launch_template_list.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def template_create(request: HttpRequest) -> HttpResponse:
    """Make one; it is offered at once."""
    if request.method != "POST":
        plain = LaunchTemplateForm(values=template_values(LaunchTerms(), version=1))
        return _template_page(request, plain, None)
    try:
        launch_templates.create(
            terms=read_launch_terms(request.POST),
            user=person(request),
            now=timezone.now(),
            source_ip=source_ip(request),
        )
    except UnableToChangeLaunch as error:
        form = LaunchTemplateForm(values=request.POST, errors=error.errors)
        return _template_page(request, form, None, status=422)
    messages.success(request, _("Saved. It is offered from now on."))
    return htmx.redirect(request, "launch-template-list")


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def template_edit(request: HttpRequest, slug: str) -> HttpResponse:
    """Change one. What was started with it goes on as it is."""
    template = get_object_or_404(LaunchTemplate, slug=slug)
    if request.method != "POST":
        values = template_values(terms_of(template), version=template.version)
        return _template_page(request, LaunchTemplateForm(values=values), template)
    try:
        launch_templates.update(
            template=template,
            terms=read_launch_terms(request.POST),
            seen_version=_version(request),
            user=person(request),
            now=timezone.now(),
            source_ip=source_ip(request),
        )
    except UnableToChangeLaunch as error:
        typed = request.POST.copy()
        if error.conflict:
            # Saved again, it is a decision made with the message in sight.
            typed["version"] = str(LaunchTemplate.objects.get(pk=template.pk).version)
        form = LaunchTemplateForm(values=typed, errors=error.errors)
        stored = LaunchTemplate.objects.get(pk=template.pk)
        return _template_page(request, form, stored, status=409 if error.conflict else 422)
    messages.success(request, _("Saved."))
    return htmx.redirect(request, "launch-template-list")


@require_POST
@require_administrator
def template_archive(request: HttpRequest, slug: str) -> HttpResponse:
    """No longer offer it, or again ("restore")."""
    template = get_object_or_404(LaunchTemplate, slug=slug)
    archived = request.POST.get("restore") is None
    launch_templates.archive(
        template=template,
        archived=archived,
        user=person(request),
        now=timezone.now(),
        source_ip=source_ip(request),
    )
    told = _("“%(name)s” is no longer offered.") if archived else _("“%(name)s” is offered again.")
    messages.success(request, told % {"name": template.name})
    return htmx.redirect(request, "launch-template-list")


# --- on a request -----------------------------------------------------------------------------------


@require_safe
def request_launches(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """The part of a request's page that tells what was started on it; asks again by itself."""
    user = person(request)
    found = get_request_or_404(user, key)
    may_act = access.may_work_in(user, found.project)
    context = {"request_": found, **launches_context(found, may_act=may_act)}
    finished = context["launches_finished"]
    return htmx.render(request, "claims/launches.html", context, partial="part", finished=finished)


@require_http_methods(["GET", "HEAD", "POST"])
def request_launch(request: HttpRequest, key: uuid.UUID, slug: str) -> HttpResponse:
    """Start a template on a request: what it asks for, and what will be made."""
    user, now = person(request), timezone.now()
    found = get_request_or_404(user, key, for_write=True)
    template = get_object_or_404(LaunchTemplate.objects.for_request(found), slug=slug)
    context: dict[str, Any] = {"request_": found, "template": template}
    if request.method != "POST":
        return render(request, "claims/launch_form.html", context | {"form": LaunchForm(template=template)})
    try:
        made = launches.start(
            request=found,
            template=template,
            user=user,
            values=filled_in(request.POST.dict()),
            key=request.POST.get("key"),
            now=now,
            source_ip=source_ip(request),
        )
    except UnableToLaunch as error:
        form = LaunchForm(template=template, values=request.POST.dict(), errors=error.errors)
        return render(request, "claims/launch_form.html", context | {"form": form}, status=422)
    if made.created_at != now:
        messages.info(
            request, _("This form was sent before. This is what came of it then; nothing was done again.")
        )
    else:
        messages.success(request, _("The desk starts “%(name)s”.") % {"name": template.name})
    return htmx.redirect(request, "request-detail", found.key)


@require_http_methods(["GET", "HEAD", "POST"])
def request_launch_stop(request: HttpRequest, key: uuid.UUID, launch: uuid.UUID) -> HttpResponse:
    """Remove what was started, after a page that says what it means."""
    user = person(request)
    found = get_request_or_404(user, key, for_write=True)
    row = get_object_or_404(Launch.objects.select_related("template", "request"), key=launch, request=found)
    if request.method == "POST":
        try:
            launches.stop(launch=row, user=user, now=timezone.now(), source_ip=source_ip(request))
        except UnableToLaunch as error:
            messages.error(request, " ".join(error.errors["__all__"]))
        else:
            messages.success(request, _("“%(name)s” is being removed.") % {"name": row.object_name})
        return htmx.redirect(request, "request-detail", found.key)
    context = {
        "title": _("Stop %(name)s?") % {"name": row.object_name},
        "text": _("The desk removes it from the cluster, with its Pods. The request itself goes on."),
        "consequences": [_("What its Pods have not written to a volume is lost.")],
        "submit_label": _("Stop it"),
        "cancel_url": reverse("request-detail", args=[found.key]),
        "on_cluster": True,
    }
    return render(request, "components/confirm.html", context)


def _template_page(
    request: HttpRequest, form: LaunchTemplateForm, template: LaunchTemplate | None, *, status: int = 200
) -> HttpResponse:
    context = {"form": form, "template": template}
    return render(request, "claims/launch_template_form.html", context, status=status)


def _version(request: HttpRequest) -> int:
    try:
        return read_integer(request.POST, "version") or 0
    except WrongValue:
        return 0
