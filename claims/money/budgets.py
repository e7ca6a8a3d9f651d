"""Budgets of projects: how much of a month's is spent, what it will come to, whom to tell, and whether new
requests are refused.

The forecast is the simplest that can be told in a sentence: what was charged so far, and for the rest of the
month what is held now at its present rate. It is told as a forecast, with that sentence.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from decimal import Decimal
from fractions import Fraction

from django.db import transaction
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from claims.models import Budget, BudgetAlert
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
    spent = _exact(charges(start=start, end=end, now=now, projects=[project.pk], prices=prices))
    # What is held now is taken to be held until the end: to rate it as of then is to forecast it.
    expected = _exact(charges(start=start, end=end, now=end, projects=[project.pk], prices=prices))
    return {
        currency: Forecast(currency=currency, spent=spent.get(currency, Fraction(0)), expected=amount)
        for currency, amount in sorted(expected.items())
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
    prices, of = price_list(), sorted({row.project_id for row in found})
    spent, expected = (
        _by_project(charges(start=start, end=end, now=at, projects=of, prices=prices)) for at in (now, end)
    )
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
        money.exponent(currency)
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
    were told of."""
    month, told = str(Month.of(now, zone)), 0
    projects = list(Project.objects.filter(budgets__isnull=False, archived_at=None).distinct())
    for standing in standings_of(projects=projects, zone=zone, now=now):
        passed = [t for t in standing.budget.thresholds if standing.percent >= t]
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
        key=f"budget:{budget.pk}:{month}:{threshold}",
        facts={"month": month, "percent": standing.percent, "threshold": threshold},
    )


def _exact(told: Statement) -> dict[str, Fraction]:
    sums: dict[str, Fraction] = {}
    for line in told.lines:
        if line.exact is not None:
            sums[line.currency] = sums.get(line.currency, Fraction(0)) + line.exact
    return sums


def _by_project(told: Statement) -> dict[tuple[int | None, str], Fraction]:
    sums: dict[tuple[int | None, str], Fraction] = {}
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
