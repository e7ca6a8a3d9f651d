"""What somebody looks for among findings, as the address of the page, its CSV and the REST call carry it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Case, Count, IntegerField, Q, QuerySet, Value, When
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from inventory.filters import clean_text
from inventory.findings.registry import BY_KIND
from inventory.models import DiagnosisTask, Finding, Severity

STATES = {
    "new": _("to be looked at"),
    "live": _("all that hold"),
    "acknowledged": _("acknowledged"),
    "snoozed": _("put off"),
    "unknown": _("not known whether it still holds"),
    "resolved": _("no longer hold"),
}
DEFAULT_STATE = "new"
_RANKS = {severity: rank for rank, severity in enumerate(Severity.values)}


@dataclass(frozen=True)
class FindingFilter:
    """Values that there are not fall back to the default (state) or match nothing (the others)."""

    state: str = DEFAULT_STATE
    kind: str = ""
    severity: str = ""
    cluster: str = ""
    text: str = ""

    @classmethod
    def parse(cls, params: QueryDict) -> "FindingFilter":
        state = params.get("state", "")
        return cls(
            state=state if state in STATES else DEFAULT_STATE,
            kind=clean_text(params.get("kind", "")),
            severity=clean_text(params.get("severity", "")),
            cluster=clean_text(params.get("cluster", "")),
            text=clean_text(params.get("q", "")),
        )

    @property
    def narrows(self) -> bool:
        return self != FindingFilter()

    def rows(self, *, now: datetime) -> QuerySet[Finding]:
        """The findings, without an order."""
        wanted = of_state(self.state, now=now)
        if self.kind:
            wanted &= Q(kind=self.kind)
        if self.severity:
            wanted &= Q(severity=self.severity)
        if self.cluster:
            wanted &= Q(cluster__name=self.cluster)
        for word in self.text.split()[:5]:
            wanted &= Q(subject__icontains=word) | Q(name__icontains=word) | Q(namespace__icontains=word)
        return Finding.objects.filter(wanted)


def of_state(state: str, *, now: datetime) -> Q:
    """The condition for one of STATES. What waits to become a finding is in none."""
    shown = Q(opened_at__isnull=False)
    live = shown & Q(resolved_at=None)
    awake = Q(snoozed_until=None) | Q(snoozed_until__lte=now)
    return {
        "new": live & Q(acknowledged_at=None) & awake,
        "live": live,
        "acknowledged": live & Q(acknowledged_at__isnull=False),
        "snoozed": live & Q(snoozed_until__gt=now),
        "unknown": live & Q(unknown_since__isnull=False),
        "resolved": shown & Q(resolved_at__isnull=False),
    }[state]


def state_of(finding: Finding, *, now: datetime) -> str:
    """How one finding stands: "resolved", "unknown", "snoozed", "acknowledged" or "new"."""
    if finding.resolved_at is not None:
        return "resolved"
    if finding.unknown_since is not None:
        return "unknown"
    if finding.snoozed_until is not None and finding.snoozed_until > now:
        return "snoozed"
    return "acknowledged" if finding.acknowledged_at is not None else "new"


def worst_first(rows: QuerySet[Finding]) -> QuerySet[Finding]:
    """By severity, then the latest first."""
    rank = Case(
        *(When(severity=severity, then=Value(rank)) for severity, rank in _RANKS.items()),
        default=Value(len(_RANKS)),
        output_field=IntegerField(),
    )
    return rows.order_by(rank, "-first_seen_at", "-pk")


def counts(*, now: datetime) -> Mapping[str, int]:
    """Findings to be looked at by severity, "unknown" ones, and "tasks" that are not done."""
    found = Finding.objects.filter(of_state("live", now=now)).aggregate(
        unknown=Count("pk", filter=Q(unknown_since__isnull=False)),
        **{
            severity: Count("pk", filter=Q(severity=severity) & of_state("new", now=now))
            for severity in Severity.values
        },
    )
    return {**found, "tasks": DiagnosisTask.objects.filter(done_at=None).count()}


def kind_label(kind: str) -> str:
    """The name of a rule for people; a kind that there is no rule for any more by itself."""
    rule = BY_KIND.get(kind)
    return str(rule.label) if rule else kind
