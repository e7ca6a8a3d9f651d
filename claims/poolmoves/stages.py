"""The stage of a node pool: one step forward when its checklist is settled, any number of steps back, each
with who, when and why."""

from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext as _

from claims.asks.reading import WHOLE
from claims.models import PoolPlan, PoolPlanEntry
from claims.poolmoves.checklist import Point
from claims.poolmoves.plans import UnableToPlan, claim
from portal.accounts import audit
from portal.accounts.models import User

Stage = PoolPlan.Stage
ORDER: tuple[str, ...] = tuple(Stage.values)
MAX_WHY = 1000


def choices(stage: str) -> list[str]:
    """Stages that a pool at this one may go to: the next, and every one before."""
    at = ORDER.index(stage)
    return [*ORDER[at + 1 : at + 2], *reversed(ORDER[:at])]


def move(
    *,
    plan: PoolPlan,
    to: str,
    why: str,
    seen_version: int,
    points: list[Point],
    user: User,
    now: datetime,
    source_ip: str | None = None,
) -> None:
    """Bring the pool to a stage, if its plan still is at `seen_version`. `points` are those of its checklist
    as it is now: a step forward needs all that come before it. Raises UnableToPlan; nothing is changed
    then."""
    if to not in choices(plan.stage):
        raise UnableToPlan(
            {"stage": [_("A pool goes to the next stage, or back; not from here to there at once.")]}
        )
    if not why:
        raise UnableToPlan({"why": [_("Say why; it is kept with the history of the pool.")]})
    forward = ORDER.index(to) > ORDER.index(plan.stage)
    if forward and (not plan.reason or not plan.way):
        raise UnableToPlan(
            {WHOLE: [_("First write down the reason of the business for DRA or for the Device Plugin.")]}
        )
    if forward and (still := [point for point in points if point.before == to and not point.settled]):
        words = "; ".join(point.title for point in still)
        raise UnableToPlan({WHOLE: [_("Not settled yet: %(points)s.") % {"points": words}]})
    with transaction.atomic():
        before = plan.stage
        claim(plan, seen_version=seen_version, user=user, now=now, stage=to)
        PoolPlanEntry.objects.create(
            plan=plan, kind=PoolPlanEntry.Kind.STAGE, at=now, person=user, why=why,
            facts={"from": before, "to": to},
        )  # fmt: skip
        audit.record(
            now=now, actor=user, action="pool-plan.stage", target=plan, before={"stage": before},
            after={"stage": to, "why": why}, source_ip=source_ip,
        )  # fmt: skip
