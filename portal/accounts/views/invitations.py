"""Invitations: a project's list of them, and the way in for who holds a link."""

import logging
from datetime import datetime
from smtplib import SMTPException

from allauth.account.adapter import get_adapter
from allauth.core.internal import ratelimit
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.core.mail import send_mail
from django.db.models import Exists, OuterRef
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal import access, htmx
from portal.accounts import invitations
from portal.accounts.audit import source_ip
from portal.accounts.forms import InvitationForm, JoinForm
from portal.accounts.limits import too_many
from portal.accounts.models import Invitation, Project, User
from portal.accounts.people import UnableToJoin, join

log = logging.getLogger(__name__)

SHOWN = 100


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def invitation_list(request: HttpRequest, slug: str) -> HttpResponse:
    """A project's invitations, and the form for a new one, whose link the answer shows this once."""
    user = access.person(request)
    project = access.get_project_or_404(user, slug, for_lead=True)
    now = timezone.now()
    form, link, created, mailed = InvitationForm(request.POST or None), "", None, False
    if request.method == "POST" and form.is_valid():
        try:
            created, secret = invitations.invite(
                project=project, actor=user, now=now, source_ip=source_ip(request), **form.cleaned_data
            )
        except invitations.UnableToInvite as unable:
            form.add_error(unable.field or None, unable.message)
        else:
            link = request.build_absolute_uri(reverse("invitation-open", args=[secret]))
            mailed = _mail(created, link) if created.email and settings.MAIL_OFFERED else False
            form = InvitationForm()
    context = {
        "project": project,
        "form": form,
        "link": link,
        "created": created,
        "mailed": mailed,
        "rows": _rows(project, now=now),
    }
    status = 422 if form.is_bound and not form.is_valid() else 200
    return htmx.render(request, "accounts/invitations.html", context, status=status)


def _rows(project: Project, *, now: datetime) -> list[tuple[Invitation, str]]:
    """The newest invitations with what became of each."""
    good = invitations.open_invitations(project, now=now).filter(pk=OuterRef("pk"))
    found = Invitation.objects.filter(project=project).select_related("created_by", "used_by")
    newest = found.annotate(good=Exists(good)).order_by("-created_at", "-pk")[:SHOWN]
    states = [(item, item.state(now)) for item in newest]
    return [(item, "lapsed" if state == "open" and not item.good else state) for item, state in states]


@require_POST
def invitation_revoke(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """Takes an open invitation back."""
    user = access.person(request)
    project = access.get_project_or_404(user, slug, for_lead=True)
    invitation = get_object_or_404(Invitation.objects.select_related("project"), project=project, pk=pk)
    if invitations.revoke(
        invitation=invitation, actor=user, now=timezone.now(), source_ip=source_ip(request)
    ):
        messages.success(request, _("The invitation is taken back: its link lets nobody in any more."))
    else:
        messages.error(request, _("The invitation was used or taken back already."))
    return htmx.redirect(request, "invitation-list", slug=slug)


@never_cache
@login_not_required
@require_safe
def invitation_open(request: HttpRequest, secret: str) -> HttpResponse:
    """The link itself: its secret goes into the session, out of the address, the history and every log."""
    invitations.remember(request, secret)
    return htmx.redirect(request, "invitation-accept")


@never_cache
@login_not_required
@require_http_methods(["GET", "HEAD", "POST"])
def invitation_accept(request: HttpRequest) -> HttpResponse:
    """Who is signed in accepts; who is not signs in first, or makes an account here."""
    now = timezone.now()
    secret = request.session.get(invitations.SESSION_KEY, "")
    try:
        invitation = invitations.find(str(secret), now=now)
    except invitations.UnableToAccept as unable:
        return _closed(request, unable)
    user = request.user
    if isinstance(user, User):
        return _accept(request, invitation, user)
    form = JoinForm(request.POST or None, initial={"email": invitation.email})
    if invitation.email:
        form.fields["email"].widget.attrs["readonly"] = True
    if request.method == "POST" and not ratelimit.consume(request, app="allauth.account", action="signup"):
        return too_many(request)
    if request.method == "POST" and form.is_valid():
        wanted = {name: form.cleaned_data[name] for name in ("password", *JoinForm.Meta.fields)}
        try:
            made = join(invitation=invitation, now=now, source_ip=source_ip(request), **wanted)
        except UnableToJoin as unable:
            form.add_error(unable.field or None, unable.message)
        except invitations.UnableToAccept as unable:
            return _closed(request, unable)
        else:
            request.session.pop(invitations.SESSION_KEY, None)
            get_adapter().login(request, made)
            return _welcome(request, invitation)
    context = {"invitation": invitation, "form": form, "next": reverse("invitation-accept")}
    return htmx.render(request, "accounts/invitation_join.html", context)


def _accept(request: HttpRequest, invitation: Invitation, user: User) -> HttpResponse:
    if request.method == "POST":
        try:
            invitations.accept(
                invitation=invitation, user=user, now=timezone.now(), source_ip=source_ip(request)
            )
        except invitations.UnableToAccept as unable:
            return _closed(request, unable)
        request.session.pop(invitations.SESSION_KEY, None)
        return _welcome(request, invitation)
    return htmx.render(request, "accounts/invitation_accept.html", {"invitation": invitation})


def _welcome(request: HttpRequest, invitation: Invitation) -> HttpResponse:
    messages.success(request, _("Welcome to %(project)s.") % {"project": invitation.project})
    return htmx.redirect(request, "project-detail", slug=invitation.project.slug)


def _closed(request: HttpRequest, unable: invitations.UnableToAccept) -> HttpResponse:
    """Why the link leads nowhere; 410 for what was good once, 404 for what never was."""
    status = {"unknown": 404, "address": 403, "member": 409}.get(unable.code, 410)
    return htmx.render(request, "accounts/invitation_closed.html", {"unable": unable}, status=status)


def _mail(invitation: Invitation, link: str) -> bool:
    """Sends the link; False when the mail server does not take it (the link is on the page all the same)."""
    names = {
        "project": invitation.project,
        "person": invitation.created_by,
        "link": link,
        "desk": settings.ORGANISATION,
    }
    try:
        send_mail(
            _("%(person)s invites you to %(project)s") % names,
            _(
                "%(person)s invites you to the project %(project)s on %(desk)s, where accelerators are asked "
                "for.\n\nOpen this link to accept; it works once:\n\n%(link)s\n"
            )
            % names,
            None,
            [invitation.email],
        )
    except (OSError, SMTPException):
        log.warning("the mail for invitation %s was not taken", invitation.pk, exc_info=True)
        return False
    return True
