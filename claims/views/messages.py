"""Messages to who holds a device, and answers."""

from collections.abc import Sequence
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from claims.models import HolderMessage, Mute
from claims.waiting import holders as asking_holder
from inventory.models import Device
from portal import htmx
from portal.access import person
from portal.accounts.audit import source_ip
from portal.accounts.models import User


class MessageForm(forms.Form):
    text = forms.CharField(
        label=gettext_lazy("Message"),
        max_length=asking_holder.MAX_TEXT,
        widget=forms.Textarea(attrs={"rows": 4}),
    )


@require_http_methods(["GET", "HEAD", "POST"])
def device_ask(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask who holds the device."""
    user = person(request)
    device = get_object_or_404(Device.objects.select_related("pool", "cluster"), pk=pk)
    form = MessageForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            sent = asking_holder.ask(
                device=device,
                sender=user,
                text=form.cleaned_data["text"],
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        except asking_holder.UnableToSend as unable:
            form.add_error(unable.field or None, unable.message)
        else:
            messages.success(request, _("The desk passes your message on."))
            return htmx.redirect(request, "message-thread", key=sent[0].key)
    projects = sorted({found.project.name for found in asking_holder.holding(device)})
    context = {"form": form, "device": device, "projects": projects}
    return htmx.render(request, "claims/device_ask.html", context, status=422 if form.errors else 200)


@require_http_methods(["GET", "HEAD", "POST"])
def message_thread(request: HttpRequest, key: UUID) -> HttpResponse:
    """What was asked and answered, and the form to go on."""
    user = person(request)
    thread = _thread(user, key)
    form = MessageForm(request.POST or None)
    may_answer = asking_holder.may_answer(user, thread)
    if request.method == "POST":
        if not may_answer:
            raise PermissionDenied(_("Only who takes part answers."))
        if form.is_valid():
            try:
                asking_holder.answer(
                    thread=thread,
                    sender=user,
                    text=form.cleaned_data["text"],
                    now=timezone.now(),
                    source_ip=source_ip(request),
                )
            except asking_holder.UnableToSend as unable:
                form.add_error(unable.field or None, unable.message)
            else:
                messages.success(request, _("The desk passes your message on."))
                return htmx.redirect(request, "message-thread", key=thread.key)
    rows = asking_holder.messages_of(thread)
    other = _other(user, thread, rows)
    names = asking_holder.called([row.sender for row in rows], reader=user)
    context = {
        "thread": thread,
        "rows": [(row, names[row.sender_id], row.sender_id == user.pk) for row in rows],
        "form": form,
        "may_answer": may_answer,
        "muted": other and Mute.objects.filter(person=user, muted=other).first(),
        "may_mute": may_answer and other is not None,
        "knows_request": user in asking_holder.people_of(thread.request),
    }
    return htmx.render(request, "claims/message_thread.html", context, status=422 if form.errors else 200)


@require_POST
def message_mute(request: HttpRequest, key: UUID) -> HttpResponse:
    """No more messages of who asked, or, for who asked, of whoever answered last."""
    user = person(request)
    thread = _thread(user, key)
    if not asking_holder.may_answer(user, thread):
        raise PermissionDenied(_("Only who takes part answers."))
    muted = _other(user, thread, asking_holder.messages_of(thread))
    if muted is not None:
        asking_holder.mute(person=user, muted=muted, now=timezone.now(), source_ip=source_ip(request))
        messages.success(request, _("You get no more messages of them."))
    return htmx.redirect(request, "message-thread", key=thread.key)


@require_POST
def mute_end(request: HttpRequest, pk: int) -> HttpResponse:
    """They may write again."""
    row = get_object_or_404(Mute.objects.select_related("person"), pk=pk, person=person(request))
    asking_holder.unmute(row=row, now=timezone.now(), source_ip=source_ip(request))
    messages.success(request, _("They may write to you again."))
    return htmx.redirect(request, "notification-list")


def _thread(user: User, key: UUID) -> HolderMessage:
    thread = asking_holder.thread_for(user, key)
    if thread is None:
        raise Http404
    return thread


def _other(user: User, thread: HolderMessage, rows: Sequence[HolderMessage]) -> User | None:
    """Who writes to `user` in this thread."""
    if thread.sender_id != user.pk:
        return thread.sender
    others = [row.sender for row in rows if row.sender_id != user.pk]
    return others[-1] if others else None
