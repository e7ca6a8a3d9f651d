"""What the desk has seen for each point of the checklist. Nothing is asked of clusters here, nothing is
guessed: what is not observed is not known, and what nobody can observe wants a signed note."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import Count, Max, Q, QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from claims.models import Charge, Drill, DrillStep, GrowablePool, PoolPlan, PoolPlanEntry, Quota
from inventory import contract as contracts
from inventory.coverage import coverage_of
from inventory.findings.registry import BY_KIND
from inventory.models import (
    CdiNode,
    Cluster,
    ClusterQueue,
    Device,
    DiagnosisTask,
    Finding,
    MetricQuery,
    MetricSource,
    NamespaceBinding,
    Pool,
    ResourceQuota,
    RuleState,
    Stream,
)
from inventory.queues import device_quotas
from portal.accounts.models import ApiToken

MET, OPEN, UNKNOWN, NOTE = "met", "open", "unknown", "note"
BILLED = timedelta(days=30)
FETCHED = timedelta(hours=1)
NO_DEVICES = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})


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


def install(cluster: Cluster, now: datetime) -> Evidence:
    if cluster.contacted_at is None:
        return Evidence(UNKNOWN, (Line(_("The cluster has not answered yet.")),))
    if "resourceslices" not in cluster.served:
        said = _("Kubernetes %(version)s serves no resource.k8s.io.") % {"version": cluster.server_version}
        return Evidence(OPEN, (Line(said),))
    if behind := _behind(cluster, now):
        return behind
    rows = Device.objects.filter(pool__cluster=cluster).values("pool__driver").annotate(n=Count("pk"))
    drivers = rows.order_by("pool__driver").values_list("pool__driver", "n")
    lines = [
        Line(
            ngettext("%(driver)s: %(n)s device", "%(driver)s: %(n)s devices", n) % {"driver": driver, "n": n},
            _devices(cluster, driver=driver),
        )
        for driver, n in drivers
    ]
    return Evidence(MET, lines) if lines else Evidence(OPEN, (Line(_("No driver publishes devices.")),))


def discovery(cluster: Cluster, now: datetime) -> Evidence:
    pools = Pool.objects.filter(cluster=cluster).count()
    said = ngettext("%(n)s pool is published.", "%(n)s pools are published.", pools) % {"n": pools}
    kinds = ("pool-incomplete", "pool-invalid", "pool-empty", "hardware-without-slice", "slice-abandoned")
    return _without(cluster, now, kinds, Line(said))


def injection(cluster: Cluster, now: datetime) -> Evidence:
    return _without(cluster, now, ("prepare-failed",))


def quota(cluster: Cluster, now: datetime) -> Evidence:
    bound = NamespaceBinding.objects.filter(
        Q(valid_until=None) | Q(valid_until__gt=now), cluster=cluster, valid_from__lte=now
    )
    projects = set(bound.values_list("project_id", flat=True))
    if not projects:
        return Evidence(NOTE, (Line(_("No namespace of this cluster belongs to a project.")),))
    valid = Quota.objects.filter(
        Q(valid_until=None) | Q(valid_until__gt=now), project__in=projects, valid_from__lte=now
    )
    limited = set(valid.values_list("project_id", flat=True))
    enforced = device_quotas(ResourceQuota.objects.filter(cluster=cluster).select_related("cluster"))
    spaces = {row.quota.namespace for row in enforced}
    limited |= set(bound.filter(namespace__in=spaces).values_list("project_id", flat=True))
    lines = [
        Line(
            _("%(n)s of %(total)s projects with namespaces here are limited.")
            % {"n": len(limited), "total": len(projects)},
            reverse("quota-list"),
        )
    ]
    if enforced:
        n = len(spaces)
        said = ngettext(
            "ResourceQuotas limit devices in %(n)s namespace.",
            "ResourceQuotas limit devices in %(n)s namespaces.",
            n,
        )
        lines.append(Line(said % {"n": n}))
    return Evidence(MET if limited == projects else OPEN, lines)


def reason(cluster: Cluster, _now: datetime) -> Evidence:
    plans = list(PoolPlan.objects.filter(cluster=cluster).order_by("name"))
    if not plans:
        return Evidence(OPEN, (Line(_("No node pool has a plan."), reverse("migration-list")),))
    lines = []
    for plan in plans:
        text = plan.reason if plan.reason and plan.way else _("no reason is written down")
        lines.append(Line(f"{plan.name} ({plan.get_way_display()}): {text[:200]}", _plan(plan)))
    return Evidence(MET if all(plan.reason and plan.way for plan in plans) else OPEN, lines)


def one_manager(cluster: Cluster, now: datetime) -> Evidence:
    return _without(cluster, now, ("doubly-managed",))


def cdi(cluster: Cluster, now: datetime) -> Evidence:
    nodes = Device.objects.filter(pool__cluster=cluster).exclude(node_name="")
    needed = set(nodes.values_list("node_name", flat=True).distinct())
    reporting = set(
        CdiNode.objects.filter(cluster=cluster).exclude(received_at=None).values_list("name", flat=True)
    )
    said = _("%(n)s of %(total)s nodes with devices report their specs.") % {
        "n": len(needed & reporting),
        "total": len(needed),
    }
    line = Line(said, reverse("cdi-list"))
    if not reporting:
        return Evidence(NOTE, (line,))
    judged = _without(cluster, now, ("cdi-drift",), line)
    return judged if needed <= reporting or judged.verdict != MET else Evidence(OPEN, judged.lines)


def lifecycle(cluster: Cluster, _now: datetime) -> Evidence:
    plans = list(PoolPlan.objects.filter(cluster=cluster).order_by("name"))
    if not plans:
        return Evidence(OPEN, (Line(_("No node pool has a plan."), reverse("migration-list")),))
    finished = Drill.objects.filter(plan__in=plans, state=Drill.State.FINISHED).order_by("finished_at", "pk")
    latest = {drill.plan_id: drill for drill in finished}
    verdicts = (
        DrillStep.objects.filter(drill__in=latest.values())
        .values("drill")
        .annotate(n=Count("pk"), good=Count("pk", filter=Q(verdict=DrillStep.Verdict.PROVEN)))
    )
    proven = {row["drill"]: (row["good"], row["n"]) for row in verdicts}
    lines, missing = [], False
    for plan in plans:
        drill = latest.get(plan.pk)
        if drill is None:
            missing = True
            lines.append(Line(_("%(pool)s: no drill yet") % {"pool": plan.name}, _plan(plan)))
            continue
        good, total = proven.get(drill.pk, (0, 0))
        missing = missing or not total or good < total
        said = _("%(pool)s: %(good)s of %(all)s questions proven on %(day)s") % {
            "pool": plan.name,
            "good": good,
            "all": total,
            "day": _day(drill.finished_at),
        }
        lines.append(Line(said, _plan(plan)))
    return Evidence(OPEN if missing else MET, lines)


def queue(cluster: Cluster, now: datetime) -> Evidence:
    if not any(name.startswith("clusterqueues") for name in cluster.served):
        return Evidence(NOTE, (Line(_("The cluster has no Kueue.")),))
    if behind := _behind(cluster, now):
        return behind
    resources = set(PoolPlan.objects.filter(cluster=cluster).values_list("extended_resource", flat=True))
    lines, knowing = [], 0
    for found in ClusterQueue.objects.filter(cluster=cluster).order_by("name"):
        covered = sorted(
            {row["resource"] for row in found.quotas} - {"cpu", "memory", "pods", "ephemeral-storage"}
        )
        knowing += bool(covered)
        lines.append(Line(f"{found.name}: {', '.join(covered) or _('no devices')}", reverse("queue-list")))
    missing = sorted(name for name in resources - {""} if not any(name in line.text for line in lines))
    if missing:
        lines.append(Line(_("No queue has a quota for %(names)s.") % {"names": ", ".join(missing)}))
    return Evidence(MET if knowing and not missing else OPEN, lines)


def billing(cluster: Cluster, now: datetime) -> Evidence:
    since = int((now - BILLED).timestamp()) * 1_000_000
    used = Charge.objects.filter(cluster=cluster, kind=Charge.Kind.USAGE, ended_us__gte=since)
    rows = used.values("product", "device_class", "resource").annotate(
        n=Count("pk"), priced=Count("list_micros")
    )
    names = sorted(
        {row["product"] or row["device_class"] or row["resource"] for row in rows if row["priced"] < row["n"]}
    )
    total = sum(row["n"] for row in rows)
    if not total:
        return Evidence(NOTE, (Line(_("Nothing was used within the last 30 days.")),))
    if names:
        said = _("Used without a price: %(names)s.") % {"names": ", ".join(names[:10])}
        return Evidence(OPEN, (Line(said, reverse("cost")),))
    said = ngettext("%(n)s charge, all with a price.", "%(n)s charges, all with a price.", total)
    return Evidence(MET, (Line(said % {"n": total}, reverse("cost")),))


def policy(cluster: Cluster, _now: datetime) -> Evidence:
    if cluster.contacted_at is None:
        return Evidence(UNKNOWN, (Line(_("The cluster has not answered yet.")),))
    if cluster.missing_permissions:
        said = _("Missing: %(names)s.") % {"names": ", ".join(cluster.missing_permissions[:10])}
        return Evidence(OPEN, (Line(said, reverse("cluster-detail", args=[cluster.name])),))
    return Evidence(
        NOTE,
        (
            Line(_("No right is missing, as of %(day)s.") % {"day": _day(cluster.contacted_at)}),
            Line(_("Policies cannot be read by the desk: say who applied deploy/cluster, and when.")),
        ),
    )


def monitoring(cluster: Cluster, now: datetime) -> Evidence:
    """Two sides: somebody fetches the desk's metrics, and the desk knows those of drivers and devices."""
    source = MetricSource.objects.filter(cluster=cluster).first()
    if source is None:
        return _fetched(now)
    href = reverse("monitoring-detail", args=[cluster.name])
    queries = source.queries.filter(enabled=True, problem__isnull=True)
    telling = queries.exclude(samples=0).count()
    devices = max(queries.filter(kind=MetricQuery.Kind.USE).values_list("matched", flat=True), default=0)
    fresh = source.answered_at is not None and source.answered_at > now - FETCHED and source.problem is None
    said = ngettext(
        "Its Prometheus answers %(n)s query, and tells how busy %(devices)s devices are.",
        "Its Prometheus answers %(n)s queries, and tells how busy %(devices)s devices are.",
        telling,
    )
    line = Line(said % {"n": telling, "devices": devices}, href)
    if not fresh or not telling:
        line = Line(_("Its Prometheus is configured, but does not answer, or with nothing."), href)
    base = _fetched(now)
    verdict = base.verdict if fresh and telling else OPEN
    return Evidence(verdict, (*base.lines, line))


