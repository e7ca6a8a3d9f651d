"""Quotas: members see those of their projects, administrators make and change them."""

import uuid
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from claims.asks.reading import WrongValue, read_integer
from claims.models import Quota, QuotaObject
from claims.quotas import admin as quotas_admin
from claims.quotas import pages as quotas_pages
from claims.quotas import writing as quotas_writing
from claims.quotas.admin import UnableToChangeQuota
from claims.quotas.forms import QuotaForm, differing, digest, quota_values
from claims.quotas.guard import what_of
from claims.quotas.standing import Piece
from claims.signals import quotas_due
from portal import access, htmx
from portal.access import person, require_administrator
from portal.accounts.audit import record, source_ip
from portal.accounts.models import Project

PAGE_SIZE = 50
ENDED_SHOWN = 50


@require_safe
def quota_list(request: HttpRequest) -> HttpResponse:
    """The quotas of the projects that the reader may see, with how they stand; those that ended below."""
    user, now = person(request), timezone.now()
    found = Quota.objects.all().visible_to(user).select_related("project", "flavor", "changed_by")
    project = None
    if slug := request.GET.get("project", ""):
        project = Project.objects.all().visible_to(user).filter(slug=slug).first()
        if project is None:
            raise Http404
        found = found.filter(project=project)
    ended = found.filter(valid_until__lte=now).order_by("-valid_until", "-pk")
    lasting = found.exclude(valid_until__lte=now)
    page = Paginator(
        lasting.order_by("project__name", "project__pk", "flavor__name", "kind", "pk"), PAGE_SIZE
    ).get_page(request.GET.get("page"))
    context = {
        "page": page,
        "rows": quotas_pages.rows(list(page.object_list), now=now),
        "ended": quotas_pages.rows(list(ended[:ENDED_SHOWN]), now=now),
        "project": project,
        "may_administer": access.may_administer(user),
        "now": now,
    }
    return htmx.render(request, "claims/quota_list.html", context, partial="rows")


