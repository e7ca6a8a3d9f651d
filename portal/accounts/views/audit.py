"""The audit trail for administrators and auditors."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from typing import Any

from django.core.paginator import Paginator
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils import timezone
from django.views.decorators.http import require_safe

from portal import access, csvs, htmx
from portal.accounts.forms import AuditFilter
from portal.accounts.models import AuditEntry

PAGE_SIZE = 50
HEADER = (
    *("at", "actor", "action", "target_kind", "target_id", "target_name"),
    *("project", "before", "after", "source_ip"),
)


@require_safe
@access.require_reader_of_everything
def audit_list(request: HttpRequest) -> HttpResponse:
    """Who changed what, newest first."""
    form = AuditFilter(request.GET)
    entries = _filtered(form).select_related("actor", "project").order_by("-at", "-pk")
    page = Paginator(entries, PAGE_SIZE).get_page(request.GET.get("page"))
    context = {"form": form, "page": page, "filtered": any(form.data.get(name) for name in form.fields)}
    return htmx.render(request, "accounts/audit.html", context, partial="entries")


@require_safe
@access.require_reader_of_everything
def audit_export(request: HttpRequest) -> HttpResponseBase:
    """The same, all of it, as CSV with UTC times."""
    entries = _filtered(AuditFilter(request.GET)).select_related("actor", "project").order_by("at", "pk")
    return csvs.download("audit.csv", HEADER, _rows(entries))


def _filtered(form: AuditFilter) -> "QuerySet[AuditEntry]":
    form.is_valid()
    wanted: dict[str, Any] = form.cleaned_data
    entries: QuerySet[AuditEntry] = AuditEntry.objects.all()
    if who := wanted.get("actor"):
        entries = entries.filter(
            Q(actor__username__icontains=who)
            | Q(actor__first_name__icontains=who)
            | Q(actor__last_name__icontains=who)
        )
    if wanted.get("action"):
        entries = entries.filter(action=wanted["action"])
    if wanted.get("project"):
        entries = entries.filter(project=wanted["project"])
    if wanted.get("since"):
        entries = entries.filter(at__gte=_midnight(wanted["since"]))
    if wanted.get("until"):
        entries = entries.filter(at__lt=_midnight(wanted["until"] + timedelta(days=1)))
    return entries


def _midnight(day: Any) -> datetime:
    """The start of a day in the reader's time zone."""
    return timezone.make_aware(datetime.combine(day, time()))


def _rows(entries: "QuerySet[AuditEntry]") -> Iterator[list[str]]:
    for entry in entries.iterator(chunk_size=1000):
        yield [
            entry.at.astimezone(UTC).isoformat(),
            entry.actor.username if entry.actor else "",
            entry.action,
            entry.target_kind,
            entry.target_id,
            entry.target_name,
            entry.project.slug if entry.project else "",
            _json(entry.before),
            _json(entry.after),
            entry.source_ip or "",
        ]


def _json(values: dict[str, Any] | None) -> str:
    return (
        ""
        if values is None
        else json.dumps(values, cls=DjangoJSONEncoder, sort_keys=True, ensure_ascii=False)
    )
