"""Quotas as pages and REST tell them: with what is used, asked for and left."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from django.utils.formats import number_format

from claims.models import Quota
from claims.quotas.facts import gather
from claims.quotas.guard import what_of
from claims.quotas.standing import Standing
from claims.quotas.words import amount, terms_of
from portal.accounts.models import Project


@dataclass(frozen=True, kw_only=True)
class Row:
    """A quota with how its project stands to it. `standing` None: it does not hold (any more, or yet)."""

    quota: Quota
    standing: Standing | None

    @property
    def what(self) -> str:
        return what_of(self.quota)

    @property
    def limit(self) -> str:
        return self.amount(terms_of(self.quota).limit)

    @property
    def used(self) -> str:
        """Of devices the bare number: the limit beside it says what they are."""
        if self.standing is None:
            return ""
        used = self.standing.used
        if self.quota.kind == Quota.Kind.DEVICES and used is not None:
            return number_format(int(used))
        return self.amount(used)

    @property
    def asked(self) -> str:
        return self.amount(self.standing.asked) if self.standing and self.standing.asked else ""

    @property
    def left(self) -> str:
        return self.amount(self.standing.left) if self.standing else ""

    @property
    def unseen(self) -> str:
        """Device-hours that may have been used besides."""
        unseen = self.standing.unseen if self.standing else Fraction(0)
        return amount(unseen, kind=Quota.Kind.HOURS) if unseen else ""

    @property
    def over(self) -> bool:
        return self.standing is not None and self.standing.over

    @property
    def full(self) -> bool:
        """Nothing is left, without being over."""
        return self.standing is not None and not self.over and not self.standing.left

    @property
    def percents(self) -> tuple[str, str, str]:
        """Widths of the bar: what is used, where what is asked for begins (the same), and how wide that is.
        Of the limit, or of all that is taken, whichever is more."""
        if self.standing is None:
            return ("0", "0", "0")
        whole = max(self.standing.limit, self.standing.taken)
        if not whole:
            # Nothing is allowed, and nothing is taken: there is nothing to be drawn.
            return ("0", "0", "0")
        used = f"{float(100 * (self.standing.used or 0) / whole):.2f}"
        return (used, used, f"{float(100 * self.standing.asked / whole):.2f}")

    def amount(self, value: Fraction | None) -> str:
        return amount(value, kind=self.quota.kind, currency=self.quota.currency)


def rows(quotas: Sequence[Quota], *, now: datetime) -> list[Row]:
    """Quotas (with project and flavor) in their order; a fixed number of queries."""
    holding = [quota for quota in quotas if holds(quota, now)]
    gathered = gather(holding, now=now) if holding else None
    keys = {quota.pk for quota in holding}
    return [
        Row(quota=quota, standing=gathered.standing(quota) if gathered and quota.pk in keys else None)
        for quota in quotas
    ]


def rows_of(projects: Collection[Project], *, now: datetime) -> list[Row]:
    """The quotas that hold for projects now."""
    quotas = Quota.objects.filter(project__in=projects).holding(now).select_related("project", "flavor")
    return rows(list(quotas.order_by("project__name", "flavor__name", "kind", "pk")), now=now)


def holds(quota: Quota, now: datetime) -> bool:
    return quota.valid_from <= now and (quota.valid_until is None or quota.valid_until > now)
