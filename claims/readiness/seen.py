"""What evidence is made of: verdicts, lines, and how the mirror and its findings are read for it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Count, Max, QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from claims.models import PoolPlan
from inventory.coverage import coverage_of
from inventory.findings.registry import BY_KIND
from inventory.models import Cluster, Finding, RuleState, Stream

MET, OPEN, UNKNOWN, NOTE = "met", "open", "unknown", "note"


@dataclass(frozen=True)
class Line:
    """One thing that was seen, for people, and the page that shows more of it ("" = none)."""

    text: str
    href: str = ""


@dataclass(frozen=True)
class Evidence:
    """MET, OPEN (seen to be otherwise), UNKNOWN (not observed now) or NOTE (nobody can observe it: somebody
    has to sign), and what it follows from."""

    verdict: str
    lines: Sequence[Line] = field(default_factory=tuple)


def behind(cluster: Cluster, now: datetime) -> Evidence | None:
    """UNKNOWN, where what the mirror holds may not be told as present fact."""
    found = coverage_of(cluster, Stream.objects.filter(cluster=cluster), now=now)
    if found.in_step:
        return None
    return Evidence(UNKNOWN, (Line(_("The cluster is not in step: %(why)s.") % {"why": found.why}),))


def open_findings(cluster: Cluster, kinds: Iterable[str]) -> QuerySet[Finding]:
    found = Finding.objects.filter(cluster=cluster, kind__in=kinds, resolved_at=None)
    return found.exclude(opened_at=None)


def unjudged(cluster: Cluster, kinds: Sequence[str]) -> Evidence | None:
    """UNKNOWN, where one of these rules of findings cannot be judged now."""
    states = {state.kind: state for state in RuleState.objects.filter(cluster=cluster, kind__in=kinds)}
    blind = [k for k in kinds if k not in states or states[k].unknown_since or not states[k].judged_at]
    if not blind:
        return None
    titles = ", ".join(str(BY_KIND[kind].label) for kind in blind)
    said = _("Not judged now: %(rules)s.") % {"rules": titles}
    return Evidence(UNKNOWN, (Line(said, findings_page(cluster)),))


def without(cluster: Cluster, now: datetime, kinds: Sequence[str], *lines: Line) -> Evidence:
    """MET while no finding of these kinds is open."""
    if blind := behind(cluster, now) or unjudged(cluster, kinds):
        return blind
    told = list(lines)
    counts = open_findings(cluster, kinds).values("kind").annotate(n=Count("pk")).order_by("kind")
    for kind, n in counts.values_list("kind", "n"):
        title = str(BY_KIND[kind].label)
        told.append(Line(f"{title}: {n}", findings_page(cluster, kind=kind)))
    if len(told) > len(lines):
        return Evidence(OPEN, told)
    judged = RuleState.objects.filter(cluster=cluster, kind__in=kinds).aggregate(at=Max("judged_at"))["at"]
    told.append(Line(_("No such finding, as of %(day)s.") % {"day": day(judged)}, findings_page(cluster)))
    return Evidence(MET, told)


def day(at: datetime | None) -> str:
    return date_format(timezone.localtime(at), "Y-m-d H:i") if at else ""


def devices_page(cluster: Cluster, **facets: str) -> str:
    return f"{reverse('device-list')}?{urlencode({'cluster': cluster.name, **facets})}"


def findings_page(cluster: Cluster, **facets: str) -> str:
    return f"{reverse('finding-list')}?{urlencode({'cluster': cluster.name, **facets})}"


def plan_page(plan: PoolPlan) -> str:
    return reverse("migration-detail", args=[plan.pk])
