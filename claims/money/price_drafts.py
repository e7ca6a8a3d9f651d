"""Price books while they are written: drafts, what they would have changed in a past month; publishing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from claims.models import PriceBook, PriceDraft
from claims.money import price_books
from claims.money.books import PriceList, Profiles, price_list, stored_book
from claims.money.charges import charges
from claims.money.price_terms import Terms, document_of, read_terms, tidied
from claims.money.pricing import Statement
from portal.accounts import audit
from portal.accounts.models import Project, User


class UnableToChangeDraft(Exception):
    """The draft stays as it is; `message` says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def create_draft(*, based_on: PriceBook | None, actor: User, now: datetime) -> PriceDraft:
    """A new draft: a copy of a book, or empty."""
    document = tidied({"currency": "EUR"})
    if based_on is not None:
        book = stored_book(based_on, Profiles())
        slugs = dict(Project.objects.values_list("pk", "slug"))
        document = tidied(document_of(book, note="", slugs=slugs))
    with transaction.atomic():
        draft = PriceDraft.objects.create(document=document, created_at=now, changed_at=now, changed_by=actor)
        audit.record(
            now=now,
            actor=actor,
            action="pricedraft.create",
            target=draft,
            after={"based_on": based_on.name if based_on else ""},
        )
    return draft


def save_draft(
    *, draft: PriceDraft, document: Mapping[str, Any], seen_version: int, actor: User, now: datetime
) -> None:
    """Keep what was typed, right or not. Raises UnableToChangeDraft when somebody saved it meanwhile."""
    kept = tidied(document)
    with transaction.atomic():
        changed = PriceDraft.objects.filter(pk=draft.pk, version=seen_version).update(
            document=kept, version=seen_version + 1, changed_at=now, changed_by=actor
        )
        if changed != 1:
            raise UnableToChangeDraft(_("Somebody else has saved this draft meanwhile. Open it again."))
        draft.refresh_from_db()
        audit.record(
            now=now,
            actor=actor,
            action="pricedraft.change",
            target=draft,
            after={section: len(kept[section]) for section in ("prices", "rules", "discounts")},
        )


def discard_draft(*, draft: PriceDraft, actor: User, now: datetime) -> None:
    """Throw it away."""
    with transaction.atomic():
        audit.record(
            now=now, actor=actor, action="pricedraft.discard", target=draft, before={"draft": draft.pk}
        )
        draft.delete()


def publish_draft(
    *,
    draft: PriceDraft,
    valid_from: datetime,
    seen_version: int,
    actor: User,
    now: datetime,
    source_ip: str | None = None,
) -> PriceBook:
    """Make it a book that holds from then on. Raises UnableToPrice, UnableToAddBook, UnableToChangeDraft."""
    with transaction.atomic():
        row = PriceDraft.objects.select_for_update().filter(pk=draft.pk, version=seen_version).first()
        if row is None:
            raise UnableToChangeDraft(_("This draft has changed since you looked at its effect."))
        book = price_books.publish(
            terms=read_terms(row.document), valid_from=valid_from, now=now, actor=actor, source_ip=source_ip
        )
        row.delete()
    return book


# --- the effect -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Difference:
    """What a project (None = nobody known) paid for a period, and what it would have by other prices."""

    project: Project | None
    currency: str
    before: Decimal
    after: Decimal

    @property
    def more(self) -> Decimal:
        return self.after - self.before

    @property
    def percent(self) -> Decimal | None:
        """Of what it was; None where it was nothing."""
        return round(100 * self.more / self.before, 1) if self.before else None


@dataclass(frozen=True, kw_only=True)
class Effect:
    """By project, who would pay most more first. `unpriced` is the device-hours without a price, before and
    after."""

    start: datetime
    end: datetime
    rows: Sequence[Difference]
    unpriced_before: Decimal
    unpriced_after: Decimal

    @property
    def totals(self) -> Sequence[Difference]:
        """By currency, over all projects."""
        found: dict[str, Difference] = {}
        for row in self.rows:
            told = found.get(row.currency)
            found[row.currency] = Difference(
                project=None,
                currency=row.currency,
                before=row.before + (told.before if told else 0),
                after=row.after + (told.after if told else 0),
            )
        return [found[currency] for currency in sorted(found)]


def effect(*, terms: Terms, start: datetime, end: datetime, now: datetime) -> Effect:
    """What the use of a past period costs by the books of then, and by these terms alone."""
    before = charges(start=start, end=end, now=now, prices=price_list())
    tried = PriceList(books=(terms.book(valid_from=start),))
    after = charges(start=start, end=end, now=now, prices=tried)
    old, new = _by_project(before), _by_project(after)
    projects = Project.objects.in_bulk([pk for pk, _currency in old | new if pk is not None])
    rows = [
        Difference(
            project=projects[key[0]] if key[0] is not None else None,
            currency=key[1],
            before=old.get(key, Decimal(0)),
            after=new.get(key, Decimal(0)),
        )
        for key in old | new
    ]
    rows.sort(key=lambda row: (row.currency, -row.more, row.project.name if row.project else ""))
    return Effect(
        start=start,
        end=end,
        rows=rows,
        unpriced_before=_unpriced(before),
        unpriced_after=_unpriced(after),
    )


def _by_project(told: Statement) -> dict[tuple[int | None, str], Decimal]:
    sums: dict[tuple[int | None, str], Decimal] = {}
    for line in told.lines:
        if line.amount is not None:
            key = line.project_id, line.currency
            sums[key] = sums.get(key, Decimal(0)) + line.amount
    return sums


def _unpriced(told: Statement) -> Decimal:
    hours = sum((line.device_hours for line in told.lines if line.per_hour is None), start=0)
    return Decimal(round(hours * 100)).scaleb(-2)
