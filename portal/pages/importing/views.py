"""The page of the import, for administrators."""

from collections.abc import Sequence
from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from portal import access, htmx
from portal.accounts.audit import source_ip
from portal.pages.importing.doing import Outcome, run
from portal.pages.importing.reading import MAX_BYTES, MAX_LINES, SHAPES, Fault, Unreadable, decoded

EXAMPLES = {
    "projects": "project;name;cost_centre\nsea-ice;Sea ice;GEO-3100",
    "members": "project;person;role\nsea-ice;ingrid;lead\nsea-ice;noor@example.org;member",
    "namespaces": "project;cluster;namespace;from;until\nsea-ice;northern;sea-ice;2026-01-01;",
}


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@access.require_administrator
def import_people(request: HttpRequest) -> HttpResponse:
    """The tables; what they would change; then, when that was seen, the change itself."""
    texts = dict.fromkeys((shape.name for shape in SHAPES), "")
    if request.method != "POST":
        return _page(request, texts)
    texts, unreadable = _texts(request)
    if unreadable:
        return _page(request, texts, faults=unreadable, status=422)
    if not any(text.strip() for text in texts.values()):
        nothing = [Fault("", 0, "", _("There is nothing to import: choose a file, or paste lines."))]
        return _page(request, texts, faults=nothing, status=422)
    outcome = run(
        tables=texts,
        actor=access.person(request),
        now=timezone.now(),
        apply="apply" in request.POST,
        seen=request.POST.get("seen"),
        source_ip=source_ip(request),
    )
    if outcome.applied:
        texts = dict.fromkeys(texts, "")
    status = 422 if outcome.faults else 409 if outcome.differs and "apply" in request.POST else 200
    return _page(request, texts, outcome=outcome, faults=outcome.faults, status=status)


def _texts(request: HttpRequest) -> tuple[dict[str, str], list[Fault]]:
    """The tables as text: an uploaded file wins over what stands in the field."""
    texts, faults = {}, []
    for shape in SHAPES:
        texts[shape.name] = request.POST.get(shape.name, "")
        upload = request.FILES.get(f"{shape.name}_file")
        if isinstance(upload, UploadedFile):
            try:
                texts[shape.name] = decoded(upload.read(MAX_BYTES + 1))
            except Unreadable as unreadable:
                faults.append(Fault(shape.name, 0, "", str(unreadable)))
    return texts, faults


def _page(
    request: HttpRequest,
    texts: dict[str, str],
    *,
    outcome: Outcome | None = None,
    faults: Sequence[Fault] = (),
    status: int = 200,
) -> HttpResponse:
    labels = {"projects": _("Projects"), "members": _("Members"), "namespaces": _("Namespaces")}
    tables = [
        {
            "name": shape.name,
            "label": labels[shape.name],
            "text": texts[shape.name],
            "required": ", ".join(shape.required),
            "optional": ", ".join(shape.optional),
            "example": EXAMPLES[shape.name],
        }
        for shape in SHAPES
    ]
    context: dict[str, Any] = {
        "tables": tables,
        "outcome": outcome,
        "faults": [(labels.get(fault.table, ""), fault) for fault in faults],
        "most_lines": MAX_LINES,
    }
    if outcome is not None:
        context["changes"] = [(labels[change.table], change) for change in outcome.changes]
        context["links"] = [
            (one, request.build_absolute_uri(reverse("invitation-open", args=[one.secret])))
            for one in outcome.invited
        ]
    return htmx.render(request, "pages/import.html", context, status=status)
