"""A span for every task, in the trace of what asked for it. Connected by importing it."""

from typing import Any

from celery.signals import before_task_publish, task_failure, task_postrun, task_prerun, worker_init

from portal import tracing

# A header of Celery's messages, as the W3C has it.
PASSED_ON = "traceparent"
# Goes on for as long as its cluster is followed: not a piece of work with an end.
NOT_TOLD = {"inventory.tasks.follow_cluster"}

_running: dict[str, tuple[Any, Any]] = {}


@worker_init.connect
def _worker_begins(**_: Any) -> None:
    tracing.begin()


@before_task_publish.connect
def _pass_on(headers: dict[str, Any] | None = None, **_: Any) -> None:
    if headers is not None and tracing.has_parent():
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        TraceContextTextMapPropagator().inject(headers)


@task_prerun.connect
def _task_begins(task_id: str, task: Any, **_: Any) -> None:
    if not tracing.is_on() or task.name in NOT_TOLD:
        return
    from opentelemetry.context import attach
    from opentelemetry.trace import SpanKind, set_span_in_context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    called_with = task.request.headers or {}
    given = getattr(task.request, PASSED_ON, None) or called_with.get(PASSED_ON)
    parent = TraceContextTextMapPropagator().extract({PASSED_ON: str(given)}) if given else None
    span = tracing.start(
        task.name, kind=SpanKind.CONSUMER, parent=parent,
        attributes={"messaging.system": "celery", "messaging.operation.name": "process"},
    )  # fmt: skip
    assert span is not None
    _running[task_id] = (span, attach(set_span_in_context(span)))


@task_failure.connect
def _task_failed(task_id: str, exception: BaseException | None = None, **_: Any) -> None:
    if task_id in _running:
        tracing.failed(_running[task_id][0], type(exception).__name__)


@task_postrun.connect
def _task_ended(task_id: str, **_: Any) -> None:
    if (running := _running.pop(task_id, None)) is not None:
        from opentelemetry.context import detach

        span, token = running
        span.end()
        detach(token)
