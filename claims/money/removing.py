"""Charges that are none any more. What a dispute or a correction speaks of stays, and comes to nothing."""

from collections.abc import Collection
from fractions import Fraction

from django.db.models import Q

from claims.models import Charge
from claims.money.rating import content_of


def spoken_of(pks: Collection[int]) -> set[int]:
    """Those of some charges that a dispute or a correction names; asked with nobody else writing."""
    named = Q(disputes__isnull=False) | Q(followed_by__isnull=False)
    return set(Charge.objects.filter(named, pk__in=pks).values_list("pk", flat=True))


def remove(pks: Collection[int]) -> None:
    """Take them away, or let them come to nothing."""
    if not pks:
        return
    kept = spoken_of(pks)
    for charge in Charge.objects.filter(pk__in=kept):
        if charge.fixed is None:
            charge.ended_us = charge.started_us
        else:
            charge.fixed = Fraction(0)
        charge.content = content_of(charge)
        charge.save(update_fields=["ended_us", "fixed", "content"])
    Charge.objects.filter(pk__in=set(pks) - kept).delete()
