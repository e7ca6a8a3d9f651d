"""Charts: how busy devices were, how long claims waited, what projects cost month by month."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_safe
from django_stubs_ext import StrOrPromise

from claims.history.curves import Grid, Level
from claims.history.occupancy import Occupancy, mean, occupancy
from claims.history.occupancy_beside import beside
from claims.money.monthly import MonthlyCost, monthly_costs
from claims.money.months import zone_named
from claims.waiting.claims import ALLOCATED, BOUNDS, GONE, WAITING, Waits, waits
from inventory.filters import clean_text
from inventory.models import Cluster
from portal import access, htmx
from portal.pages.charts_figures import Figure, Row, Series, Value
from portal.templatetags.ui import UNKNOWN, human_duration, money, number

DAY = timedelta(days=1)
# Name in the address → how it is called, its length, its buckets.
RANGES: Mapping[str, tuple[StrOrPromise, timedelta, timedelta]] = {
    "day": (gettext_lazy("day"), DAY, timedelta(minutes=15)),
    "week": (gettext_lazy("week"), 7 * DAY, timedelta(hours=2)),
    "month": (gettext_lazy("month"), 30 * DAY, timedelta(hours=6)),
}
DEFAULT_RANGE = "week"
STATES = (
    ("held", gettext_lazy("held")),
    ("free", gettext_lazy("free")),
    ("unavailable", gettext_lazy("unavailable")),
    ("unknown", gettext_lazy("unknown")),
)
OUTCOMES = (
    (ALLOCATED, "held", gettext_lazy("got a device")),
    (WAITING, "waiting", gettext_lazy("still wait")),
    (GONE, "unavailable", gettext_lazy("gave up")),
)
MONTHS = (6, 12, 24)
# Colours that a stacked bar can have before they can no longer be told apart; the rest is one more.
HUES = 8


@dataclass(frozen=True)
class ProductRow:
    """How busy devices of one product were on average."""

    product: str
    level: Level | None

    @property
    def parts(self) -> Mapping[str, float]:
        """The level with one decimal, where it has any."""
        rounded = {name: round(part, 1) for name, part in (self.level or Level())._asdict().items()}
        return {name: int(part) if part == int(part) else part for name, part in rounded.items()}

    @property
    def busy(self) -> float | None:
        """The held part of what could be had, in percent."""
        if self.level is None or not (usable := self.level.held + self.level.free):
            return None
        return 100 * self.level.held / usable


@require_safe
def occupancy_chart(request: HttpRequest) -> HttpResponse:
    """Held, free, unavailable, unknown over time; product, cluster and range are in the address."""
    now = timezone.now()
    wanted = _chosen(request, "product", "cluster")
    name = _range(request)
    _label, length, bucket = RANGES[name]
    told = occupancy(grid=Grid.until(now, length=length, bucket=bucket), now=now, cluster=wanted["cluster"])
    levels = told.levels(wanted["product"])
    context = {
        "wanted": wanted,
        "range": name,
        "ranges": _ranges(),
        "clusters": Cluster.objects.order_by("name").values_list("name", flat=True),
        "products": list(told.by_product),
        "rows": [ProductRow(product, mean(of)) for product, of in told.by_product.items()],
        "figure": _occupancy_figure(told, wanted["product"], name),
        "known": any(level is not None for level in levels),
        "beside": beside(cluster=wanted["cluster"], product=wanted["product"]),
    }
    return htmx.render(request, "pages/charts_occupancy.html", context, partial="chart")


@require_safe
def waiting_chart(request: HttpRequest) -> HttpResponse:
    """How long claims waited, by class or by product."""
    now = timezone.now()
    name = _range(request, default="month")
    by = "product" if request.GET.get("by") == "product" else "class"
    wanted = _chosen(request, "of")
    told = waits(start=now - RANGES[name][1], now=now, by_product=by == "product")
    chosen = told.get(wanted["of"]) if wanted["of"] else _together(told)
    context = {
        "wanted": wanted,
        "by": by,
        "range": name,
        "ranges": _ranges(),
        "groups": [
            {
                "name": group,
                "count": len(found.all),
                "waiting": found.count(WAITING),
                "gone": found.count(GONE),
                "half": found.within(0.5),
                "most": found.within(0.9),
            }
            for group, found in told.items()
        ],
        "chosen": chosen,
        "half": chosen.within(0.5) if chosen else None,
        "most": chosen.within(0.9) if chosen else None,
        "still": chosen.count(WAITING) if chosen else 0,
        "figure": _waiting_figure(chosen) if chosen else None,
    }
    return htmx.render(request, "pages/charts_waiting.html", context, partial="chart")


@require_safe
def cost_chart(request: HttpRequest) -> HttpResponse:
    """What projects cost, month by month: those that the reader may see."""
    now, user = timezone.now(), access.person(request)
    count = next((n for n in MONTHS if str(n) == request.GET.get("months")), MONTHS[0])
    told = monthly_costs(user=user, now=now, months=count, zone=zone_named(settings.ORGANISATION_ZONE))
    context = {
        "months": count,
        "choices": MONTHS,
        "figures": [_cost_figure(told, currency) for currency in told.currencies],
        "unpriced": told.unpriced,
        "sees_all": access.may_see_costs_of_all(user),
    }
    return htmx.render(request, "pages/charts_cost.html", context, partial="chart")


# --- the address ------------------------------------------------------------------------------------


def _chosen(request: HttpRequest, *names: str) -> dict[str, str]:
    return {name: clean_text(request.GET.get(name, "")) for name in names}


def _range(request: HttpRequest, *, default: str = DEFAULT_RANGE) -> str:
    name = request.GET.get("range", "")
    return name if name in RANGES else default


def _ranges() -> list[tuple[str, StrOrPromise]]:
    return [(name, label) for name, (label, _length, _bucket) in RANGES.items()]


# --- figures ----------------------------------------------------------------------------------------


def _occupancy_figure(told: Occupancy, product: str, name: str) -> Figure:
    rows = []
    for index, level in enumerate(told.levels(product)):
        begin = timezone.localtime(told.grid.begin(index))
        rows.append(
            Row(
                label=date_format(begin, "Y-m-d H:i"),
                tick=date_format(begin, "H:i" if name == "day" else "m-d H:i"),
                values=[_mean(level, state) for state, _label in STATES],
            )
        )
    return Figure(
        id="occupancy",
        label=_("Devices by state over time: %(product)s") % {"product": product or _("all products")},
        rows_are=_("From"),
        unit=_("devices"),
        series=[Series(label, state) for state, label in STATES],
        rows=rows,
        touching=True,
    )


def _mean(level: Level | None, state: str) -> Value:
    if level is None:
        return Value(None, UNKNOWN)
    value = getattr(level, state)
    return Value(value, number(value, 0 if value == round(value) else 1))


def _together(told: Mapping[str, Waits]) -> Waits | None:
    if not told:
        return None
    merged = Waits()
    for group in told.values():
        for wait in group.all:
            merged.add(wait)
    return merged


def _waiting_figure(told: Waits) -> Figure:
    names = [_bound_label(index) for index in range(len(BOUNDS) + 1)]
    return Figure(
        id="waiting",
        label=_("How long claims waited for their devices"),
        rows_are=_("Waited"),
        unit=_("claims"),
        series=[Series(label, tone) for _outcome, tone, label in OUTCOMES],
        rows=[
            Row(
                label=name,
                tick=name,
                values=[
                    Value(told.counts[outcome][index], number(told.counts[outcome][index]))
                    for outcome, _tone, _label in OUTCOMES
                ],
            )
            for index, name in enumerate(names)
        ],
        folded=False,
    )


def _bound_label(index: int) -> str:
    if index == 0:
        return _("under %(time)s") % {"time": human_duration(BOUNDS[0], 1)}
    if index == len(BOUNDS):
        return _("%(time)s or longer") % {"time": human_duration(BOUNDS[-1], 1)}
    return f"{human_duration(BOUNDS[index - 1], 1)} – {human_duration(BOUNDS[index], 1)}"


def _cost_figure(told: MonthlyCost, currency: str) -> Figure:
    payers = told.payers(currency)
    shown, rest = payers[:HUES], payers[HUES:]
    series = [
        Series(payer.name if payer else _("unattributed"), str(index) if payer else "unknown")
        for index, payer in enumerate(shown)
    ]
    if rest:
        name = ngettext("%(n)s more project", "%(n)s more projects", len(rest)) % {"n": len(rest)}
        series.append(Series(name, "unavailable"))

    def value(amount: Decimal | None) -> Value:
        return Value(None if amount is None else float(amount), money(amount, currency))

    def row(index: int, start: datetime) -> Row:
        start = start.astimezone(told.zone)
        label = date_format(start, "YEAR_MONTH_FORMAT")
        amounts = [told.amount(index, payer, currency) for payer in shown]
        if rest:
            others = [told.amount(index, payer, currency) for payer in rest]
            amounts.append(None if None in others else sum((a for a in others if a), Decimal(0)))
        return Row(label=label, tick=f"{start:%Y-%m}", values=[value(amount) for amount in amounts])

    return Figure(
        id=f"cost-{currency}",
        label=_("Cost by month and project in %(currency)s") % {"currency": currency},
        rows_are=_("Month (%(zone)s)") % {"zone": told.zone},
        unit=currency,
        series=series,
        rows=[row(index, start) for index, start in enumerate(told.starts)],
        folded=False,
    )
