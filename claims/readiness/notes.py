"""The checklist of a cluster as a whole: what was seen, and what somebody signed for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django_stubs_ext import StrOrPromise

from claims.models import ReadinessNote
from claims.readiness.points import BY_CODE, POINTS, Point
from claims.readiness.seen import MET, NOTE, OPEN, UNKNOWN, Evidence
from inventory.models import Cluster
from portal.accounts import audit
from portal.accounts.models import User

SIGNED = "signed"
LABELS: Mapping[str, StrOrPromise] = {
    MET: gettext_lazy("seen"),
    SIGNED: gettext_lazy("signed for"),
    OPEN: gettext_lazy("open"),
    UNKNOWN: gettext_lazy("not known"),
    NOTE: gettext_lazy("wants a note"),
}
TONES: Mapping[str, str] = {MET: "good", SIGNED: "good", OPEN: "bad", UNKNOWN: "off", NOTE: "wait"}
MAX_NOTE = 1000


class UnableToSign(Exception):
    """`field` is the form field at fault, `message` says why, for people."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


@dataclass(frozen=True)
class Judged:
    """A point with what was seen and the latest word for it. What is seen to be open stays so, whatever is
    signed: the word stands beside it."""

    point: Point
    evidence: Evidence
    note: ReadinessNote | None

    @property
    def state(self) -> str:
        signed = self.note is not None and self.note.settled
        return SIGNED if signed and self.evidence.verdict in (NOTE, UNKNOWN) else self.evidence.verdict

    @property
    def label(self) -> str:
        return str(LABELS[self.state])

    @property
    def tone(self) -> str:
        return TONES[self.state]


def checklist(cluster: Cluster, *, now: datetime) -> list[Judged]:
    """All points in their order; the cluster itself is not asked."""
    latest: dict[str, ReadinessNote] = {}
    for note in ReadinessNote.objects.filter(cluster=cluster).select_related("person").order_by("at", "pk"):
        latest[note.point] = note
    return [Judged(point, point.judge(cluster, now), latest.get(point.code)) for point in POINTS]


def judged(cluster: Cluster, point: Point, *, now: datetime) -> Judged:
    """One point of the checklist, without the others."""
    notes = ReadinessNote.objects.filter(cluster=cluster, point=point.code).select_related("person")
    return Judged(point, point.judge(cluster, now), notes.order_by("at", "pk").last())


def history(cluster: Cluster, point: str) -> Sequence[ReadinessNote]:
    """All that was ever signed for a point, the newest first."""
    notes = ReadinessNote.objects.filter(cluster=cluster, point=point).select_related("person")
    return list(notes.order_by("-at", "-pk")[:50])


def sign(
    *,
    cluster: Cluster,
    point: str,
    note: str,
    settled: bool,
    user: User,
    now: datetime,
    source_ip: str | None = None,
) -> ReadinessNote:
    """Somebody's word for a point, or that it no longer holds. Raises UnableToSign."""
    if point not in BY_CODE:
        raise UnableToSign("point", _("The checklist has no such point."))
    if not note:
        raise UnableToSign("note", _("Say what was looked at, and what was found."))
    with transaction.atomic():
        made = ReadinessNote.objects.create(
            cluster=cluster, point=point, settled=settled, note=note, person=user, at=now
        )
        audit.record(
            now=now,
            actor=user,
            action="readiness.sign" if settled else "readiness.unsign",
            target=cluster,
            after={"point": point, "note": note},
            source_ip=source_ip,
        )
    return made


def document(cluster: Cluster, points: Sequence[Judged], *, now: datetime) -> dict[str, Any]:
    """The checklist as plain data, for REST and for a file."""
    return {
        "cluster": cluster.name,
        "as_of": now,
        "points": [
            {
                "code": judged.point.code,
                "title": str(judged.point.title),
                "asks": str(judged.point.asks),
                "state": judged.state,
                "seen": [line.text for line in judged.evidence.lines],
                "note": None
                if judged.note is None
                else {
                    "settled": judged.note.settled,
                    "note": judged.note.note,
                    "person": judged.note.person.get_username(),
                    "at": judged.note.at,
                },
            }
            for judged in points
        ],
    }


COLUMNS = ("point", "title", "state", "seen", "signed_by", "signed_at", "note")


def rows(points: Sequence[Judged]) -> list[tuple[object, ...]]:
    """The checklist as lines of a CSV, with `COLUMNS`."""
    return [
        (
            judged.point.code,
            str(judged.point.title),
            judged.state,
            " | ".join(line.text for line in judged.evidence.lines),
            judged.note.person.get_username() if judged.note else "",
            judged.note.at if judged.note else "",
            judged.note.note if judged.note else "",
        )
        for judged in points
    ]
