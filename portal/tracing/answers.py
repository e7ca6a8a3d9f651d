"""A span for every answer of the web server."""

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from portal import tracing
from portal.measures import KNOWN_METHODS


class TracingMiddleware:
    """Named after the view. Joins the trace of a proxy in front, where there is one whose word counts:
    anybody else could have every request traced, or joined to somebody else's."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not tracing.is_on():
            return self.get_response(request)
        from opentelemetry.trace import SpanKind, use_span
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        parent = None
        if settings.ALLAUTH_TRUSTED_PROXY_COUNT:
            given = request.headers.get("traceparent", "")
            parent = TraceContextTextMapPropagator().extract({"traceparent": given})
        # Strangers invent methods.
        method = request.method if request.method in KNOWN_METHODS else "other"
        span = tracing.start(
            method, kind=SpanKind.SERVER, parent=parent, attributes={"http.request.method": method}
        )
        assert span is not None
        with use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            response = self.get_response(request)
            if match := request.resolver_match:
                # The pattern, with the names of its parameters in the place of what they are.
                span.set_attribute("http.route", f"/{match.route}")
                span.update_name(f"{method} {match.view_name or match.route}")
            span.set_attribute("http.response.status_code", response.status_code)
            if response.status_code >= 500:
                tracing.failed(span, str(response.status_code))
        return response
