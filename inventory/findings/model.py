"""The words that rules speak in: what is found, when it counts, what has to be observed for it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django_stubs_ext import StrOrPromise

from inventory.findings.facts import Facts
from inventory.models import Severity

NOW = timedelta(0)


@dataclass(frozen=True)
class Found:
    """One thing that a rule's condition holds for at this moment.

    `subject` identifies it from one evaluation to the next. It becomes a finding once it has held for
    `holds_for`: since `since`, where the cluster says when it began, else since it was first seen.
    """

    subject: str
    object_kind: str
    name: str
    code: str
    severity: Severity = Severity.WARNING
    namespace: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    since: datetime | None = None
    holds_for: timedelta = NOW


@dataclass(frozen=True)
class Unjudged:
    """A rule says that it cannot judge one subject, though it can judge others."""

    subject: str
    since: datetime | None = None


@dataclass(frozen=True)
class Rule:
    """`needs` are the resources whose streams have to be in step: a rule never judges what it does not
    see."""

    kind: str
    label: StrOrPromise
    # What it means and what to do about it.
    advice: StrOrPromise
    needs: tuple[str, ...]
    check: Callable[[Facts], Iterable[Found | Unjudged]]
    # Whether its findings open a diagnosis task.
    opens_task: bool = False
