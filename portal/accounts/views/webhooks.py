"""Webhooks: a person's own, and those of a project for its leads."""

from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal import access, htmx
from portal.accounts.audit import source_ip
from portal.accounts.models import Delivery, Project, User, Webhook
from portal.accounts.notifications import targets, webhooks

DELIVERIES_SHOWN = 50


class WebhookForm(forms.Form):
    url = forms.CharField(
        label=gettext_lazy("Address"),
        max_length=targets.MAX_URL,
        widget=forms.URLInput(attrs={"placeholder": "https://hooks.example.org/claimdesk"}),
        help_text=gettext_lazy("It is sent a POST with JSON and a signature. It has to begin with https://."),
    )


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def webhook_list(request: HttpRequest) -> HttpResponse:
    """One's own, and the form for a new one; the answer to the POST shows its secret this once."""
    return _list(request, None)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def project_webhook_list(request: HttpRequest, slug: str) -> HttpResponse:
    """The same for a project, by its leads."""
    return _list(request, access.get_project_or_404(access.person(request), slug, for_lead=True))


@require_safe
def webhook_detail(request: HttpRequest, key: UUID) -> HttpResponse:
    """What it was told lately, and what came of it."""
    hook = _get(access.person(request), key)
    return _detail(request, hook)


@require_POST
def webhook_test(request: HttpRequest, key: UUID) -> HttpResponse:
    """Send a test message."""
    hook, person = _get(access.person(request), key), access.person(request)
    webhooks.try_out(hook=hook, actor=person, now=timezone.now(), source_ip=source_ip(request))
    messages.success(request, _("A test is on its way; what comes of it stands below in a moment."))
    return htmx.redirect(request, "webhook-detail", key=hook.key)


@require_POST
def webhook_retry(request: HttpRequest, key: UUID, pk: int) -> HttpResponse:
    """Another attempt at one message."""
    person = access.person(request)
    hook = _get(person, key)
    delivery = get_object_or_404(Delivery.objects.select_related("webhook__project"), pk=pk, webhook=hook)
    if webhooks.try_again(delivery=delivery, actor=person, now=timezone.now(), source_ip=source_ip(request)):
        messages.success(request, _("The desk tries again now."))
    else:
        messages.info(request, _("It has arrived already, or is being tried just now."))
    return htmx.redirect(request, "webhook-detail", key=hook.key)


@require_POST
def webhook_switch(request: HttpRequest, key: UUID) -> HttpResponse:
    """On (`on=1`) or off."""
    person = access.person(request)
    hook, on = _get(person, key), request.POST.get("on") == "1"
    webhooks.switch(hook=hook, on=on, actor=person, now=timezone.now(), source_ip=source_ip(request))
    messages.success(request, _("It is told again.") if on else _("It is told nothing any more."))
    return htmx.redirect(request, "webhook-detail", key=hook.key)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def webhook_secret(request: HttpRequest, key: UUID) -> HttpResponse:
    """Asks, then makes a new secret, which the answer to the POST shows this once."""
    person = access.person(request)
    hook = _get(person, key)
    if request.method != "POST":
        context = {
            "title": _("A new secret for the webhook"),
            "text": _("The present secret of %(url)s holds no more then.") % {"url": hook.url},
            "consequences": [_("Until the receiver has the new one, it cannot verify what it is sent.")],
            "submit_label": _("Make a new secret"),
            "cancel_url": reverse("webhook-detail", args=[hook.key]),
        }
        return htmx.render(request, "components/confirm.html", context)
    secret = webhooks.renew_secret(hook=hook, actor=person, now=timezone.now(), source_ip=source_ip(request))
    return _detail(request, hook, secret=secret)


@require_http_methods(["GET", "HEAD", "POST"])
def webhook_delete(request: HttpRequest, key: UUID) -> HttpResponse:
    """Asks, then removes it."""
    person = access.person(request)
    hook = _get(person, key)
    if request.method == "POST":
        back = _back(hook)
        webhooks.remove_webhook(hook=hook, actor=person, now=timezone.now(), source_ip=source_ip(request))
        messages.success(request, _("The webhook is removed."))
        return htmx.redirect(request, back)
    context = {
        "title": _("Remove a webhook"),
        "text": _("%(url)s is told nothing any more.") % {"url": hook.url},
        "consequences": [_("Its secret and the list of what it was told are deleted.")],
        "submit_label": _("Remove the webhook"),
        "cancel_url": reverse("webhook-detail", args=[hook.key]),
    }
    return htmx.render(request, "components/confirm.html", context)


# --- inside ---------------------------------------------------------------------------------------


def _list(request: HttpRequest, project: Project | None) -> HttpResponse:
    person = access.person(request)
    form, created, secret = WebhookForm(request.POST or None), None, ""
    if request.method == "POST" and form.is_valid():
        try:
            created, secret = webhooks.add_webhook(
                url=form.cleaned_data["url"],
                actor=person,
                now=timezone.now(),
                permitted=targets.permitted_hosts(),
                project=project,
                source_ip=source_ip(request),
            )
        except webhooks.UnableToChangeWebhook as unable:
            form.add_error(unable.field or None, unable.message)
        else:
            form = WebhookForm()
    whose = Q(person=person) if project is None else Q(project=project)
    context = {
        "form": form,
        "project": project,
        "hooks": Webhook.objects.filter(whose).order_by("created_at", "pk"),
        "created": created,
        "secret": secret,
    }
    status = 422 if form.errors else 200
    return htmx.render(request, "accounts/webhooks.html", context, status=status)


def _detail(request: HttpRequest, hook: Webhook, *, secret: str = "") -> HttpResponse:
    deliveries = list(hook.deliveries.order_by("-created_at", "-pk")[:DELIVERIES_SHOWN])
    context = {
        "hook": hook,
        "deliveries": deliveries,
        "under_way": any(row.state == Delivery.State.PENDING for row in deliveries),
        "secret": secret,
        "back_url": _back(hook),
    }
    return htmx.render(request, "accounts/webhook_detail.html", context, partial="deliveries")


def _back(hook: Webhook) -> str:
    if hook.project is None:
        return reverse("webhook-list")
    return reverse("project-webhook-list", args=[hook.project.slug])


def _get(person: User, key: UUID) -> Webhook:
    """One's own, or of a project that one leads; to everybody else it does not exist."""
    hook = Webhook.objects.select_related("project", "person").filter(key=key).first()
    if hook is None or (hook.project is None and hook.person_id != person.pk):
        raise Http404
    if hook.project is not None:
        access.authorise(person, hook.project, for_lead=True)
    return hook
