"""What somebody does with their notifications, and what they want to be told. (The list itself is composed
with what other rooms watch for: `portal.pages.notifications`.)"""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from portal import access, htmx
from portal.accounts.audit import source_ip
from portal.accounts.models import Delivery, Notification
from portal.accounts.notifications import choosing, inbox
from portal.accounts.notifications.channels import mail_offered, offered_channels
from portal.accounts.notifications.kinds import Channel, Kind


@require_POST
def notification_open(request: HttpRequest, pk: int) -> HttpResponse:
    """Read, and on to what it is about."""
    person = access.person(request)
    found = get_object_or_404(Notification.objects.of(person), pk=pk)
    inbox.read(person=person, now=timezone.now(), pk=found.pk)
    return htmx.redirect(request, found.url or reverse("notification-list"))


@require_POST
def notification_read(request: HttpRequest) -> HttpResponse:
    """Mark one (`pk`), all of a kind (`kind`), or all as read."""
    person = access.person(request)
    kind = request.POST.get("kind", "")
    kind = kind if kind in Kind.values else ""
    pk = request.POST.get("pk", "")
    if pk:
        number = int(pk) if pk.isascii() and pk.isdecimal() and len(pk) < 19 else 0
        inbox.read(person=person, now=timezone.now(), pk=number)
    else:
        inbox.read(person=person, now=timezone.now(), kind=kind)
    back = reverse("notification-list")
    return htmx.redirect(request, f"{back}?{urlencode({'kind': kind})}" if kind else back)


@require_http_methods(["GET", "HEAD", "POST"])
def notification_choices(request: HttpRequest) -> HttpResponse:
    """What to hear of, and by which channel."""
    person = access.person(request)
    table = choosing.cells(person)
    if request.method == "POST":
        choosing.choose(
            person=person,
            choices={(cell.kind, cell.channel): cell.name in request.POST for row in table for cell in row},
            now=timezone.now(),
            source_ip=source_ip(request),
        )
        messages.success(request, _("Your choice is saved."))
        return htmx.redirect(request, "notification-choices")
    dead = Delivery.objects.filter(person=person, channel=Channel.MAIL, state=Delivery.State.DEAD)
    context = {
        "table": table,
        "channels": offered_channels(),
        "mail_offered": mail_offered(),
        "webhooks": person.webhooks.count(),
        "undelivered": dead.order_by("-finished_at").first(),
    }
    return htmx.render(request, "accounts/notification_choices.html", context)
