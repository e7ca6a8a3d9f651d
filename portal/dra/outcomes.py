"""How an attempt to allocate can end; kept apart as kube-scheduler keeps them apart."""

from typing import Any, Literal

import msgspec
from msgspec import field

from portal.dra.model import AllocationResult


class Allocated(msgspec.Struct, frozen=True):
    """Every claim got its devices on `node`; `claims` are the results in the order asked."""

    node: str
    claims: tuple[AllocationResult, ...]


class Reason(msgspec.Struct, frozen=True):
    """Why something does not fit: a code with parameters, for translation; `str()` is an English sentence."""

    code: str
    params: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        from portal.dra.phrases import english

        return english(self.code, self.params)


class Unschedulable(msgspec.Struct, frozen=True):
    """The claims do not fit (on this node, or on any that was tried); other nodes may do."""

    reasons: tuple[Reason, ...] = ()


class Failed(msgspec.Struct, frozen=True):
    """An error: `node` scope means that other nodes are still worth a try, `claim` that no node can help."""

    scope: Literal["node", "claim"]
    error: Reason
    claim: str = ""
    request: str = ""
    object: str = ""


class Undecided(msgspec.Struct, frozen=True):
    """The search took more steps than allowed: neither yes nor no."""

    steps: int


Outcome = Allocated | Unschedulable | Failed | Undecided
