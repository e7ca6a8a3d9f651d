"""What somebody looks for among findings, as the address of the page, its CSV and the REST call carry it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from django.db.models import Case, Count, IntegerField, Q, QuerySet, Value, When
from django.http import QueryDict
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from inventory.filters import clean_text
from inventory.findings.registry import BY_KIND
from inventory.models import ClaimDevice, Device, DiagnosisTask, Finding, Node, Severity

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


# --- where a finding leads -----------------------------------------------------------------------------


def links(findings: Collection[Finding]) -> Mapping[int, str]:
    """The page of what each finding (by primary key, its cluster joined) is about; absent where the desk has
    none. Three queries at most."""
    nodes, devices, held = _existing_nodes(findings), _existing_devices(findings), _held(findings)
    found = {}
    for finding in findings:
        cluster = finding.cluster.name
        kind = finding.object_kind
        url = ""
        if kind == "node" and (finding.cluster_id, finding.name) in nodes:
            url = reverse("node-detail", args=[cluster, finding.name])
        elif kind == "device":
            pk = finding.params.get("id")
            url = reverse("device-detail", args=[pk]) if pk in devices else ""
        elif kind == "claim":
            pk = held.get((finding.cluster_id, finding.namespace, finding.name))
            url = reverse("device-detail", args=[pk]) if pk else ""
        elif kind == "pool":
            driver = finding.params.get("driver", "")
            url = f"{reverse('device-list')}?{urlencode({'cluster': cluster, 'driver': driver})}"
        elif kind == "cluster":
            url = reverse("contract-detail", args=[cluster])
        elif kind == "class":
            url = reverse("class-list")
        if url:
            found[finding.pk] = url
    return found


def _existing_nodes(findings: Collection[Finding]) -> set[tuple[int, str]]:
    wanted = {(f.cluster_id, f.name) for f in findings if f.object_kind == "node"}
    if not wanted:
        return set()
    rows = Node.objects.filter(
        cluster__in={cluster for cluster, _name in wanted}, name__in={name for _cluster, name in wanted}
    )
    return set(rows.values_list("cluster_id", "name")) & wanted


def _existing_devices(findings: Collection[Finding]) -> set[int]:
    wanted = {f.params.get("id") for f in findings if f.object_kind == "device"} - {None}
    return set(Device.objects.filter(pk__in=wanted).values_list("pk", flat=True)) if wanted else set()


def _held(findings: Collection[Finding]) -> Mapping[tuple[int, str, str], int]:
    """A device that each claim holds."""
    wanted = [f for f in findings if f.object_kind == "claim"]
    if not wanted:
        return {}
    rows = ClaimDevice.objects.filter(
        claim__cluster__in={f.cluster_id for f in wanted},
        claim__namespace__in={f.namespace for f in wanted},
        claim__name__in={f.name for f in wanted},
        device__isnull=False,
    ).order_by("-pk")
    return {
        (cluster, namespace, name): device
        for cluster, namespace, name, device in rows.values_list(
            "claim__cluster_id", "claim__namespace", "claim__name", "device_id"
        )
        if device is not None
    }


def kind_label(kind: str) -> str:
    """The name of a rule for people; a kind that there is no rule for any more by itself."""
    rule = BY_KIND.get(kind)
    return str(rule.label) if rule else kind
