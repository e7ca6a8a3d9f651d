"""What one report ends and begins. Pure: what is open and what is seen in, what to write down out.

A report is complete for its node. What it has and was open goes on; what it has and was not open begins,
somewhere after the report before; what it lacks has ended, somewhere after it was last seen. After a silence
nobody looked in between, so even what is seen again is a stretch of its own: whether it was the same all the
time, the desk does not guess.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from inventory.podresources.sightings import Key, Names, PodKnown, Sighting


@dataclass(frozen=True, kw_only=True)
class Open:
    """A stretch that the report before had. `uid` is "" where its Pod is not known."""

    uid: str
    first_seen_at: datetime


@dataclass(frozen=True, kw_only=True)
class Ended:
    """It was there until `last_seen_at`, and no longer at `gone_at`; None: nobody looked any more."""

    last_seen_at: datetime
    gone_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Begun:
    """It was not there at `earliest_at` (None: nobody looked before), and is there now."""

    sighting: Sighting
    uid: str
    earliest_at: datetime | None


@dataclass(frozen=True)
class Turn:
    """What changes. Of what goes on, only whose Pod is known now."""

    ended: Mapping[Key, Ended] = field(default_factory=dict)
    begun: Sequence[Begun] = ()
    named: Mapping[Key, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Before:
    """What is known of the time up to this report. `reported_at`: when the last report was made; `same_until`
    until when what it said was looked at and found unchanged (at least `reported_at`); `silent`: so long ago
    that nothing is known of the time between."""

    reported_at: datetime
    same_until: datetime
    silent: bool


def turn(
    *,
    open_now: Mapping[Key, Open],
    seen: Iterable[Sighting],
    pods: Names,
    before: Before | None,
    at: datetime,
) -> Turn:
    """What a report that was made at `at` changes. `before` None: it is the first. `pods` are those that the
    mirror has on the node; `at` is not before `before.same_until`."""
    told = {sighting.key: sighting for sighting in seen}
    ended: dict[Key, Ended] = {}
    begun: list[Begun] = []
    named: dict[Key, str] = {}
    if before is not None:
        for key in open_now.keys() - told.keys():
            left, known = open_now[key], pods.get((key.namespace, key.pod))
            other = known is not None and left.uid not in ("", known.uid)
            last = _until_at_most(before, known) if other else before.same_until
            ended[key] = Ended(last_seen_at=_not_before_start(left, last), gone_at=at)
    for key, sighting in sorted(told.items(), key=lambda pair: pair[0]):
        known = pods.get((sighting.namespace, sighting.pod))
        uid = _uid(sighting, known, at=at)
        was = open_now.get(key)
        if was is None or before is None:
            earliest = before.same_until if before is not None and not before.silent else None
            begun.append(Begun(sighting=sighting, uid=uid, earliest_at=earliest))
        elif _is_another(was, uid, known):
            last = _not_before_start(was, _until_at_most(before, known))
            ended[key] = Ended(last_seen_at=last, gone_at=at)
            begun.append(Begun(sighting=sighting, uid=uid, earliest_at=last))
        elif before.silent:
            ended[key] = Ended(last_seen_at=_not_before_start(was, before.same_until), gone_at=None)
            begun.append(Begun(sighting=sighting, uid=uid or was.uid, earliest_at=None))
        elif uid and not was.uid:
            named[key] = uid
    return Turn(ended=ended, begun=begun, named=named)


def _uid(sighting: Sighting, known: PodKnown | None, *, at: datetime) -> str:
    """Whose Pod of that name it is; "" where the mirror has none, has another one than the source tells, or
    has one that was made after the source looked."""
    if known is None or (sighting.pod_uid and sighting.pod_uid != known.uid):
        return ""
    return known.uid if known.created_at is None or known.created_at <= at else ""


def _is_another(was: Open, uid: str, known: PodKnown | None) -> bool:
    """Whether the Pod that is seen is not the one that was, though its name is the same."""
    if not uid or known is None:
        return False
    if was.uid:
        return uid != was.uid
    return known.created_at is not None and known.created_at > was.first_seen_at


def _until_at_most(before: Before, known: PodKnown | None) -> datetime:
    """Until when the former Pod was surely the one that was seen: reports that merely said the same again
    could mean the new one, which did not exist before it was made."""
    if known is None or known.created_at is None:
        return before.reported_at
    return min(before.reported_at, known.created_at)


def _not_before_start(was: Open, moment: datetime) -> datetime:
    return max(was.first_seen_at, moment)
