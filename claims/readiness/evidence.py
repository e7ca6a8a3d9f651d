"""What the desk has seen for each point of the checklist. Nothing is asked of clusters here, nothing is
guessed: what is not observed is not known, and what nobody can observe wants a signed note."""

from collections.abc import Collection
from datetime import datetime, timedelta

from django.db.models import Count, Max, Q
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from claims.models import Charge, Drill, DrillStep, GrowablePool, PoolPlan, PoolPlanEntry, Quota
from claims.readiness.seen import (
    MET,
    NOTE,
    OPEN,
    UNKNOWN,
    Evidence,
    Line,
    behind,
    day,
    devices_page,
    findings_page,
    open_findings,
    plan_page,
    unjudged,
    without,
)
from inventory import contract as contracts
from inventory.mirror.taint_rules import Rules
from inventory.mirror.writer import features_of
from inventory.models import (
    CdiNode,
    Cluster,
    ClusterQueue,
    Device,
    DiagnosisTask,
    MetricQuery,
    MetricSource,
    NamespaceBinding,
    Pool,
    ResourceQuota,
)
from inventory.node_reports import patience
from inventory.queues import device_quotas
from inventory.telemetry.problems import ELSEWHERE
from portal.accounts.models import ApiToken
from portal.dra.taints import PREVENTING
from portal.sql import chunks

BILLED = timedelta(days=30)
FETCHED = timedelta(hours=1)
NO_DEVICES = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})


def install(cluster: Cluster, now: datetime) -> Evidence:
    if cluster.contacted_at is None:
        return Evidence(UNKNOWN, (Line(_("The cluster has not answered yet.")),))
    if "resourceslices" not in cluster.served:
        said = _("Kubernetes %(version)s serves no resource.k8s.io.") % {"version": cluster.server_version}
        return Evidence(OPEN, (Line(said),))
    if late := behind(cluster, now):
        return late
    rows = Device.objects.filter(pool__cluster=cluster).values("pool__driver").annotate(n=Count("pk"))
    drivers = rows.order_by("pool__driver").values_list("pool__driver", "n")
    lines = [
        Line(
            ngettext("%(driver)s: %(n)s device", "%(driver)s: %(n)s devices", n) % {"driver": driver, "n": n},
            devices_page(cluster, driver=driver),
        )
        for driver, n in drivers
    ]
    return Evidence(MET, lines) if lines else Evidence(OPEN, (Line(_("No driver publishes devices.")),))


def discovery(cluster: Cluster, now: datetime) -> Evidence:
    pools = Pool.objects.filter(cluster=cluster).count()
    said = ngettext("%(n)s pool is published.", "%(n)s pools are published.", pools) % {"n": pools}
    kinds = ("pool-incomplete", "pool-invalid", "pool-empty", "hardware-without-slice", "slice-abandoned")
    return without(cluster, now, kinds, Line(said))


def injection(cluster: Cluster, now: datetime) -> Evidence:
    return without(cluster, now, ("prepare-failed",))


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
        lines.append(Line(f"{plan.name} ({plan.get_way_display()}): {text[:200]}", plan_page(plan)))
    return Evidence(MET if all(plan.reason and plan.way for plan in plans) else OPEN, lines)


def one_manager(cluster: Cluster, now: datetime) -> Evidence:
    return without(cluster, now, ("doubly-managed",))


def cdi(cluster: Cluster, now: datetime) -> Evidence:
    nodes = Device.objects.filter(pool__cluster=cluster).exclude(node_name="")
    needed = set(nodes.values_list("node_name", flat=True).distinct())
    reports = CdiNode.objects.filter(cluster=cluster).exclude(received_at=None)
    # One that has fallen silent reports no more.
    reporting = {
        name
        for name, received, seconds in reports.values_list("name", "received_at", "interval_seconds")
        if received and now <= received + patience(timedelta(seconds=seconds))
    }
    said = _("%(n)s of %(total)s nodes with devices report their specs.") % {
        "n": len(needed & reporting),
        "total": len(needed),
    }
    line = Line(said, reverse("cdi-list"))
    if not reporting and not reports.exists():
        return Evidence(NOTE, (line,))
    judged = without(cluster, now, ("cdi-drift",), line)
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
            lines.append(Line(_("%(pool)s: no drill yet") % {"pool": plan.name}, plan_page(plan)))
            continue
        good, total = proven.get(drill.pk, (0, 0))
        missing = missing or not total or good < total
        said = _("%(pool)s: %(good)s of %(all)s questions proven on %(day)s") % {
            "pool": plan.name,
            "good": good,
            "all": total,
            "day": day(drill.finished_at),
        }
        lines.append(Line(said, plan_page(plan)))
    return Evidence(OPEN if missing else MET, lines)


def queue(cluster: Cluster, now: datetime) -> Evidence:
    if not any(name.startswith("clusterqueues") for name in cluster.served):
        return Evidence(NOTE, (Line(_("The cluster has no Kueue.")),))
    if late := behind(cluster, now):
        return late
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
            Line(_("No right is missing, as of %(day)s.") % {"day": day(cluster.contacted_at)}),
            Line(_("Policies cannot be read by the desk: say who applied deploy/cluster, and when.")),
        ),
    )


