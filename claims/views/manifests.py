"""The manifests of a request: to read side by side, to copy, and to download."""

import uuid

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.text import get_valid_filename
from django.views.decorators.http import require_safe

from claims.requests.browse import get_request_or_404
from claims.requests.bundle import file_of, ways_of
from portal.access import person


@require_safe
def request_manifests(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """What is sent, and what to copy: by the way that is used, and by the other where there is one."""
    found = get_request_or_404(person(request), key)
    address = request.build_absolute_uri(reverse("api-request-file", args=[found.key, "job"]))
    line = f'curl -fsS -H "Authorization: Bearer $CLAIMDESK_TOKEN" {address} | kubectl apply -f -'
    context = {"request_": found, "ways": ways_of(found), "terminal": line}
    return render(request, "claims/manifests.html", context)


@require_safe
def request_file(request: HttpRequest, key: uuid.UUID, slug: str) -> HttpResponse:
    """One of them as a file."""
    file = file_of(get_request_or_404(person(request), key), slug)
    if file is None:
        raise Http404
    name = get_valid_filename(file.filename)
    return HttpResponse(
        file.text,
        content_type="application/yaml; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )
