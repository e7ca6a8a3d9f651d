"""What the desk takes at all: methods of pages, lengths of addresses."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseNotAllowed

PAGE_METHODS = ("GET", "HEAD", "POST", "OPTIONS")


class LimitsMiddleware:
    """Refuses before any view what no browser sends to a page."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(
        self,
        request: HttpRequest,
        view: Callable[..., HttpResponseBase],
        _args: Sequence[Any],
        _kwargs: Mapping[str, Any],
    ) -> HttpResponseBase | None:
        """Views of libraries know PUT and treat it like POST, without what POST is guarded with."""
        of_rest = hasattr(view, "cls")
        if request.method in PAGE_METHODS or of_rest:
            return None
        return HttpResponseNotAllowed(PAGE_METHODS)