def _fetched(now: datetime) -> Evidence:
    tokens = [t for t in ApiToken.objects.exclude(last_used_at=None) if ApiToken.Scope.METRICS in t.scopes]
    last = max((t.last_used_at for t in tokens if t.last_used_at), default=None)
    if last is None:
        return Evidence(OPEN, (Line(_("Nobody has fetched metrics yet.")),))
    said = _("Metrics were fetched last on %(day)s.") % {"day": _day(last)}
    return Evidence(MET if last > now - FETCHED else OPEN, (Line(said),))


def autoscaling(cluster: Cluster, _now: datetime) -> Evidence:
    pools = list(GrowablePool.objects.filter(cluster=cluster).order_by("name"))
    href = reverse("growable-pool-list")
    lines = [
        Line(_("%(pool)s can grow to %(n)s nodes") % {"pool": p.name, "n": p.max_nodes}, href) for p in pools
    ]
    return Evidence(NOTE, lines or (Line(_("No pool of this cluster is known to grow."), href),))


def way_back(cluster: Cluster, _now: datetime) -> Evidence:
    entries = PoolPlanEntry.objects.filter(plan__cluster=cluster)
    stages = entries.filter(kind=PoolPlanEntry.Kind.STAGE, facts__to=PoolPlan.Stage.CANARY)
    undone = entries.filter(kind=PoolPlanEntry.Kind.UNDO)
    canary, back = stages.aggregate(at=Max("at"))["at"], undone.aggregate(at=Max("at"))["at"]
    href = reverse("migration-list")
    lines = (
        Line(
            _("A pool went to the canary on %(day)s.") % {"day": _day(canary)}
            if canary
            else _("No pool had a canary."),
            href,
        ),
        Line(
            _("A switch was rolled back on %(day)s.") % {"day": _day(back)}
            if back
            else _("No switch has ever been rolled back."),
            href,
        ),
    )
    return Evidence(MET if canary and back else OPEN, lines)


