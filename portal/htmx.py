"""Full page or partial: one template, one context, one permission check.

A part of a page that asks again and again gets an answer only when there is a new one: partials carry an
ETag, and who has that version already is told so with an empty 304, which htmx leaves the page alone at
(``htmx-config`` in ``base.html``). `static/live.js` keeps the ETags and the pace.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render as render_template
from django.shortcuts import resolve_url
from django.utils.cache import patch_cache_control, patch_vary_headers
from django.utils.http import parse_etags
from django_htmx.http import HttpResponseClientRedirect, HttpResponseStopPolling
from django_htmx.middleware import HtmxDetails

# Every rendering masks the CSRF token anew; that is no news.
_CSRF_VALUE = re.compile(rb'(name="csrfmiddlewaretoken" value=")[^"]*')


def details(request: HttpRequest) -> HtmxDetails:
    """What htmx said about the request (falsy when it was not htmx)."""
    found = getattr(request, "htmx", None)
    return found if isinstance(found, HtmxDetails) else HtmxDetails(request)


def wants_partial(request: HttpRequest) -> bool:
    """Whether a part of the page is asked for: htmx, but neither boosted nor restoring history."""
    asked = details(request)
    return bool(asked) and not asked.boosted and not asked.history_restore_request


def render(
    request: HttpRequest,
    template: str,
    context: Mapping[str, Any] | None = None,
    *,
    partial: str | None = None,
    status: int = 200,
    finished: bool = False,
) -> HttpResponse:
    """The whole page, or for htmx only its `{% partialdef PARTIAL %}`.

    `finished` tells a polling partial that nothing will change any more: htmx stops asking (status 286).
    A partial that the reader has already (If-None-Match) is answered with an empty 304.
    """
    as_partial = partial is not None and wants_partial(request)
    name = f"{template}#{partial}" if as_partial else template
    response = render_template(request, name, dict(context or {}), status=status)
    if as_partial and finished:
        response.status_code = HttpResponseStopPolling.status_code
    elif as_partial and status == 200 and request.method in {"GET", "HEAD"}:
        response = _unless_known(request, response)
    if partial is not None:
        # The same address has two answers: a cache must not mix them up.
        patch_vary_headers(response, ["HX-Request"])
    return response


def _unless_known(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """The response with its ETag; an empty 304 where the reader has this version."""
    told = _CSRF_VALUE.sub(rb"\1", response.content)
    etag = f'"{hashlib.sha256(told).hexdigest()[:32]}"'
    if etag in parse_etags(request.headers.get("If-None-Match", "")):
        response = HttpResponse(status=304)
    response["ETag"] = etag
    # To be asked for each time: what is kept anywhere else would be taken for the present.
    patch_cache_control(response, private=True, no_cache=True)
    return response


def redirect(request: HttpRequest, to: Any, *args: Any, **kwargs: Any) -> HttpResponse:
    """To another page of ours after a POST: 303 for browsers, HX-Redirect for htmx.

    `to` is a URL name, a path or a model, as for Django's redirect; never something that a user sent.
    """
    url = resolve_url(to, *args, **kwargs)
    if details(request):
        return HttpResponseClientRedirect(url)
    response = HttpResponse(status=303)
    response["Location"] = url
    return response
