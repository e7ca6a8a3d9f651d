"""Which way a flavor is served at a place: by DRA or by a Device Plugin. A pure function that explains
itself.

Where only one way is offered, that one. Where both are, the migration stage decides: an administrator may
have switched to one of them; else DRA is used as soon as every condition holds. A condition about something
that nobody observes does not hold: the way that is known to work stays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from claims.models import Placement, Request
from inventory import contract
from inventory.contract import DRIVER, KUBERNETES, RUNTIME, InvalidRange

Backend = Request.Backend
Stage = Placement.Stage

# Part ("kubernetes", "runtime", "driver:gpu.nvidia.com") → versions that are observed there.
Versions = Mapping[str, Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Conditions for DRA: version ranges as in `inventory.contract`, "" = any."""

    kubernetes: str = ""
    driver: str = ""
    driver_versions: str = ""
    runtime: str = ""

    @classmethod
    def of(cls, placement: Placement) -> "Rule":
        return cls(
            kubernetes=placement.kubernetes,
            driver=placement.driver,
            driver_versions=placement.driver_versions,
            runtime=placement.runtime,
        )

    @property
    def conditions(self) -> Sequence[tuple[str, str]]:
        """(part, range) of what is asked for."""
        named = (
            (KUBERNETES, self.kubernetes),
            (DRIVER + self.driver, self.driver_versions if self.driver else ""),
            (RUNTIME, self.runtime),
        )
        return [(part, text) for part, text in named if text]


@dataclass(frozen=True, kw_only=True)
class Clause:
    """One condition against what is observed; `holds` None = not observed."""

    part: str
    expected: str
    observed: tuple[str, ...]
    holds: bool | None

    @property
    def words(self) -> str:
        """The clause as a sentence."""
        told = {
            "part": contract.part_label(self.part),
            "expected": self.expected,
            "seen": ", ".join(self.observed),
        }
        if self.holds is None:
            return _("%(part)s: %(expected)s is asked for, and nothing is observed.") % told
        if self.holds:
            return _("%(part)s: %(seen)s is within %(expected)s.") % told
        return _("%(part)s: %(seen)s is not within %(expected)s.") % told


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The way that is used now, why ("code"), and the conditions that were looked at."""

    backend: str
    code: str
    clauses: tuple[Clause, ...] = ()

    @property
    def words(self) -> str:
        """Why, in a sentence."""
        sentences = {
            "only-dra": _("Only DRA is offered here."),
            "only-plugin": _("Only a Device Plugin is offered here."),
            "not-served": _("The cluster does not serve DRA."),
            "switched-dra": _("An administrator switched it to DRA."),
            "switched-plugin": _("An administrator switched it to the Device Plugin."),
            "no-conditions": _("DRA and a Device Plugin are offered, and nothing speaks against DRA."),
            "holds": _("Every condition for DRA holds."),
            "broken": _("A condition for DRA does not hold."),
            "not-observed": _("What a condition for DRA is about is not observed."),
        }
        return sentences[self.code]


def choose_backend(
    *, dra: bool, plugin: bool, stage: str, rule: Rule, versions: Versions, served: bool = True
) -> Choice:
    """The way to use where `dra` and `plugin` are offered (at least one); `served` says whether the cluster
    serves DRA at all."""
    if not plugin:
        return Choice(backend=Backend.DRA, code="only-dra")
    if not dra or not served:
        return Choice(backend=Backend.PLUGIN, code="not-served" if dra else "only-plugin")
    clauses = tuple(_clause(part, text, versions) for part, text in rule.conditions)
    code = _SWITCHED.get(stage) or _code(clauses)
    backend = Backend.DRA if code in _CODES_OF_DRA else Backend.PLUGIN
    return Choice(backend=backend, code=code, clauses=clauses)


def _code(clauses: Sequence[Clause]) -> str:
    if not clauses:
        return "no-conditions"
    if any(clause.holds is False for clause in clauses):
        return "broken"
    return "not-observed" if any(clause.holds is None for clause in clauses) else "holds"


_SWITCHED: Mapping[str, str] = {Stage.DRA: "switched-dra", Stage.PLUGIN: "switched-plugin"}
_CODES_OF_DRA = frozenset({"switched-dra", "no-conditions", "holds"})


def choice_of(placement: Placement, *, versions: Versions, served: bool = True) -> Choice:
    """The same for a placement."""
    return choose_backend(
        dra=bool(placement.device_class),
        plugin=bool(placement.extended_resource),
        stage=placement.stage,
        rule=Rule.of(placement),
        versions=versions,
        served=served,
    )


def _clause(part: str, expected: str, versions: Versions) -> Clause:
    observed = tuple(sorted(versions.get(part, ())))
    try:
        found = contract.parse(expected, named=part == RUNTIME)
    except InvalidRange:
        # Checked when it was saved; a range that cannot be read holds for nothing.
        return Clause(part=part, expected=expected, observed=observed, holds=False if observed else None)
    holds = all(found.admits(version) for version in observed) if observed else None
    return Clause(part=part, expected=expected, observed=observed, holds=holds)
