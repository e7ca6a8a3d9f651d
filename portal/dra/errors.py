"""How an allocation attempt breaks off inside this package; `allocate` turns these into outcomes."""

from portal.dra.outcomes import Reason


class BrokenOffError(Exception):
    """Parent: carries the reason, and the object at fault where it is not the claim itself."""

    scope = ""

    def __init__(self, code: str, *, at: str = "", **params: object) -> None:
        self._code = code
        self._params = params
        self.at = at
        super().__init__(code)

    @property
    def reason(self) -> Reason:
        """`at` names the object and the clause at fault."""
        return Reason(code=self._code, params={"at": self.at, **self._params})


class NodeError(BrokenOffError):
    """Allocation failed for reasons of this node; another node may do."""

    scope = "node"


class ClaimError(BrokenOffError):
    """No node can help: the claim, its class or an expression is at fault."""

    scope = "claim"