@require_safe
def quota_detail(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """One quota: who takes what of it, and what clusters say of it."""
    user, now = person(request), timezone.now()
    quota = _visible_or_404(request, key)
    (row,) = quotas_pages.rows([quota], now=now)
    detailed = access.may_see_details(user, quota.project)
    effect = quotas_admin.effect_of(quota, now=now)
    context = {
        "quota": quota,
        "row": row,
        "detailed": detailed,
        "takers": _takers(row, effect) if detailed else [],
        "past_the_desk": _piece(row, effect.past_the_desk),
        "objects": QuotaObject.objects.filter(quota=quota)
        .select_related("cluster")
        .order_by("cluster__name", "namespace"),
        "not_possible": effect.not_possible,
        "may_administer": access.may_administer(user),
        "now": now,
    }
    return render(request, "claims/quota_detail.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def quota_create(request: HttpRequest) -> HttpResponse:
    """Make a quota: first what it would mean is shown, then it is saved."""
    if request.method == "POST":
        return _look_or_save(request, None)
    chosen = {name: request.GET.get(name, "")[:63] for name in ("project", "flavor")}
    return _page(request, QuotaForm(values=quota_values(None, **chosen)), None)


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def quota_edit(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """Change a quota, in the same two steps."""
    quota = _visible_or_404(request, key)
    if request.method == "POST":
        return _look_or_save(request, quota)
    return _page(request, QuotaForm(values=quota_values(quota), quota=quota), quota)


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def quota_end(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """Let a quota hold no longer, after a page that says what it means."""
    quota = _visible_or_404(request, key)
    if request.method == "POST":
        quotas_admin.end(quota=quota, user=person(request), now=timezone.now(), source_ip=source_ip(request))
        messages.success(request, _("The quota holds no longer."))
        return htmx.redirect(request, "quota-list")
    consequences = [_("It stays in the list of those that ended.")]
    if quota.enforced:
        consequences.append(_("Its ResourceQuotas are removed from the clusters."))
    context = {
        "title": _("End the quota of %(project)s?") % {"project": quota.project},
        "text": _("Nothing limits this any more: %(what)s.") % {"what": what_of(quota)},
        "consequences": consequences,
        "submit_label": _("End it"),
        "cancel_url": reverse("quota-detail", args=[quota.key]),
    }
    return render(request, "components/confirm.html", context)


@require_POST
@require_administrator
def quota_object_restore(request: HttpRequest, key: uuid.UUID, pk: int) -> HttpResponse:
    """Write a ResourceQuota again that somebody else has changed or deleted."""
    quota = _visible_or_404(request, key)
    found = get_object_or_404(QuotaObject.objects.select_related("cluster"), quota=quota, pk=pk)
    if access.only_looks():
        messages.error(request, access.why_only_looks())
        return htmx.redirect(request, "quota-detail", quota.key)
    now = timezone.now()
    quotas_writing.restore(row=found, now=now)
    record(
        now=now, actor=person(request), action="quota.restore", target=quota, target_id=str(quota.key),
        project=quota.project, after={"cluster": found.cluster.name, "namespace": found.namespace},
        source_ip=source_ip(request),
    )  # fmt: skip
    quotas_due.send(Quota)
    messages.success(request, _("It is written again."))
    return htmx.redirect(request, "quota-detail", quota.key)


# --- inside -----------------------------------------------------------------------------------------


def _look_or_save(request: HttpRequest, quota: Quota | None) -> HttpResponse:
    now = timezone.now()
    try:
        zone = timezone.get_current_timezone()
        said = quotas_admin.read_said(request.POST, now=now, quota=quota, zone=zone)
        effect = quotas_admin.effect(said=said, now=now, quota=quota)
        seen = digest(effect)
        if request.POST.get("looked") != seen or request.POST.get("step") == "look":
            values = request.POST.copy()
            values["looked"] = seen
            return _page(request, QuotaForm(values=values, errors={}, quota=quota), quota, effect=effect)
        who: dict[str, Any] = {"user": person(request), "now": now, "source_ip": source_ip(request)}
        if quota is None:
            quota = quotas_admin.create(said=said, **who)
        else:
            quotas_admin.update(quota=quota, said=said, seen_version=_version(request), **who)
    except UnableToChangeQuota as error:
        return _refused(request, quota, error)
    messages.success(request, _("Saved."))
    return htmx.redirect(request, "quota-detail", quota.key)


def _refused(request: HttpRequest, quota: Quota | None, error: UnableToChangeQuota) -> HttpResponse:
    values = request.POST.copy()
    values["looked"] = ""
    differs: list[tuple[str, str]] = []
    if error.conflict and quota is not None:
        quota.refresh_from_db()
        # Saved again, it is a decision made with the other's change in sight.
        values["version"] = str(quota.version)
    form = QuotaForm(values=values, errors=error.errors, quota=quota)
    if error.conflict and quota is not None:
        differs = differing(form, quota)
    status = 409 if error.conflict else 422
    return _page(request, form, quota, status=status, differs=differs)


def _page(
    request: HttpRequest,
    form: QuotaForm,
    quota: Quota | None,
    *,
    effect: quotas_admin.Effect | None = None,
    differs: list[tuple[str, str]] | None = None,
    status: int = 200,
) -> HttpResponse:
    context: dict[str, Any] = {"form": form, "quota": quota, "effect": effect, "differs": differs}
    if effect is not None:
        draft = quotas_admin.draft_of(effect.said, now=timezone.now())
        row = quotas_pages.Row(quota=draft, standing=effect.standing)
        context |= {
            "row": row,
            "takers": _takers(row, effect),
            "past_the_desk": _piece(row, effect.past_the_desk),
            "ended": {request.pk for request in effect.ended},
            "objects": quotas_admin.named(effect.objects),
        }
    return render(request, "claims/quota_form.html", context, status=status)


def _takers(row: quotas_pages.Row, effect: quotas_admin.Effect) -> list[dict[str, Any]]:
    ended = {request.pk for request in effect.ended}
    return [
        {
            "request": request,
            "used": row.amount(piece.used) if piece.used else "",
            "asked": row.amount(piece.asked) if piece.asked else "",
            "ends": request.pk in ended,
        }
        for request, piece in effect.counted
    ]


def _piece(row: quotas_pages.Row, piece: Piece) -> str:
    return row.amount(piece.used) if piece.used else ""


def _visible_or_404(request: HttpRequest, key: uuid.UUID) -> Quota:
    rows = Quota.objects.all().visible_to(person(request)).select_related("project", "flavor", "changed_by")
    return get_object_or_404(rows, key=key)


def _version(request: HttpRequest) -> int:
    try:
        return read_integer(request.POST, "version") or 0
    except WrongValue:
        return 0
