"""The bars of an allocation timeline as JSON: a window of time, as fine as the screen that asks."""

from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest, JsonResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from claims.history.curves import moment, us
from claims.history.intervals import HistoryFilter, parse_moment
from claims.history.timeline import DEVICE, LANES_BY, Lane, Timeline, held_time, timeline
from portal.access import person
from portal.templatetags.ui import human_duration

LONGEST = timedelta(days=3 * 366)
DEFAULT = timedelta(days=7)
# What the finest bar stands for: a part of the window, but never less than a second.
FINEST_PARTS = 4_000
SECOND = 1_000_000


@require_safe
def timeline_bars(request: HttpRequest) -> JsonResponse:
    """Lanes and bars of [start, end), for `static/timeline.js`; narrowed like the history.

    Times are whole milliseconds since 1970. A window that cannot be read is refused (400).
    """
    now = timezone.now()
    try:
        start, end = _window(request, now)
    except ValueError as error:
        return JsonResponse({"error": str(error)}, status=400)
    by = request.GET.get("by", DEVICE)
    told = timeline(
        wanted=HistoryFilter.parse(request.GET),
        start=start,
        end=end,
        now=now,
        viewer=person(request),
        by=by if by in LANES_BY else DEVICE,
        resolution=max(us(end) - us(start), SECOND * FINEST_PARTS) // FINEST_PARTS,
    )
    response = JsonResponse(_told(told))
    response["Cache-Control"] = "private, no-store"
    return response


def _window(request: HttpRequest, now: datetime) -> tuple[datetime, datetime]:
    end = parse_moment(request.GET.get("end", "")) or now
    start = parse_moment(request.GET.get("start", "")) or end - DEFAULT
    if start >= end:
        raise ValueError(_("The end must be later than the beginning."))
    if end - start > LONGEST:
        raise ValueError(_("At most three years at once."))
    return start, end


def _told(told: Timeline) -> dict[str, Any]:
    """Columns rather than objects: ten thousand bars are a few hundred kilobytes then."""
    projects = {pk: index for index, pk in enumerate(told.projects)}
    bars = [(index, bar) for index, lane in enumerate(told.lanes) for bar in lane.bars]
    return {
        "start": _ms(told.start),
        "end": _ms(told.end),
        "now": _ms(told.now),
        "projects": [project.name for project in told.projects.values()],
        "lanes": [_lane(lane, told) for lane in told.lanes],
        "bars": {
            "lane": [index for index, _bar in bars],
            "start": [_ms(bar.start) for _index, bar in bars],
            "end": [None if bar.end is None else _ms(bar.end) for _index, bar in bars],
            # -1 = of nobody known, or of several.
            "project": [-1 if bar.project is None else projects[bar.project] for _index, bar in bars],
            "claim": [bar.claim if bar.many == 1 else "" for _index, bar in bars],
            "many": [bar.many for _index, bar in bars],
            "unsure": [_ms(bar.uncertainty) for _index, bar in bars],
        },
        "note": _note(told),
    }


def _lane(lane: Lane, told: Timeline) -> dict[str, Any]:
    held = held_time(lane, start=told.start, end=told.end, now=told.now)
    about = (part for part in (lane.note, lane.node, lane.cluster) if part and part != lane.name)
    return {
        "name": lane.name or _("unattributed"),
        # What devices of one name are told apart by.
        "place": lane.node if lane.node != lane.name else "",
        "note": " · ".join(about),
        "held": human_duration(held / SECOND),
        "blanks": [[_ms(start), _ms(end)] for start, end in lane.blanks],
    }


def _note(told: Timeline) -> str:
    """What is not shown, in words; "" = nothing is left out."""
    if told.cut:
        begin = timezone.localtime(moment(min(bar.start for lane in told.lanes for bar in lane.bars)))
        return _("Too much at once: only what began since %(time)s is shown. Zoom in, or narrow it.") % {
            "time": f"{begin:%Y-%m-%d %H:%M}"
        }
    if left := told.lane_count - len(told.lanes):
        return ngettext(
            "%(n)s more row is left out: narrow it.", "%(n)s more rows are left out: narrow it.", left
        ) % {"n": left}
    return ""


def _ms(microseconds: int) -> int:
    return microseconds // 1_000
