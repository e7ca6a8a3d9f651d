"""What holds for reports of nodes, of whatever sort: from whom, how often, and of which time they may be."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django_stubs_ext import StrOrPromise

from inventory.cdi.specs import clip

T = TypeVar("T")

MAX_REPORT_BYTES = 1024 * 1024
# Within it a node's clock may be off. Beyond, its times mean nothing: "older than" and "overdue" would lie.
MAX_SKEW = timedelta(minutes=5)
# A node that reports more often has something wrong with it.
MIN_GAP = timedelta(seconds=1)
# So many reports may fail to come, and so much time be lost on the way, before one is overdue.
MISSED = 2
WAY = timedelta(minutes=2)
# Not every database, and no calendar of ours, goes further.
YEARS = (1970, 2200)


class UnableToAccept(ValueError):
    """Why a report was refused: a stable `code`, a `message` for people, the HTTP status that fits."""

    def __init__(self, code: str, message: str, *, status: int = 422, wait: float | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.status, self.wait = code, message, status, wait


def decoded(body: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    """A body as the decoder's sort of report. Raises UnableToAccept for anything else."""
    if len(body) > MAX_REPORT_BYTES:
        raise UnableToAccept(
            "too_large",
            _("The report is larger than %(limit)s bytes.") % {"limit": MAX_REPORT_BYTES},
            status=413,
        )
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        message = _("This is no report: %(reason)s") % {"reason": clip(str(error))}
        raise UnableToAccept("malformed", message, status=400) from None
    except RecursionError:
        raise UnableToAccept(
            "malformed", _("This is no report: it is nested too deep."), status=400
        ) from None


def check_pause(received_at: datetime | None, *, now: datetime) -> None:
    """Raises UnableToAccept for a node whose last report is hardly here."""
    gap = now - received_at if received_at is not None else MIN_GAP
    if timedelta() <= gap < MIN_GAP:
        raise too_often()


def too_often() -> UnableToAccept:
    """For a node that reports before it should."""
    message = _("This node reported a moment ago.")
    return UnableToAccept("too_often", message, status=429, wait=MIN_GAP.total_seconds())


def check_sender(told: tuple[str, str], mine: tuple[str, str]) -> None:
    """Raises UnableToAccept if the (cluster, node) that a report is of is not that of the token."""
    if told != mine:
        message = _("This token is of another node: it writes the report of %(node)s only.")
        raise UnableToAccept("wrong_node", message % {"node": "/".join(mine)}, status=403)


def check_clock(sent_at: datetime, *, now: datetime) -> None:
    """Raises UnableToAccept for a report of another time."""
    skew = sent_at - now
    if abs(skew) > MAX_SKEW:
        code = "clock_ahead" if skew > timedelta() else "clock_behind"
        message = _(
            "The report says that it was sent %(seconds)s seconds away from the portal's time: the node's "
            "clock is wrong, or the report is an old one."
        )
        raise UnableToAccept(code, message % {"seconds": round(skew.total_seconds())})


def patience(interval: timedelta) -> timedelta:
    """After so much time without a report, of a node that reports within `interval`, one is overdue."""
    return MISSED * interval + WAY


# Refusals of what a report was sent with. They are noted when they begin, all others each time.
TOKEN_EXPIRED, TOKEN_REVOKED = "token_expired", "token_revoked"
OF_TOKENS = (TOKEN_EXPIRED, TOKEN_REVOKED)
# Of a refusal only its code is kept, for readers of any language.
_REFUSALS: Mapping[str, StrOrPromise] = {
    "clock_ahead": gettext_lazy("the node's clock is minutes ahead"),
    "clock_behind": gettext_lazy("the node's clock is minutes behind, or an old report was sent again"),
    "older_report": gettext_lazy("it was older than the one before"),
    "wrong_node": gettext_lazy("it was of another node"),
    "malformed": gettext_lazy("it could not be read"),
    "checksum": gettext_lazy("a file's text did not fit its checksum"),
    "too_large": gettext_lazy("it was too large"),
    TOKEN_EXPIRED: gettext_lazy("the token that it is sent with has expired"),
    TOKEN_REVOKED: gettext_lazy("the token that it is sent with was revoked"),
}


def refusal(code: str) -> str:
    """Why a report was refused, as the end of a sentence."""
    return str(_REFUSALS.get(code, code))


@dataclass(frozen=True)
class Refused:
    """How a node's reports fare, for people. `since`: all from then on are refused; else it was one, then."""

    at: datetime
    why: str
    since: bool


def refused(at: datetime | None, code: str) -> Refused | None:
    """From what a node's row says; None = its last report was accepted."""
    return Refused(at, refusal(code), code in OF_TOKENS) if at is not None and code else None
