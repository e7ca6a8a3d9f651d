"""Announcements: administrators write them (auditors read along), everybody may put them away."""

from datetime import datetime
from typing import ClassVar

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal import access, htmx
from portal.accounts.announcements import (
    FIELDS,
    UnableToAnnounce,
    announce,
    change_announcement,
    dismiss,
    end_announcement,
)
from portal.accounts.audit import source_ip
from portal.accounts.models import Announcement
from portal.moments import MomentField

SHOWN = 100


class AnnouncementForm(forms.ModelForm):  # type: ignore[type-arg] # no subscript at run time
    starts_at = MomentField(
        label=gettext_lazy("From"), required=False, help_text=gettext_lazy("Empty: at once.")
    )
    ends_at = MomentField(
        label=gettext_lazy("Until"), required=False, help_text=gettext_lazy("Empty: until somebody ends it.")
    )

    class Meta:
        model = Announcement
        fields = FIELDS
        labels: ClassVar = {
            "level": gettext_lazy("Level"),
            "text": gettext_lazy("Text"),
            "text_zh_hans": gettext_lazy("The same in Chinese"),
            "dismissible": gettext_lazy("Readers may put it away"),
        }
        help_texts: ClassVar = {
            "text_zh_hans": gettext_lazy("Empty: everybody reads the text above."),
        }
        widgets: ClassVar = {
            "text": forms.Textarea(attrs={"rows": 2}),
            "text_zh_hans": forms.Textarea(attrs={"rows": 2}),
        }

    def _post_clean(self) -> None:
        """Only cleans: the domain functions check, assign and save."""


@require_safe
@access.require_reader_of_everything
def announcement_list(request: HttpRequest) -> HttpResponse:
    """All announcements, those that are shown now first."""
    now = timezone.now()
    rows = Announcement.objects.select_related("created_by").order_by("-starts_at", "-pk")[:SHOWN]
    states = {row.pk: _state(row, now) for row in rows}
    order = ("shown", "planned", "over")
    context = {
        "rows": sorted(
            ({"announcement": row, "state": states[row.pk]} for row in rows),
            key=lambda told: order.index(str(told["state"])),
        ),
        "may_write": access.may_administer(access.person(request)),
    }
    return htmx.render(request, "accounts/announcements.html", context)


@access.require_administrator
@require_http_methods(["GET", "HEAD", "POST"])
def announcement_create(request: HttpRequest) -> HttpResponse:
    """A new announcement."""
    form = AnnouncementForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            announce(
                values=form.cleaned_data,
                actor=access.person(request),
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        except UnableToAnnounce as unable:
            form.add_error(unable.field, unable.message)
        else:
            messages.success(request, _("Everybody sees it on the first page."))
            return htmx.redirect(request, "announcement-list")
    return _form(request, form)


@access.require_administrator
@require_http_methods(["GET", "HEAD", "POST"])
def announcement_edit(request: HttpRequest, pk: int) -> HttpResponse:
    """Other words, or another time."""
    announcement = get_object_or_404(Announcement, pk=pk)
    form = AnnouncementForm(request.POST or None, instance=announcement)
    if request.method == "POST" and form.is_valid():
        try:
            change_announcement(
                announcement=get_object_or_404(Announcement, pk=pk),
                values=form.cleaned_data,
                actor=access.person(request),
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        except UnableToAnnounce as unable:
            form.add_error(unable.field, unable.message)
        else:
            messages.success(request, _("The announcement is saved."))
            return htmx.redirect(request, "announcement-list")
    return _form(request, form, announcement)


@require_POST
@access.require_administrator
def announcement_end(request: HttpRequest, pk: int) -> HttpResponse:
    """Shown no more from now on."""
    end_announcement(
        announcement=get_object_or_404(Announcement, pk=pk),
        actor=access.person(request),
        now=timezone.now(),
        source_ip=source_ip(request),
    )
    messages.success(request, _("The announcement is no longer shown."))
    return htmx.redirect(request, "announcement-list")


@require_POST
def announcement_dismiss(request: HttpRequest, pk: int) -> HttpResponse:
    """The reader has read it."""
    shown = Announcement.objects.current(timezone.now())
    dismiss(announcement=get_object_or_404(shown, pk=pk), user=access.person(request))
    return htmx.redirect(request, "home")


def _form(
    request: HttpRequest, form: AnnouncementForm, announcement: Announcement | None = None
) -> HttpResponse:
    context = {"form": form, "announcement": announcement}
    status = 422 if form.errors else 200
    return htmx.render(request, "accounts/announcement_form.html", context, status=status)


def _state(row: Announcement, now: datetime) -> str:
    if row.starts_at > now:
        return "planned"
    return "over" if row.ends_at is not None and row.ends_at <= now else "shown"
