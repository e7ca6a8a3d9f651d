"""The audit trail for administrators and auditors."""

import json
from collections.abc import Iterator
from datetime import UTC
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from portal import access, csvs, htmx, lists
from portal.accounts.models import AuditEntry
from portal.accounts.trail import TRAIL, DaysForm, about, within

HEADER = (
    *("id", "at", "actor", "action", "target_kind", "target_id", "target_name"),
    *("project", "before", "after", "source_ip"),
)
EARLIER_SHOWN = 20


@require_safe
@access.require_reader_of_everything
def audit_list(request: HttpRequest) -> HttpResponseBase:
    """Who changed what, newest first."""
    if (back := TRAIL.remembered(request)) is not None:
        return back
    state, form = TRAIL.read(request), DaysForm(request.GET)
    if state.wants_csv:
        return audit_export(request)
    days = within(form)
    context = {
        "page": state.page(state.narrowed(days).select_related("actor", "project")),
        "facets": state.facets(days),
        "form": form,
        "kept": [pair for pair in state.pairs() if pair[0] not in form.fields],
    }
    return lists.answer(request, "accounts/audit.html", context, state=state)


@require_safe
@access.require_reader_of_everything
def audit_export(request: HttpRequest) -> HttpResponseBase:
    """The same, all of it, as CSV with UTC times."""
    state = TRAIL.read(request)
    entries = state.ordered(state.narrowed(within(DaysForm(request.GET))))
    return csvs.download("audit.csv", HEADER, _rows(entries.select_related("actor", "project")))


@require_safe
@access.require_reader_of_everything
def audit_detail(request: HttpRequest, pk: int) -> HttpResponse:
    """One change: what it was about, every value before and after, and what else was done to the object."""
    entry = get_object_or_404(AuditEntry.objects.select_related("actor", "project"), pk=pk)
    others = about(entry).exclude(pk=pk).select_related("actor").order_by("-at", "-pk")
    context = {"entry": entry, "changes": _changes(entry), "others": others[:EARLIER_SHOWN]}
    return htmx.render(request, "accounts/audit_entry.html", context)


def _changes(entry: AuditEntry) -> list[dict[str, str | None]]:
    """Value by value, as text that keeps its lines; None where there was or is none."""
    before, after = entry.before or {}, entry.after or {}
    return [
        {
            "name": name,
            "before": _told(before[name]) if name in before else None,
            "after": _told(after[name]) if name in after else None,
        }
        for name in {**before, **after}
    ]


def _told(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True)


def _rows(entries: "QuerySet[AuditEntry]") -> Iterator[list[Any]]:
    for entry in entries.iterator(chunk_size=1000):
        yield [
            entry.pk,
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
