"""What the desk takes at all: methods of pages, lengths of addresses."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed

API_PREFIX = "/api/"
PAGE_METHODS = ("GET", "HEAD", "POST", "OPTIONS")


class LimitsMiddleware:
    """Refuses before any view what no browser of ours sends."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.method not in PAGE_METHODS and not request.path_info.startswith(API_PREFIX):
            # Views of libraries know PUT and treat it like POST, without what POST is guarded with.
            return HttpResponseNotAllowed(PAGE_METHODS)
        return self.get_response(request)
