"""Traces by OpenTelemetry, where its packages are installed (`requirements/tracing.txt`) and the environment
says where to send them (`OTEL_EXPORTER_OTLP_ENDPOINT`, or `…_TRACES_ENDPOINT`); otherwise nothing at all.

What stands in a span is chosen here, word by word: names of views and tasks, methods, statuses, hosts,
operations and tables. No query, body, header, parameter, message of an error or path with a name in it:
nothing that people typed or that opens anything. The id of the request joins a trace to the log
(`portal.work_ids`).

All else is by the variables that OpenTelemetry defines: `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`,
`OTEL_TRACES_SAMPLER`, `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_SDK_DISABLED`.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from portal import work_ids

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span, SpanKind, Tracer

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
LOG = logging.getLogger(__name__)

_tracer: "Tracer | None" = None


def is_wanted() -> bool:
    """Whether the environment names a collector of traces."""
    return (
        any(os.environ.get(name, "").strip() for name in ENDPOINTS)
        and os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() != "true"
        and os.environ.get("OTEL_TRACES_EXPORTER", "otlp").strip() != "none"
    )


def is_installed() -> bool:
    return all(find_spec(name) is not None for name in ("opentelemetry", "google.protobuf")) and all(
        find_spec(f"opentelemetry.{name}") is not None for name in ("sdk", "exporter")
    )


def is_on() -> bool:
    """Whether this process makes spans."""
    return _tracer is not None


def begin(*, exporter: "SpanExporter | None" = None) -> bool:
    """Begin to trace in this process, if that is wanted and possible; gives whether it is. Web servers and
    workers call it after they were forked: spans are sent by a thread. `exporter` is for tests: where they
    go, at once."""
    global _tracer  # noqa: PLW0603 - one for the process
    if _tracer is not None or (exporter is None and not is_wanted()):
        return _tracer is not None
    if not is_installed():
        LOG.warning("Traces are wanted, but OpenTelemetry is not installed: see requirements/tracing.txt.")
        return False
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

    from portal.tracing import hooks

    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "claimdesk"}
    provider = TracerProvider(resource=Resource.create(named))
    if exporter is not None:
        provider.add_span_processor(SimpleSpanProcessor(exporter))
    else:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _tracer = provider.get_tracer("claimdesk")
    hooks.attach()
    return True


def end() -> None:
    """Make no more spans in this process."""
    global _tracer  # noqa: PLW0603 - one for the process
    if _tracer is not None:
        from portal.tracing import hooks

        hooks.detach()
        _tracer = None


def start(
    name: str, *, kind: "SpanKind", parent: "Context | None" = None, attributes: dict[str, Any]
) -> "Span | None":
    """A span with the ids of the work that it belongs to. Who starts it, ends it."""
    if _tracer is None:
        return None
    ids = {f"claimdesk.{key}": value for key, value in work_ids.current().items()}
    return _tracer.start_span(name, context=parent, kind=kind, attributes={**ids, **attributes})


def has_parent() -> bool:
    """Whether what is done now belongs to a trace that is kept: steps outside of one are not told."""
    if _tracer is None:
        return False
    from opentelemetry.trace import get_current_span

    return get_current_span().is_recording()


@contextmanager
def step(name: str, **attributes: Any) -> "Iterator[Span | None]":
    """A step of what is being traced: a call to something outside of this process. What it raises is named by
    its kind and never by its words, which may hold anything."""
    if not has_parent():
        yield None
        return
    from opentelemetry.trace import SpanKind, use_span

    span = start(name, kind=SpanKind.CLIENT, attributes=attributes)
    assert span is not None
    with use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield span
        except BaseException as error:
            failed(span, type(error).__name__)
            raise


def failed(span: "Span", kind: str) -> None:
    """Mark the span: what it tells of ended with an error of this kind."""
    from opentelemetry.trace import StatusCode

    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR)
