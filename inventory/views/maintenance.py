"""Maintenance: what is planned and goes on, for everybody; made and changed by administrators."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import pgettext
from django.views.decorators.http import require_http_methods, require_safe

from inventory.models import Cluster, Maintenance, Pool
from inventory.taints import keeping, maintenance
from inventory.taints.concerned import people_of
from inventory.taints.forms import MaintenanceChangeForm, MaintenanceForm, StepForm
from inventory.taints.holds import holds_at
from inventory.taints.maintenance import LIVING, ChangedMeanwhile, UnableToPlan
from inventory.taints.places import UnableToPlace, devices_at
from inventory.taints.serving import serving
from portal import access, htmx
from portal.access import person, require_administrator
from portal.accounts import audit
from portal.accounts.models import Project
from portal.texts import searched

PAGE_SIZE = 50
HOLDS_SHOWN = 100
State = Maintenance.State


@require_safe
def maintenance_list(request: HttpRequest) -> HttpResponse:
    """What is planned and goes on, the next first; what is over below, the latest first."""
    rows = Maintenance.objects.select_related("cluster", "created_by").defer("cluster__kubeconfig_encrypted")
    over = rows.exclude(state__in=LIVING).order_by("-starts_at", "-pk")
    context = {
        "living": rows.filter(state__in=LIVING).order_by("starts_at", "pk"),
        "page": Paginator(over, PAGE_SIZE).get_page(request.GET.get("page")),
        "may_administer": access.may_administer(person(request)),
        "reads_all": access.may_read_everything(person(request)),
    }
    return htmx.render(request, "inventory/maintenance_list.html", context)


@require_safe
def maintenance_detail(request: HttpRequest, key: UUID) -> HttpResponse:
    """One maintenance: when, where, why, what it means; who holds something there, as far as one may see."""
    found = _or_404(key)
    user, now = person(request), timezone.now()
    reads_all = access.may_read_everything(user)
    living = found.state in LIVING
    holds = holds_at(found, now=now) if living else []
    if not reads_all:
        mine = set(Project.objects.all().detailed_to(user).values_list("pk", flat=True))
        holds = [hold for hold in holds if hold.concern.project and hold.concern.project.pk in mine]
    context = {
        "maintenance": found,
        "living": living,
        "holds": holds[:HOLDS_SHOWN],
        "more_holds": max(len(holds) - HOLDS_SHOWN, 0),
        "people": len(people_of(hold.concern for hold in holds)),
        "device_count": devices_at(found).count(),
        "events": found.events.select_related("actor").order_by("pk"),
        "rules": found.rules.order_by("name") if reads_all else [],
        "drain": found.drains.first() if reads_all else None,
        "reads_all": reads_all,
        "may_administer": access.may_administer(user),
        "may_change": found.state in (State.PLANNED, State.ACTIVE),
    }
    return render(request, "inventory/maintenance_detail.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def maintenance_create(request: HttpRequest) -> HttpResponse:
    """Plan one; it begins at its time, or at once."""
    clusters = list(Cluster.objects.filter(enabled=True).order_by("name"))
    initial = {
        name: searched(request.GET.get(name, ""), limit=253)
        for name in ("cluster", "scope", "driver", "pool", "node", "devices")
        if request.GET.get(name)
    }
    form = MaintenanceForm(request.POST or None, clusters=clusters, initial=initial)
    if request.method == "POST" and form.is_valid():
        now, user = timezone.now(), person(request)
        try:
            planned = maintenance.plan(
                where=form.where(), terms=form.terms(), actor=user, now=now,
                confirmed=form.cleaned_data["confirm"], source_ip=audit.source_ip(request),
            )  # fmt: skip
        except (UnableToPlan, UnableToPlace) as refused:
            form.refuse(refused.field, refused.message)
        else:
            keeping.settle(planned, now=now, actor=user)
            messages.success(request, _("It is planned, and who holds something there is told."))
            return htmx.redirect(request, "maintenance-detail", planned.key)
    context = {
        "form": form,
        "drivers": Pool.objects.order_by("driver").values_list("driver", flat=True).distinct()[:100],
        "not_served": [(cluster, served) for cluster in clusters if not (served := serving(cluster))],
    }
    status = 422 if form.is_bound and form.errors else 200
    return htmx.render(request, "inventory/maintenance_form.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def maintenance_edit(request: HttpRequest, key: UUID) -> HttpResponse:
    """Change the terms of one that is not over."""
    found = _or_404(key)
    begun = found.state != State.PLANNED
    initial: dict[str, Any] = {
        "starts_at": found.starts_at, "ends_at": found.ends_at, "reason": found.reason,
        "effect": found.effect, "version": found.version,
    }  # fmt: skip
    form = MaintenanceChangeForm(request.POST or None, begun=begun, began_at=found.starts_at, initial=initial)
    if request.method == "POST" and form.is_valid():
        now, user = timezone.now(), person(request)
        try:
            maintenance.change(
                maintenance=found, terms=form.terms(), seen_version=form.cleaned_data["version"], actor=user,
                now=now, confirmed=form.cleaned_data["confirm"], source_ip=audit.source_ip(request),
            )  # fmt: skip
        except UnableToPlan as refused:
            form.refuse(refused.field, refused.message)
            if isinstance(refused, ChangedMeanwhile):
                found.refresh_from_db()
                # Sent again, it is decided with the other's change in sight.
                form.put("version", str(found.version))
        else:
            keeping.settle(found, now=now, actor=user)
            messages.success(request, _("It is changed, and who holds something there is told."))
            return htmx.redirect(request, "maintenance-detail", key)
    status = 422 if form.is_bound and form.errors else 200
    context = {"form": form, "maintenance": found}
    return htmx.render(request, "inventory/maintenance_form.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def maintenance_cancel(request: HttpRequest, key: UUID) -> HttpResponse:
    """Call it off, or end what is under way, after a page that says what that means."""
    found = _or_404(key)
    form = StepForm(request.POST or None, initial={"version": found.version})
    begun = found.state != State.PLANNED
    if request.method == "POST" and form.is_valid():
        now, user = timezone.now(), person(request)
        try:
            maintenance.cancel(
                maintenance=found, seen_version=form.cleaned_data["version"], actor=user, now=now,
                source_ip=audit.source_ip(request),
            )  # fmt: skip
        except UnableToPlan as refused:
            messages.error(request, refused.message)
        else:
            keeping.settle(found, now=now, actor=user)
            messages.success(request, _("It has ended.") if begun else _("It is called off."))
        return htmx.redirect(request, "maintenance-detail", key)
    context = {
        "title": _("End the maintenance now?") if begun else _("Call the maintenance off?"),
        "text": found.reason,
        "consequences": [
            _("Its taints are taken away.") if begun else _("Nothing is tainted."),
            _("Who holds something there is told."),
        ],
        "submit_label": _("End it") if begun else pgettext("maintenance", "Call it off"),
        "cancel_url": reverse("maintenance-detail", args=[key]),
        "on_cluster": True,
        "form": form,
    }
    return render(request, "components/confirm.html", context)


def _or_404(key: UUID) -> Maintenance:
    found = Maintenance.objects.select_related("cluster", "created_by").filter(key=key).first()
    if found is None:
        raise Http404
    return found
