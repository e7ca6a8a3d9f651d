"""A node pool's plan with all that can be said of it now: put together once for page, REST and export."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from claims.catalogue.stock import FleetOf
from claims.models import Drill, PoolPlan, PoolPlanEntry
from claims.poolmoves import switching
from claims.poolmoves.billing import Use, use_of
from claims.poolmoves.checklist import Facts, Point, points_of
from claims.poolmoves.plans import pool_of
from claims.poolmoves.switching import Effect
from inventory.coverage import Coverage, coverage_of
from inventory.models import DeviceClass
from inventory.poolmoves.dependents import Dependents, dependents_of
from inventory.poolmoves.pods import PodFates, fates_of
from inventory.poolmoves.pool import Members, members_of, nodes_of
from inventory.poolmoves.sightings import Comparison, compare
from inventory.snapshot import fleet

# Nobody reads more at once; the export has the rest.
SHOWN = 100


@dataclass(frozen=True, kw_only=True)
class Planner:
    """Everything about one pool. `effect` shows its flavors, and what its stage asks for them."""

    plan: PoolPlan
    coverage: Coverage
    members: Members
    comparison: Comparison
    dependents: Dependents
    fates: Mapping[str, PodFates]
    use: Mapping[str, Use]
    effect: Effect
    points: Sequence[Point]
    start: datetime
    end: datetime

    @property
    def open_points(self) -> Sequence[Point]:
        return [point for point in self.points if not point.settled]


def members_now(plan: PoolPlan) -> Members:
    """The nodes of a plan's pool; one query."""
    return members_of(pool_of(plan), nodes_of(plan.cluster))


def look(
    plan: PoolPlan, *, start: datetime, end: datetime, now: datetime, fleet_of: FleetOf = fleet
) -> Planner:
    """The plan's pool as it is, and its use over [start, end). A fixed number of queries."""
    pool, members = pool_of(plan), members_now(plan)
    coverage = coverage_of(plan.cluster, plan.cluster.streams.all(), now=now)
    rows = switching.places_in(plan, members)
    effect = switching.effect(
        plan, members, targets=switching.targets_of(plan, rows, members), rows=rows, fleet_of=fleet_of
    )
    facts = Facts(
        plan=plan,
        coverage=coverage,
        members=members,
        comparison=compare(pool, members),
        dependents=dependents_of(pool, members),
        fates=fates_of(pool, members, start=start, end=end),
        use=use_of(pool, members, start=start, end=end, now=now),
        places=effect.places,
        device_class=DeviceClass.objects.filter(cluster=plan.cluster, name=plan.device_class).first(),
        drill=latest_drill(plan),
    )
    return Planner(
        plan=plan,
        coverage=coverage,
        members=members,
        comparison=facts.comparison,
        dependents=facts.dependents,
        fates=facts.fates,
        use=facts.use,
        effect=effect,
        points=points_of(facts),
        start=start,
        end=end,
    )


def latest_drill(plan: PoolPlan) -> Drill | None:
    """The last drill of the pool that is over, with its steps."""
    rows = plan.drills.filter(state=Drill.State.FINISHED).prefetch_related("steps")
    return rows.order_by("-created_at", "-pk").first()


def history(plan: PoolPlan) -> list[PoolPlanEntry]:
    """What was done about the pool, latest first."""
    return list(plan.entries.select_related("person").order_by("-at", "-pk")[:SHOWN])
