"""What a change of a request would come to: read by the rules of the form, and held against what is."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils.translation import gettext as _

from claims.asks.again import values_of
from claims.asks.judging import understand
from claims.asks.reading import WHOLE, WrongValues
from claims.asks.values import Ask, UnableToSubmit
from claims.models import Request, RequestChange
from claims.money.budget_guard import refuse_spent
from claims.quotas import guard as quotas_guard
from portal.accounts.models import User

HOUR = timedelta(hours=1)
# What can change, in the order in which it is told; the first two need another object on the cluster.
REPLACING = ("count", "min_memory")
FIELDS = (*REPLACING, "duration_hours", "purpose")
# Names of the form, and what they are called here.
TYPED = {"count": "count", "min_memory": "min_memory", "duration": "duration_hours", "purpose": "purpose"}


class UnableToChangeRequest(WrongValues):
    """Nothing was changed. `errors` maps field names (or WHOLE) to messages for people."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a change would come to."""

    ask: Ask
    current: Mapping[str, Any]
    wanted: Mapping[str, Any]

    @property
    def replaces(self) -> bool:
        """Whether the cluster needs another object for it."""
        return any(name in self.wanted for name in REPLACING)

    @property
    def more(self) -> bool:
        """Whether it takes something from others, so that somebody may have to agree."""
        longer = self.wanted.get("duration_hours", 0) > self.current.get("duration_hours", 0)
        return longer or self.replaces


def read_wanted(
    request: Request,
    values: Mapping[str, object],
    *,
    user: User,
    now: datetime,
    release: str,
    errors: dict[str, list[str]],
) -> Wanted | None:
    """What would be different, read by the rules of the form; None, and messages in `errors`, where it makes
    no sense. `release` says when the request gives its devices back, if another takes its place."""
    typed = {name: values[name] for name in TYPED if values.get(name) not in (None, "")}
    if "min_memory" in values and values.get("min_memory") == "" and request.min_memory:
        # Emptied on purpose: any will do.
        typed["min_memory"] = ""
    if "duration" in typed:
        typed["duration_unit"] = values.get("duration_unit") or "hours"
    try:
        found = understand({**values_of(request), **typed}, user=user, now=now)
    except UnableToSubmit as error:
        for name, said in error.errors.items():
            errors.setdefault(name if name in TYPED else WHOLE, []).extend(said)
        return None
    before, after = _facts_of(request), _facts(found)
    changed = [name for name in FIELDS if before[name] != after[name]]
    if not changed:
        errors.setdefault(WHOLE, []).append(_("Nothing would change."))
        return None
    wanted = Wanted(
        ask=found,
        current={name: before[name] for name in changed},
        wanted={name: after[name] for name in changed},
    )
    try:
        # What takes nothing more is never refused, however little is left: it may be what makes room.
        if wanted.replaces:
            _within_quotas(request, found, release, now=now)
        if wanted.more:
            refuse_spent(request.project, now=now)
    except UnableToSubmit as error:
        for name, said in error.errors.items():
            errors.setdefault(name if name in TYPED else WHOLE, []).extend(said)
        return None
    began = request.allocated_at or now
    if "duration_hours" in changed and not wanted.replaces and began + found.duration <= now:
        errors.setdefault("duration", []).append(
            _("It would be over already; release it if you need it no more.")
        )
        return None
    return wanted


def place_of(request: Request, release: str) -> dict[str, Request]:
    """What a request that takes the place of `request` counts beside, in the words of `claims.quotas.guard`:
    what only waits for a decision is asked for otherwise; what gives its devices back does so when the other
    has its own; what is kept until a person releases it counts besides."""
    if request.state == Request.State.WAITING_FOR_APPROVAL:
        return {"amended": request}
    return {"replaced": request} if release == RequestChange.Release.WHEN_SERVED else {}


def _within_quotas(request: Request, found: Ask, release: str, *, now: datetime) -> None:
    beside = place_of(request, release)
    try:
        quotas_guard.refuse_early(found, now=now, **beside)
    except UnableToSubmit as error:
        if beside or not _fits_in_its_place(request, found, now=now):
            raise
        hint = _(
            "Both count as long as both are kept: it is within the quota if the present request gives its "
            "devices back as soon as the new one has its own."
        )
        raise UnableToSubmit({name: [*said, hint] for name, said in error.errors.items()}) from error


def _fits_in_its_place(request: Request, found: Ask, *, now: datetime) -> bool:
    try:
        quotas_guard.refuse_early(found, now=now, replaced=request)
    except UnableToSubmit:
        return False
    return True


def as_typed(wanted: Mapping[str, Any]) -> dict[str, str]:
    """What a change comes to, in the names of the form."""
    named = {kept: typed for typed, kept in TYPED.items()}
    typed = {named[name]: str(value) for name, value in wanted.items()}
    return typed | ({"duration_unit": "hours"} if "duration_hours" in wanted else {})


def whole(message: str) -> UnableToChangeRequest:
    return UnableToChangeRequest({WHOLE: [message]})


def _facts_of(request: Request) -> dict[str, Any]:
    return {
        "count": request.count,
        "min_memory": request.min_memory,
        "duration_hours": request.duration // HOUR,
        "purpose": request.purpose,
    }


def _facts(ask: Ask) -> dict[str, Any]:
    return {
        "count": ask.count,
        "min_memory": ask.min_memory,
        "duration_hours": ask.duration // HOUR,
        "purpose": ask.purpose,
    }
