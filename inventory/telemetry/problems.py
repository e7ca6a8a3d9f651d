"""What can go wrong between the desk and a Prometheus, each with its cause and the way out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_noop as _n

from portal.accounts.notifications.texts import Text

# What a server says of an error is shown in part only.
SAID = 300


@dataclass(frozen=True)
class Problem:
    """`code` is stable (metrics, REST); `said` and `cure` are for people, in the language of who reads."""

    code: str
    said: Text
    cure: Text

    def as_json(self) -> dict[str, Any]:
        """What a JSON column keeps; `Problem.read` reads it."""
        return {"code": self.code, "said": self.said.as_json(), "cure": self.cure.as_json()}

    @classmethod
    def read(cls, kept: Mapping[str, Any] | None) -> "Problem | None":
        """None for None."""
        if kept is None:
            return None
        return cls(code=kept["code"], said=Text.read(kept["said"]), cure=Text.read(kept["cure"]))


class UnableToAsk(Exception):
    """A Prometheus did not give a usable answer."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem.said))
        self.problem = problem

    @property
    def of_source(self) -> bool:
        """Whether it is about the Prometheus, and not about the one query: others would go the same way."""
        return self.problem.code not in OF_QUERY


# Something tells of devices that it cannot have.
ELSEWHERE = "elsewhere"
# These are about the query that was asked.
OF_QUERY = frozenset({"rejected", "too-large", "unreadable", "no-percent", "too-heavy"})


def _unable(code: str, said: Text, cure: Text) -> UnableToAsk:
    return UnableToAsk(Problem(code, said, cure))


def shown(text: str) -> str:
    """What somebody else wrote, on one line and not too long."""
    return "".join(c if c.isprintable() else " " for c in text[: 2 * SAID]).strip()[:SAID]


def unreachable(reason: str) -> UnableToAsk:
    return _unable(
        "unreachable",
        Text(_n("It cannot be reached: %(reason)s"), reason=shown(reason)),
        Text(_n("Is the address right, and do network and firewall let the desk's workers through to it?")),
    )


def insecure(reason: str) -> UnableToAsk:
    return _unable(
        "insecure",
        Text(_n("No secure connection: %(reason)s"), reason=shown(reason)),
        Text(_n("Paste the certificate of the authority that signed its certificate, or correct the name.")),
    )


def bad_authority() -> UnableToAsk:
    return _unable(
        "bad-authority",
        Text(_n("The certificate of the authority cannot be read.")),
        Text(_n("Paste it in PEM form, from BEGIN CERTIFICATE to END CERTIFICATE.")),
    )


def locked() -> UnableToAsk:
    return _unable(
        "locked",
        Text(_n("Its token cannot be decrypted: none of CLAIMDESK_CREDENTIAL_KEYS fits.")),
        Text(_n("Put the key back with which it was encrypted, or type the token again.")),
    )


def timed_out(seconds: float) -> UnableToAsk:
    return _unable(
        "timeout",
        Text(_n("It did not answer within %(seconds)s s."), seconds=int(seconds)),
        Text(_n("Is it overloaded? A recording rule makes a heavy query light.")),
    )


def led_elsewhere(status: int) -> UnableToAsk:
    return _unable(
        "redirect",
        Text(_n("It answered %(status)s and leads elsewhere; the desk does not follow."), status=status),
        Text(_n("Give the address that it leads to. A sign-in page in front of it lets no program through.")),
    )


def denied(status: int) -> UnableToAsk:
    return _unable(
        "denied",
        Text(_n("It answered %(status)s: the token is missing, expired, or may not read."), status=status),
        Text(_n("Type a token that may read metrics.")),
    )


def not_there(status: int) -> UnableToAsk:
    return _unable(
        "not-there",
        Text(_n("It answered %(status)s: no Prometheus serves its API at this address."), status=status),
        Text(_n("Give the address up to, but without, /api/v1; Mimir has it under /prometheus.")),
    )


def rejected(told: str) -> UnableToAsk:
    return _unable(
        "rejected",
        Text(_n("It rejects the query: %(told)s"), told=shown(told)),
        Text(_n("Try the query in its own console, then correct it here.")),
    )


def too_heavy(told: str) -> UnableToAsk:
    return _unable(
        "too-heavy",
        Text(_n("It gave up on the query: %(told)s"), told=shown(told)),
        Text(_n("Ask for fewer series, or let a recording rule compute them.")),
    )


def failing(status: int) -> UnableToAsk:
    return _unable(
        "failing",
        Text(_n("It answered %(status)s: it cannot answer now."), status=status),
        Text(_n("Look at its own log, and at that of a proxy in between.")),
    )


def too_large(megabytes: int) -> UnableToAsk:
    return _unable(
        "too-large",
        Text(_n("The answer is larger than %(limit)s MiB; none of it is used."), limit=megabytes),
        Text(_n("Ask for fewer series: aggregate with “by”, or name the cluster with $cluster.")),
    )


def too_many_series(most: int) -> UnableToAsk:
    return _unable(
        "too-large",
        Text(_n("The answer has more than %(most)s series; none of it is used."), most=most),
        Text(_n("Ask for fewer series: aggregate with “by”, or name the cluster with $cluster.")),
    )


def unreadable(what: str) -> UnableToAsk:
    return _unable(
        "unreadable",
        Text(_n("The answer is none that Prometheus gives: %(what)s"), what=shown(what)),
        Text(_n("Does the address lead to a Prometheus, and not to a page about one?")),
    )


def no_percent(values: int) -> UnableToAsk:
    return _unable(
        "no-percent",
        Text(_n("%(n)s values are not between 0 and 100; none of the answer is used."), n=values),
        Text(_n("Let the query give percent: multiply a ratio by 100.")),
    )


def elsewhere(devices: int, *, name: str, node: str, told: str) -> Problem:
    """What contradicts the mirror is not used; what others tell is."""
    return Problem(
        code=ELSEWHERE,
        said=Text(
            _n(
                "Samples of %(n)s devices come from where these are not, and are not used: “%(name)s” is on "
                "%(node)s, and what tells of it names “%(told)s”."
            ),
            n=devices,
            name=shown(name),
            node=shown(node),
            told=shown(told),
        ),
        cure=Text(
            _n(
                "Look at the exporter that tells it. One that rightly tells of another node's devices wants "
                "a query without the labels of its target: max by (UUID) (…)."
            )
        ),
    )


def no_percent_of_some(devices: int, *, name: str) -> Problem:
    """What others tell is used all the same."""
    return Problem(
        code="no-percent",
        said=Text(
            _n("What it says of %(n)s devices is not between 0 and 100 and not used: “%(name)s”, for one."),
            n=devices,
            name=shown(name),
        ),
        cure=Text(_n("Look at the exporter of this device, or let the query leave it out.")),
    )