def contract(cluster: Cluster, _now: datetime) -> Evidence:
    found = contracts.summary(cluster)
    href = reverse("contract-detail", args=[cluster.name])
    if not found.expects:
        return Evidence(OPEN, (Line(_("The cluster has no contract that expects anything."), href),))
    verdict = {contracts.MET: MET, contracts.BROKEN: OPEN}.get(found.state, UNKNOWN)
    parts = (part for part in found.parts if part.expected)
    return Evidence(
        verdict, [Line(f"{part.label}: {part.expected} – {part.state_label}", href) for part in parts]
    )


def health(cluster: Cluster, now: datetime) -> Evidence:
    kinds = ("health-fault", "device-unhealthy")
    if unjudged := _behind(cluster, now) or _unjudged(cluster, kinds):
        return unjudged
    faults = _open(cluster, kinds)
    subjects = set(faults.values_list("subject", flat=True))
    tasks = DiagnosisTask.objects.filter(cluster=cluster, done_at=None)
    tended = set(tasks.filter(subject__in=subjects).values_list("subject", flat=True))
    said = _("Faults that are open: %(n)s; with a diagnosis task: %(tended)s.")
    if not subjects:
        return Evidence(MET, (Line(_("Health is observed, and no fault is open."), _findings(cluster)),))
    line = Line(said % {"n": len(subjects), "tended": len(tended)}, _findings(cluster))
    return Evidence(MET if tended == subjects else OPEN, (line,))


