"""The drain assistant: emptying a node or devices step by step, and the holders' side of it."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from inventory.coverage import coverage_of
from inventory.models import Cluster, Drain, DrainHolder
from inventory.models.taints import NO_EXECUTE
from inventory.taints import answers, drains, emptiness
from inventory.taints.answers import UnableToAnswer, get_drain_or_404, get_holder_or_404, holders_for
from inventory.taints.blast import blast_of
from inventory.taints.drains import LIVING, UnableToDrain
from inventory.taints.forms import AnswerForm, AskForm, DrainForm, HandOverForm, StepForm
from inventory.taints.history import taint_of
from inventory.taints.places import UnableToPlace, devices_at, selectors_at
from inventory.taints.serving import serving
from portal import access, htmx
from portal.access import person, require_administrator, require_reader_of_everything
from portal.accounts import audit
from portal.texts import searched

PAGE_SIZE = 50
PODS_SHOWN = 100
State = Drain.State


@require_safe
@require_reader_of_everything
def drain_list(request: HttpRequest) -> HttpResponse:
    """What is being emptied, and what was."""
    rows = Drain.objects.select_related("cluster", "created_by").defer("cluster__kubeconfig_encrypted")
    over = rows.exclude(state__in=LIVING).order_by("-changed_at", "-pk")
    context = {
        "living": rows.filter(state__in=LIVING).order_by("-created_at", "-pk"),
        "page": Paginator(over, PAGE_SIZE).get_page(request.GET.get("page")),
        "may_administer": access.may_administer(person(request)),
    }
    return htmx.render(request, "inventory/drain_list.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def drain_create(request: HttpRequest) -> HttpResponse:
    """Begin: choose what is to be emptied. Nothing happens on the cluster yet."""
    clusters = list(Cluster.objects.filter(enabled=True).order_by("name"))
    initial = {
        name: searched(request.GET.get(name, ""), limit=253)
        for name in ("cluster", "scope", "node", "devices")
        if request.GET.get(name)
    }
    form = DrainForm(request.POST or None, clusters=clusters, initial=initial)
    if request.method == "POST" and form.is_valid():
        try:
            drain = drains.open_drain(
                where=form.where(), reason=form.cleaned_data["reason"], actor=person(request),
                now=timezone.now(), source_ip=audit.source_ip(request),
            )  # fmt: skip
        except (UnableToDrain, UnableToPlace) as refused:
            form.refuse(refused.field, refused.message)
        else:
            return htmx.redirect(request, "drain-detail", drain.key)
    status = 422 if form.is_bound and form.errors else 200
    return htmx.render(request, "inventory/drain_form.html", {"form": form}, status=status)


@require_safe
def drain_detail(request: HttpRequest, key: UUID) -> HttpResponse:
    """How far it has come; for holders their own part, where they answer."""
    return _detail(request, get_drain_or_404(person(request), key))


@require_POST
@require_administrator
def drain_ask(request: HttpRequest, key: UUID) -> HttpResponse:
    """Ask the holders to leave, with a message."""
    drain = get_drain_or_404(person(request), key)
    form = AskForm(request.POST, initial={"wanted_by": drain.wanted_by})
    if form.is_valid():
        values = form.cleaned_data

        def step(who: dict[str, Any]) -> str:
            told = drains.ask(
                drain=drain, message=values["message"], wanted_by=values["wanted_by"],
                seen_version=values["version"], **who,
            )  # fmt: skip
            return ngettext("%(n)d person is asked.", "%(n)d people are asked.", told) % {"n": told}

        if (done := _step(request, drain, step, form)) is not None:
            return done
    return _detail(request, drain, ask=form, status=422)


@require_POST
@require_administrator
def drain_close(request: HttpRequest, key: UUID) -> HttpResponse:
    """Let nobody new in."""
    drain = get_drain_or_404(person(request), key)
    form = StepForm(request.POST)
    if form.is_valid():

        def step(who: dict[str, Any]) -> str:
            drains.close(drain=drain, seen_version=form.cleaned_data["version"], **who)
            return _("Nobody new gets in.")

        if (done := _step(request, drain, step, form)) is not None:
            return done
    return _detail(request, drain, refused=form, status=422)


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def drain_evict(request: HttpRequest, key: UUID) -> HttpResponse:
    """Have the Pods evicted, after a page that names them."""
    drain = get_drain_or_404(person(request), key)
    now = timezone.now()
    form = StepForm(request.POST or None, initial={"version": drain.version})
    blast = blast_of(
        cluster=drain.cluster, selectors=_selectors(drain), taint=taint_of(drain, NO_EXECUTE), now=now,
        coverage=coverage_of(drain.cluster, drain.cluster.streams.all(), now=now),
    )  # fmt: skip
    if request.method == "POST" and form.is_valid():
        if request.POST.get("looked") == blast.digest:

            def step(who: dict[str, Any]) -> str:
                drains.evict(drain=drain, seen_version=form.cleaned_data["version"], **who)
                return _("The cluster evicts them now.")

            if (done := _step(request, drain, step, form)) is not None:
                return done
        else:
            form.add_error(None, _("Who is there has changed meanwhile: look again."))
    context = {
        "drain": drain,
        "form": form,
        "blast": blast,
        "evicted": blast.evicted[:PODS_SHOWN],
        "more_evicted": max(len(blast.evicted) - PODS_SHOWN, 0),
        "staying": blast.staying[:PODS_SHOWN],
    }
    status = 422 if form.is_bound and form.errors else 200
    return render(request, "inventory/drain_evict.html", context, status=status)


@require_POST
@require_administrator
def drain_hand_over(request: HttpRequest, key: UUID) -> HttpResponse:
    """What is empty goes into maintenance."""
    drain = get_drain_or_404(person(request), key)
    form = HandOverForm(request.POST)
    if form.is_valid():
        values = form.cleaned_data

        def step(who: dict[str, Any]) -> str:
            drains.hand_over(
                drain=drain, ends_at=values["ends_at"], reason=values["reason"],
                seen_version=values["version"], **who,
            )  # fmt: skip
            return _("It is under maintenance now.")

        if (done := _step(request, drain, step, form)) is not None:
            return done
    return _detail(request, drain, hand_over=form, status=422)


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def drain_finish(request: HttpRequest, key: UUID) -> HttpResponse:
    """Back in service, or given up, after a page that says what that means."""
    drain = get_drain_or_404(person(request), key)
    form = StepForm(request.POST or None, initial={"version": drain.version})
    if request.method == "POST" and form.is_valid():

        def step(who: dict[str, Any]) -> str:
            left = drains.finish(drain=drain, seen_version=form.cleaned_data["version"], **who)
            if left:
                return _("It is over. Its taints could not all be removed yet; the desk goes on trying.")
            return _("It is over, and its taints are gone.")

        if (done := _step(request, drain, step, form)) is not None:
            return done
        messages.error(request, " ".join(str(error) for error in form.non_field_errors()))
        return htmx.redirect(request, "drain-detail", key)
    empty = drain.state == State.EMPTY
    context = {
        "title": _("Put it back into service?") if empty else _("Give the drain up?"),
        "text": drain.reason,
        "consequences": [_("Its taints are taken away: new claims may get these devices again.")],
        "submit_label": _("Back into service") if empty else _("Give it up"),
        "cancel_url": reverse("drain-detail", args=[key]),
        "on_cluster": True,
        "form": form,
    }
    return render(request, "components/confirm.html", context)


@require_POST
def drain_answer(request: HttpRequest, key: UUID) -> HttpResponse:
    """A holder says until when, that one is done, or that one cannot leave."""
    holder = get_holder_or_404(person(request), key, for_write=True)
    form = AnswerForm(request.POST, prefix=str(holder.pk))
    if form.is_valid():
        values = form.cleaned_data
        try:
            answers.answer(
                holder=holder, said=values["answer"], by=values["by"], note_=values["note"],
                actor=person(request), now=timezone.now(), source_ip=audit.source_ip(request),
            )  # fmt: skip
        except UnableToAnswer as refused:
            form.refuse(refused.field, refused.message)
        else:
            messages.success(request, _("Thank you: who empties it is told."))
            return htmx.redirect(request, "drain-detail", holder.drain.key)
    drain = get_drain_or_404(person(request), holder.drain.key)
    return _detail(request, drain, answering=(holder, form), status=422)


# --- inside -------------------------------------------------------------------------------------------


def _step(
    request: HttpRequest, drain: Drain, step: Callable[[dict[str, Any]], str], form: Any
) -> HttpResponse | None:
    """Take it and go back to the page; None where it was refused: the form says why."""
    who = {"actor": person(request), "now": timezone.now(), "source_ip": audit.source_ip(request)}
    try:
        said = step(who)
    except UnableToDrain as refused:
        drain.refresh_from_db()
        form.refuse(refused.field, refused.message)
        return None
    messages.success(request, said)
    return htmx.redirect(request, "drain-detail", drain.key)


def _selectors(drain: Drain) -> Any:
    try:
        return selectors_at(drain)
    except UnableToPlace:
        return []


def _detail(
    request: HttpRequest,
    drain: Drain,
    *,
    ask: AskForm | None = None,
    hand_over: HandOverForm | None = None,
    refused: StepForm | None = None,
    answering: tuple[DrainHolder, AnswerForm] | None = None,
    status: int = 200,
) -> HttpResponse:
    user, now = person(request), timezone.now()
    reads_all = access.may_read_everything(user)
    holders = list(holders_for(user, drain))
    forms = {holder.pk: AnswerForm(prefix=str(holder.pk)) for holder in holders}
    if answering is not None:
        forms[answering[0].pk] = answering[1]
    living = drain.state in LIVING
    mine = answers.answerable(user, holders) if living else set()
    version = {"version": drain.version}
    context = {
        "drain": drain,
        "living": living,
        "reads_all": reads_all,
        "may_administer": access.may_administer(user),
        "rows": [(holder, forms[holder.pk] if holder.pk in mine else None) for holder in holders],
        "verdict": emptiness.judge(drain, now=now) if reads_all and living else None,
        "served": serving(drain.cluster),
        "cordoned": drains.is_cordoned(drain),
        "device_count": devices_at(drain).count(),
        "events": drain.events.select_related("actor").order_by("pk") if reads_all else [],
        "rules": drain.rules.order_by("name") if reads_all else [],
        "ask": ask or AskForm(initial=version | {"wanted_by": drain.wanted_by}),
        "step": refused or StepForm(initial=version),
        "hand_over": hand_over or HandOverForm(initial=version),
        "may": {name.replace("-", "_"): drain.state in states for name, states in drains.STEPS.items()},
    }
    return htmx.render(request, "inventory/drain_detail.html", context, status=status)
