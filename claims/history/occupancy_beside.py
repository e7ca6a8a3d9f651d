"""What the chart of occupancy leaves out, as it is now: partitions, which are alternatives to the device that
they are cut from, and units that Device Plugins count without naming them. So that nobody takes the chart for
all there is."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, Q, Sum
from django.utils.translation import gettext_lazy as _
from django_stubs_ext import StrOrPromise

from inventory.models import CountedUnits, Device
from inventory.products import PARTITION


@dataclass(frozen=True, kw_only=True)
class Beside:
    """Of one product; `held` None = not known."""

    kind: StrOrPromise
    product: str
    total: int
    held: int | None


def beside(*, cluster: str = "", product: str = "") -> Sequence[Beside]:
    """Partitions and counted units of one cluster (by name) or of all, by product; two queries."""
    there = Q(cluster__enabled=True) & (Q(cluster__name=cluster) if cluster else Q())
    parts = Device.objects.filter(there, profile__kind=PARTITION).order_by("profile__product")
    units = CountedUnits.objects.filter(there, capacity__gt=0).order_by("product", "resource")
    if product:
        parts, units = parts.filter(profile__product=product), units.filter(product=product)
    held = Count("pk", filter=Q(state__in=(Device.State.HELD, Device.State.PARTLY)))
    found = [
        Beside(kind=_("partitions"), product=name or driver, total=total, held=taken)
        for name, driver, total, taken in parts.values_list("profile__product", "profile__driver").annotate(
            total=Count("pk"), taken=held
        )
    ]
    counted = units.values_list("product", "resource").annotate(
        total=Sum("capacity"), taken=Sum("used"), rows=Count("pk"), told=Count("used")
    )
    return found + [
        Beside(
            kind=_("units of a Device Plugin"),
            product=name or resource,
            total=total,
            held=taken if told == rows else None,
        )
        for name, resource, total, taken, rows, told in counted
    ]