def drivers(_cluster: Cluster, _now: datetime) -> Evidence:
    said = _("The desk does not read DaemonSets: list them with kubectl, and say who reviewed them.")
    return Evidence(NOTE, (Line(said),))


# --- helps ------------------------------------------------------------------------------------------


def _behind(cluster: Cluster, now: datetime) -> Evidence | None:
    """UNKNOWN, where what the mirror holds may not be told as present fact."""
    found = coverage_of(cluster, Stream.objects.filter(cluster=cluster), now=now)
    if found.in_step:
        return None
    return Evidence(UNKNOWN, (Line(_("The cluster is not in step: %(why)s.") % {"why": found.why}),))


def _open(cluster: Cluster, kinds: Iterable[str]) -> QuerySet[Finding]:
    found = Finding.objects.filter(cluster=cluster, kind__in=kinds, resolved_at=None)
    return found.exclude(opened_at=None)


def _unjudged(cluster: Cluster, kinds: Sequence[str]) -> Evidence | None:
    """UNKNOWN, where one of these rules of findings cannot be judged now."""
    states = {state.kind: state for state in RuleState.objects.filter(cluster=cluster, kind__in=kinds)}
    blind = [k for k in kinds if k not in states or states[k].unknown_since or not states[k].judged_at]
    if not blind:
        return None
    titles = ", ".join(str(BY_KIND[kind].label) for kind in blind)
    return Evidence(UNKNOWN, (Line(_("Not judged now: %(rules)s.") % {"rules": titles}, _findings(cluster)),))


def _without(cluster: Cluster, now: datetime, kinds: Sequence[str], *lines: Line) -> Evidence:
    """MET while no finding of these kinds is open."""
    unjudged = _behind(cluster, now) or _unjudged(cluster, kinds)
    if unjudged:
        return unjudged
    told = list(lines)
    counts = _open(cluster, kinds).values("kind").annotate(n=Count("pk")).order_by("kind")
    for kind, n in counts.values_list("kind", "n"):
        title = str(BY_KIND[kind].label)
        told.append(Line(f"{title}: {n}", _findings(cluster, kind=kind)))
    if len(told) > len(lines):
        return Evidence(OPEN, told)
    judged = RuleState.objects.filter(cluster=cluster, kind__in=kinds).aggregate(at=Max("judged_at"))["at"]
    told.append(Line(_("No such finding, as of %(day)s.") % {"day": _day(judged)}, _findings(cluster)))
    return Evidence(MET, told)


def _day(at: datetime | None) -> str:
    return date_format(timezone.localtime(at), "Y-m-d H:i") if at else ""


def _devices(cluster: Cluster, **facets: str) -> str:
    return f"{reverse('device-list')}?{urlencode({'cluster': cluster.name, **facets})}"


def _findings(cluster: Cluster, **facets: str) -> str:
    return f"{reverse('finding-list')}?{urlencode({'cluster': cluster.name, **facets})}"


def _plan(plan: PoolPlan) -> str:
    return reverse("migration-detail", args=[plan.pk])
