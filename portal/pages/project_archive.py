"""Closing a project, after a page that says what it means; and opening it again."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST

from claims.models import Booking, Request
from portal import access, htmx
from portal.accounts.audit import source_ip
from portal.accounts.models import Project
from portal.accounts.projects import archive_project


@require_http_methods(["GET", "HEAD", "POST"])
def project_archive(request: HttpRequest, slug: str) -> HttpResponse:
    """Take no new requests for the project."""
    user = access.person(request)
    project = access.get_project_or_404(user, slug, for_administrator=True)
    if request.method == "POST":
        return _change(request, project, archived=True)
    context = {
        "title": _("Archive %(name)s?") % {"name": project.name},
        "text": _("Nothing new can be asked for, and it is no longer offered as a choice."),
        "consequences": [
            *_what_runs(project),
            _("Its history and its cost stay, and its members still see them."),
            _("An administrator can open it again at any time."),
        ],
        "submit_label": _("Archive"),
        "cancel_url": reverse("project-detail", args=[slug]),
    }
    return render(request, "components/confirm.html", context)


@require_POST
def project_restore(request: HttpRequest, slug: str) -> HttpResponse:
    """Take requests for the project again."""
    project = access.get_project_or_404(access.person(request), slug, for_administrator=True)
    return _change(request, project, archived=False)


def _change(request: HttpRequest, project: Project, *, archived: bool) -> HttpResponse:
    archive_project(
        project=project,
        archived=archived,
        actor=access.person(request),
        now=timezone.now(),
        source_ip=source_ip(request),
    )
    told = _("“%(name)s” is archived.") if archived else _("“%(name)s” takes requests again.")
    messages.success(request, told % {"name": project.name})
    return htmx.redirect(request, "project-detail", project.slug)


def _what_runs(project: Project) -> list[str]:
    said = []
    if running := Request.objects.filter(project=project).active().count():
        said.append(
            ngettext(
                "%(count)s request goes on until its end; its members can still release it.",
                "%(count)s requests go on until their end; its members can still release them.",
                running,
            )
            % {"count": running}
        )
    if planned := Booking.objects.filter(project=project).planned().count():
        said.append(
            ngettext(
                "%(count)s booking will not be started.", "%(count)s bookings will not be started.", planned
            )
            % {"count": planned}
        )
    return said
