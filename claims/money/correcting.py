"""What is learnt of a month after it was closed: the difference, as charges in the payer's next open month
that refer to what they correct. What was closed is only read.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction

from django.db.models import QuerySet

from claims.models import Charge, Statement
from claims.money.months import Month
from claims.money.rating import CONTENT, content_of
from claims.money.removing import remove, spoken_of
from portal.sql import chunks

AT_ONCE = 1_000
# What a correction says itself; all else is as in what it corrects.
_OWN = ("kind", "month", "fixed", "origin_id", "note", "list_micros", "discount_micros", "rule")
_CORRECTED = (Charge.Kind.USAGE, Charge.Kind.IDLE)
# What tells the charges of one kind and month apart: source, start, payer.
Key = tuple[str, int, int | None]
# What is corrected as one: source, payer, currency.
_Account = tuple[str, int | None, str]


def closed_from(month: Month) -> set[tuple[int | None, str]]:
    """Payer and month of the statements that are closed, of that month and later ones. Who writes by
    it asks after `shutting.write_alone`."""
    closed = Statement.objects.filter(state=Statement.State.CLOSED, month__gte=str(month))
    return set(closed.values_list("project_id", "month"))


def corrections_of(month: Month) -> QuerySet[Charge]:
    """What was corrected of a month, in later ones. By the month that they name: the organisation's zone, and
    with it the bounds of months, may change."""
    return Charge.objects.filter(kind=Charge.Kind.CORRECTION, month__gt=str(month), note=str(month))


def correct(
    *,
    month: Month,
    closed: Collection[tuple[int | None, str]],
    frozen: Mapping[Key, tuple[int, str]],
    late: Mapping[Key, Charge],
    sources: Iterable[str],
) -> int:
    """Write the difference between what was closed (`frozen`: primary key and content) and what it should
    have been (`late`), per source, payer and currency, into the payer's next open month; how many corrections
    became others. `sources` are all that `late` tells of, and of what is no more those that are to be looked
    at. Doing it again writes nothing; what no closed month has yet of a correction is replaced, not added to.
    `closed` was read in this transaction, which is alone."""
    told: dict[_Account, list[Charge]] = defaultdict(list)
    for chunk in chunks(sorted(sources), AT_ONCE):
        for row in corrections_of(month).filter(source__in=chunk):
            told[row.source, row.project_id, row.currency].append(row)
    # What is the same as when it was closed, and was never corrected, comes to no difference.
    before = {key: content for key, (_pk, content) in frozen.items()}
    differing = before.items() ^ {(key, charge.content) for key, charge in late.items()}
    doubtful = {key[0] for key, _content in differing} | {source for source, _payer, _currency in told}
    if not doubtful:
        return 0
    old: dict[_Account, Fraction] = defaultdict(Fraction)
    new: dict[_Account, Fraction] = defaultdict(Fraction)
    first: dict[_Account, Charge] = {}
    pks = [pk for key, (pk, _content) in frozen.items() if key[0] in doubtful]
    shoulds = [charge for key, charge in late.items() if key[0] in doubtful]
    for charges, sums in ((_stored(pks), old), (shoulds, new)):
        for charge in charges:
            key = charge.source, charge.project_id, charge.currency
            sums[key] += charge.amount() or 0
            first.setdefault(key, charge)
    keys = old.keys() | new.keys() | told.keys()
    priced = Counter((source, payer) for source, payer, currency in keys if currency)
    return sum(
        _one_correction(
            key, new[key] - old[key], first.get(key), told[key],
            month=month, closed=closed, apart=_apart(key[2]) if priced[key[:2]] > 1 else 0,
        )
        for key in keys
    )  # fmt: skip


def _apart(currency: str) -> int:
    """Microseconds by which corrections of one use in several currencies begin apart: what begins at the same
    instant would be the same charge."""
    told = 0
    for letter in currency:
        told = told * 32 + ord(letter) % 32
    return told


def _one_correction(
    key: _Account,
    difference: Fraction,
    first: Charge | None,
    told: Sequence[Charge],
    *,
    month: Month,
    closed: Collection[tuple[int | None, str]],
    apart: int,
) -> bool:
    """Whether it became another."""
    kept = sum((row.fixed or 0 for row in told if row.closed), start=Fraction(0))
    pending = [row for row in told if not row.closed]
    difference -= kept
    if sum((row.fixed or 0 for row in pending), start=Fraction(0)) == difference:
        return False
    if first is None:
        first = told[0]
    pks = {row.pk for row in pending}
    # What is disputed becomes another, and stays what is disputed.
    same = min(spoken_of(pks), default=None) if difference else None
    remove(pks - {same})
    if not difference:
        return True
    billed = month.next()
    while (key[1], str(billed)) in closed:
        billed = billed.next()
    values = {name: getattr(first, name) for name in CONTENT if name not in _OWN}
    charge = Charge(
        **values,
        pk=same,
        kind=Charge.Kind.CORRECTION,
        month=str(billed),
        fixed=difference,  # type: ignore[misc] # the field takes fractions
        origin_id=first.pk if first.kind in _CORRECTED else first.origin_id,
        note=str(month),
    )
    if first.kind in _CORRECTED:
        charge.started_us += apart
        charge.ended_us = max(charge.started_us, charge.ended_us)
    charge.content = content_of(charge)
    charge.save()
    return True


def _stored(pks: Sequence[int]) -> list[Charge]:
    """In order of time."""
    found = [charge for chunk in chunks(pks, AT_ONCE) for charge in Charge.objects.filter(pk__in=chunk)]
    return sorted(found, key=lambda charge: (charge.started_us, charge.pk))
