"""Budgets of projects: how much of a month's is spent, what it will come to, whom to tell, and whether new
requests are refused.

What is spent is what the month's statement comes to by now, credit notes and corrections included. The
forecast is the simplest that can be told in a sentence: what was charged so far, and for the rest of the
month what is held now at its present rate. It is told as a forecast, with that sentence.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from decimal import Decimal
from fractions import Fraction

from django.db import transaction
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from claims.models import Budget, BudgetAlert, Charge
from claims.money.charges import charges
from claims.money.months import Month
from claims.money.pricing import PriceList, Statement, price_list
from portal import money
from portal.accounts import audit
from portal.accounts.models import Membership, Project, User
from portal.accounts.notifications.kinds import Kind
from portal.accounts.notifications.telling import tell
from portal.accounts.notifications.texts import Text

THRESHOLDS = (50, 80, 100)
# Project and currency.
_Account = tuple[int | None, str]


class UnableToBudget(Exception):
    """The budget stays as it is; `message` says why, `field` names the input."""

    def __init__(self, message: str, *, field: str) -> None:
        super().__init__(message)
        self.message, self.field = message, field


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """A month in one currency: what was spent up to now, and what it will have been at its end if what is
    held now is held on."""

    currency: str
    spent: Fraction
    expected: Fraction

    @property
    def rounded_spent(self) -> Decimal:
        return money.rounded(self.spent, currency=self.currency)

    @property
    def rounded_expected(self) -> Decimal:
        return money.rounded(self.expected, currency=self.currency)


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A budget and how much of it is spent."""

    budget: Budget
    forecast: Forecast

    @property
    def percent(self) -> int:
        """Rounded down: 100 is reached only when all of it is spent."""
        return int(self.forecast.spent * 100 / Fraction(self.budget.amount))

    @property
    def expected_percent(self) -> int:
        return int(self.forecast.expected * 100 / Fraction(self.budget.amount))

    @property
    def spent_up(self) -> bool:
        return self.percent >= 100


def forecasts(
    *, project: Project, zone: tzinfo, now: datetime, prices: PriceList | None = None
) -> Mapping[str, Forecast]:
    """By currency, for the present month."""
    start, end = Month.of(now, zone).bounds(zone)
    prices = prices or price_list()
    # What is held now is taken to be held until the end: to rate it as of then is to forecast it.
    spent, expected = _spent_and_expected(
        [project.pk], start=start, end=end, zone=zone, now=now, prices=prices
    )
    return {
        currency: Forecast(
            currency=currency, spent=spent.get((payer, currency), Fraction(0)), expected=amount
        )
        for (payer, currency), amount in sorted(expected.items(), key=lambda told: told[0][1])
    }


def standings(
    *,
    project: Project,
    zone: tzinfo,
    now: datetime,
    prices: PriceList | None = None,
    told: Mapping[str, Forecast] | None = None,
) -> list[Standing]:
    """The project's budgets with what is spent of each; `told` are its forecasts where they are known."""
    budgets = list(Budget.objects.filter(project=project).order_by("currency"))
    if not budgets:
        return []
    if told is None:
        told = forecasts(project=project, zone=zone, now=now, prices=prices)
    return [
        Standing(
            budget=budget,
            forecast=told.get(
                budget.currency,
                Forecast(currency=budget.currency, spent=Fraction(0), expected=Fraction(0)),
            ),
        )
        for budget in budgets
    ]


def standings_of(*, projects: Collection[Project], zone: tzinfo, now: datetime) -> list[Standing]:
    """The budgets of many projects, in order of slug and currency; a fixed number of queries."""
    rows = Budget.objects.filter(project__in=projects).select_related("project")
    found = list(rows.order_by("project__slug", "currency"))
    if not found:
        return []
    start, end = Month.of(now, zone).bounds(zone)
    of = sorted({row.project_id for row in found})
    spent, expected = _spent_and_expected(of, start=start, end=end, zone=zone, now=now, prices=price_list())
    nothing = Fraction(0)
    return [
        Standing(
            budget=row,
            forecast=Forecast(
                currency=row.currency,
                spent=spent.get((row.project_id, row.currency), nothing),
                expected=expected.get((row.project_id, row.currency), nothing),
            ),
        )
        for row in found
    ]


def set_budget(
    *,
    project: Project,
    currency: str,
    minor: int | None,
    thresholds: Sequence[int],
    blocks: bool,
    actor: User,
    now: datetime,
    source_ip: str | None = None,
) -> None:
    """Set what a project means to spend in a month; `minor` None takes the budget away."""
    try:
        money.demand_currency(currency)
    except money.InvalidCurrency:
        raise UnableToBudget(
            _("Write the three capital letters of a currency (ISO 4217): EUR."), field="currency"
        ) from None
    if minor is not None and not 0 < minor < 10**15:
        raise UnableToBudget(_("A budget is more than nothing."), field="amount")
    kept = sorted(set(thresholds))
    if any(not 1 <= threshold <= 1_000 for threshold in kept) or len(kept) > 10:
        raise UnableToBudget(_("Ten percentages at most, each from 1 to 1000."), field="thresholds")
    with transaction.atomic():
        old = Budget.objects.select_for_update().filter(project=project, currency=currency).first()
        before = _told(old) if old else None
        if minor is None:
            Budget.objects.filter(project=project, currency=currency).delete()
            after = None
        else:
            made, _new = Budget.objects.update_or_create(
                project=project,
                currency=currency,
                defaults={
                    "minor": minor,
                    "thresholds": kept,
                    "blocks": blocks,
                    "changed_at": now,
                    "changed_by": actor,
                },
            )
            after = _told(made)
        audit.record(
            now=now,
            actor=actor,
            action="budget.set" if after else "budget.remove",
            target=project,
            project=project,
            before=before,
            after=after,
            source_ip=source_ip,
        )


