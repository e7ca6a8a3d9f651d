"""How the accounts are kept: which bound of an uncertain time is billed, and whose programs are told of
statements."""

from datetime import datetime

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from claims.ledger import keeping
from claims.ledger.page import bound_now
from claims.models import Bound, LedgerPolicy, StatementHook
from claims.money import announcing
from claims.money.months import midnight_of
from claims.views.statements import zone
from portal import access, htmx
from portal.access import person
from portal.accounts.audit import source_ip
from portal.accounts.models import Webhook

_MEANING = {
    Bound.TENANT: gettext_lazy("favour of who pays: a start as late and an end as early as it can have been"),
    Bound.OPERATOR: gettext_lazy(
        "favour of who operates: a start as early and an end as late as it can have been"
    ),
}


class PolicyForm(forms.Form):
    bound = forms.ChoiceField(
        label=gettext_lazy("What is not certain is billed in"), choices=list(_MEANING.items()),
        widget=forms.RadioSelect,
    )  # fmt: skip
    valid_from = forms.CharField(
        label=gettext_lazy("For what begins on or after (a date)"), max_length=10, required=False,
        widget=forms.TextInput(attrs={"type": "date"}), help_text=gettext_lazy("Empty: from now on."),
    )  # fmt: skip


@require_http_methods(["GET", "HEAD", "POST"])
@access.require_reader_of_everything
def ledger_policy(request: HttpRequest) -> HttpResponse:
    """Which bound is billed when; administrators set it from a day on that is to come."""
    now, user = timezone.now(), person(request)
    form = PolicyForm(request.POST if request.method == "POST" else None, initial={"bound": Bound.TENANT})
    if request.method == "POST":
        access.demand_administrator(user)
        if form.is_valid():
            try:
                since = _day(form.cleaned_data["valid_from"])
                keeping.set_policy(bound=form.cleaned_data["bound"], since=since, actor=user, now=now)
            except keeping.UnableToSetPolicy as unable:
                form.add_error({"from": "valid_from"}.get(unable.field, unable.field), unable.message)
            else:
                messages.success(request, _("The policy is kept."))
                return htmx.redirect(request, "ledger-policy")
    context = {
        "form": form,
        "rows": LedgerPolicy.objects.select_related("set_by").order_by("-valid_from"),
        "bound": bound_now(now),
        "tenant": Bound.TENANT.label,
        "zone": settings.ORGANISATION_ZONE,
        "may_set": access.may_administer(user),
    }
    return htmx.render(request, "claims/ledger_policy.html", context, status=422 if form.errors else 200)


def _day(typed: str) -> datetime | None:
    """Midnight of a date in the organisation's zone; None = now."""
    if not typed:
        return None
    found = midnight_of(typed, zone())
    if found is None:
        raise keeping.UnableToSetPolicy("from", _("Write a date such as 2026-03-01."))
    return found


@require_http_methods(["GET", "HEAD", "POST"])
@access.require_keeper_of_accounts
def statement_hooks(request: HttpRequest) -> HttpResponse:
    """One's own webhooks, and which of them hear of the statements of every project (POST: `hook`, `on`)."""
    user = person(request)
    hooks = Webhook.objects.filter(person=user).order_by("created_at", "pk")
    if request.method == "POST":
        key, on = request.POST.get("hook", "")[:40], request.POST.get("on") == "1"
        hook = get_object_or_404(hooks, pk=int(key)) if key.isascii() and key.isdigit() else None
        if hook is None:
            messages.error(request, _("The desk cannot make sense of what was sent."))
            return htmx.redirect(request, "statement-hooks")
        announcing.switch(hook=hook, on=on, actor=user, now=timezone.now(), source_ip=source_ip(request))
        messages.success(
            request, _("It is told of statements from now on.") if on else _("It is told nothing of them.")
        )
        return htmx.redirect(request, "statement-hooks")
    told = set(StatementHook.objects.filter(webhook__person=user).values_list("webhook_id", flat=True))
    context = {"rows": [(hook, hook.pk in told) for hook in hooks]}
    return htmx.render(request, "claims/statement_hooks.html", context)
