"""Numbers of Prometheus as people read them."""

from django import template
from django.utils.translation import gettext as _

from inventory.models import MetricQuery
from inventory.telemetry import showing
from inventory.telemetry.problems import Problem
from portal.templatetags.ui import number

register = template.Library()
UNITS = MetricQuery.Unit


@register.filter
def measured(value: float, unit: str) -> str:
    """With its unit: "2", "0.25 s", "3.1 per hour", "37 %"."""
    if unit == UNITS.SECONDS:
        if 0 < abs(value) < 1:
            return _("%(n)s ms") % {"n": _short(1000 * value)}
        return _("%(n)s s") % {"n": _short(value)}
    if unit == UNITS.PER_HOUR:
        return _("%(n)s per hour") % {"n": _short(value)}
    if unit == UNITS.PERCENT:
        return _("%(n)s %%") % {"n": _short(value)}
    return _short(value)


def _short(value: float) -> str:
    """Three digits that count."""
    if value == int(value) and abs(value) < 1e15:
        return str(number(int(value)))
    if abs(value) >= 1e6 or abs(value) < 1e-3:
        return f"{value:.3g}"
    places = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return str(number(round(value, places), places))


@register.filter
def title_of(query: MetricQuery) -> str:
    """How a query is called, in the reader's language."""
    return showing.title_of(query)


@register.filter
def problem_of(query: MetricQuery) -> Problem | None:
    """What is wrong with a query, in the reader's language."""
    return Problem.read(query.problem)