def watch(*, zone: tzinfo, now: datetime) -> int:
    """Tell the leads of every project whose budget has passed a threshold this month, once each; how many
    were told of. Of a budget that was raised thresholds are passed again."""
    month, told = str(Month.of(now, zone)), 0
    projects = list(Project.objects.filter(budgets__isnull=False, archived_at=None).distinct())
    known: dict[int, set[int]] = defaultdict(set)
    for budget, threshold in BudgetAlert.objects.filter(month=month).values_list("budget", "threshold"):
        known[budget].add(threshold)
    for standing in standings_of(projects=projects, zone=zone, now=now):
        passed = [t for t in standing.budget.thresholds if standing.percent >= t]
        if missed := {t for t in known[standing.budget.pk] if t > standing.percent}:
            BudgetAlert.objects.filter(budget=standing.budget, month=month, threshold__in=missed).delete()
        for threshold in passed:
            with transaction.atomic():
                _alert, new = BudgetAlert.objects.get_or_create(
                    budget=standing.budget, month=month, threshold=threshold, defaults={"told_at": now}
                )
                # Only the highest is told when several are passed at once.
                if new and threshold == passed[-1]:
                    _tell(standing, month, threshold, now=now)
                    told += 1
    return told


def why_blocked(*, project: Project, zone: tzinfo, now: datetime) -> str:
    """Why the project may ask for nothing more this month; "" = it may. The one hook for
    `claims.asks.judging`."""
    if not Budget.objects.filter(project=project, blocks=True).exists():
        return ""
    for standing in standings(project=project, zone=zone, now=now):
        if standing.budget.blocks and standing.spent_up:
            return _(
                "The project's budget of this month is spent: %(spent)s of %(budget)s %(currency)s. Its "
                "leads can raise it."
            ) % {
                "spent": standing.forecast.rounded_spent,
                "budget": standing.budget.amount,
                "currency": standing.budget.currency,
            }
    return ""


def _tell(standing: Standing, month: str, threshold: int, *, now: datetime) -> None:
    budget = standing.budget
    leads = Membership.objects.filter(project=budget.project, role=Membership.Role.LEAD)
    tell(
        people=[membership.user for membership in leads.select_related("user")],
        kind=Kind.QUOTA,
        subject=Text(
            gettext_noop("%(project)s has spent %(percent)s %% of its budget for %(month)s."),
            project=budget.project.name,
            percent=standing.percent,
            month=month,
        ),
        url=reverse("budget", args=[budget.project.slug]),
        now=now,
        project=budget.project,
        # Another budget is another message; the same is none, whatever was credited in between.
        key=f"budget:{budget.pk}:{month}:{threshold}:{budget.minor}",
        facts={"month": month, "percent": standing.percent, "threshold": threshold},
    )


def _spent_and_expected(
    of: Sequence[int], *, start: datetime, end: datetime, zone: tzinfo, now: datetime, prices: PriceList
) -> tuple[dict[_Account, Fraction], dict[_Account, Fraction]]:
    """What some projects' month [start, end) comes to, up to now and at its end: what is used, and the fixed
    amounts that their statements of it have (credit notes, corrections, idle time passed on)."""
    fixed: dict[_Account, Fraction] = {}
    rows = Charge.objects.filter(fixed__isnull=False, month=str(Month.of(start, zone)), project__in=of)
    for project, currency, amount in rows.order_by().values_list("project_id", "currency", "fixed"):
        fixed[project, currency] = fixed.get((project, currency), Fraction(0)) + Fraction(amount or 0)
    told = []
    for at in (now, end):
        used = _by_project(charges(start=start, end=end, now=at, projects=of, prices=prices))
        told.append({key: used.get(key, Fraction(0)) + fixed.get(key, Fraction(0)) for key in used | fixed})
    return told[0], told[1]


def _by_project(told: Statement) -> dict[_Account, Fraction]:
    sums: dict[_Account, Fraction] = {}
    for line in told.lines:
        if line.exact is not None:
            key = line.project_id, line.currency
            sums[key] = sums.get(key, Fraction(0)) + line.exact
    return sums


def _told(budget: Budget) -> dict[str, object]:
    return {
        "amount": str(budget.amount),
        "currency": budget.currency,
        "thresholds": budget.thresholds,
        "blocks": budget.blocks,
    }