def monitoring(cluster: Cluster, now: datetime) -> Evidence:
    """Two sides: somebody fetches the desk's metrics, and the desk knows those of drivers and devices."""
    source = MetricSource.objects.filter(cluster=cluster).first()
    if source is None:
        return _fetched(now)
    href = reverse("monitoring-detail", args=[cluster.name])
    # What is not used of an answer does not make it none.
    answered = Q(problem__isnull=True) | Q(problem__code=ELSEWHERE)
    queries = source.queries.filter(answered, enabled=True)
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
    said = _("Metrics were fetched last on %(day)s.") % {"day": day(last)}
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
            _("A pool went to the canary on %(day)s.") % {"day": day(canary)}
            if canary
            else _("No pool had a canary."),
            href,
        ),
        Line(
            _("A switch was rolled back on %(day)s.") % {"day": day(back)}
            if back
            else _("No switch has ever been rolled back."),
            href,
        ),
    )
    return Evidence(MET if canary and back else OPEN, lines)


def contract(cluster: Cluster, _now: datetime) -> Evidence:
    found = contracts.summary(cluster)
    href = reverse("contract-detail", args=[cluster.name])
    gated = _gated(cluster)
    if not found.expects:
        line = Line(_("The cluster has no contract that expects anything."), href)
        return Evidence(OPEN, (line, _features(cluster), *gated))
    verdict = {contracts.MET: MET, contracts.BROKEN: OPEN}.get(found.state, UNKNOWN)
    parts = (part for part in found.parts if part.expected)
    lines = [Line(f"{part.label}: {part.expected} – {part.state_label}", href) for part in parts]
    return Evidence(OPEN if gated else verdict, [*lines, _features(cluster), *gated])


def _features(cluster: Cluster) -> Line:
    """API servers do not tell their gates to everybody: what follows from version and served resources."""
    on = features_of(cluster.server_version, served=cluster.served).gates
    told = ", ".join(sorted(name.removeprefix("DRA") for name in on)) or "–"
    return Line(_("On by version, and by what is served: %(features)s.") % {"features": told})


def _gated(cluster: Cluster) -> list[Line]:
    pools = Pool.objects.filter(cluster=cluster).exclude(missing_gate="").order_by("missing_gate")
    counts = pools.values_list("missing_gate").annotate(n=Count("pk"))
    return [
        Line(
            ngettext(
                "%(n)s pool needs %(gate)s, which is off.", "%(n)s pools need %(gate)s, which is off.", n
            )
            % {"n": n, "gate": gate},
            findings_page(cluster),
        )
        for gate, n in counts
    ]


def health(cluster: Cluster, now: datetime) -> Evidence:
    kinds = ("health-fault", "device-unhealthy")
    if blind := behind(cluster, now) or unjudged(cluster, kinds):
        return blind
    subjects = set(open_findings(cluster, kinds).values_list("subject", flat=True))
    if not subjects:
        line = Line(_("Health is observed, and no fault is open."), findings_page(cluster))
        return Evidence(MET, (line,))
    tasks = DiagnosisTask.objects.filter(cluster=cluster, done_at=None)
    tended = set(tasks.filter(subject__in=subjects).values_list("subject", flat=True))
    said = _("Faults that are open: %(n)s; with a diagnosis task: %(tended)s.")
    lines = [Line(said % {"n": len(subjects), "tended": len(tended)}, findings_page(cluster))]
    if allotted := _allotted(cluster, subjects):
        said = _("Not tainted, so that they are handed out again: %(devices)s.")
        shown = ", ".join(allotted[:5]) + (", …" if len(allotted) > 5 else "")
        lines.append(Line(said % {"devices": shown}, findings_page(cluster)))
    return Evidence(MET if tended == subjects and not allotted else OPEN, lines)


def _allotted(cluster: Cluster, subjects: Collection[str]) -> list[str]:
    """Those of these devices that nothing keeps from the next claim: no taint of the driver, and no rule."""
    rules = Rules.of(cluster.pk)
    found = []
    for some in chunks(sorted({subject.rpartition("/")[2] for subject in subjects})):
        rows = Device.objects.filter(cluster=cluster, name__in=some)
        for driver, pool, name, taints in rows.values_list("pool__driver", "pool__name", "name", "taints"):
            subject = f"{driver}/{pool}/{name}"
            kept = any(taint.get("effect") in PREVENTING for taint in taints)
            if subject in subjects and not kept and not rules.prevent(driver=driver, pool=pool, device=name):
                found.append(subject)
    return sorted(found)


def drivers(cluster: Cluster, _now: datetime) -> Evidence:
    said = _("The desk does not read DaemonSets: list them with kubectl, and say who reviewed them.")
    names = Pool.objects.filter(cluster=cluster).order_by("driver").values_list("driver", flat=True)
    told = ", ".join(names.distinct()) or "–"
    known = Line(_("Drivers that publish devices here: %(names)s.") % {"names": told})
    return Evidence(NOTE, (known, Line(said)))
