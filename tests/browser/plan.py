"""Who visits which page in which look: pairwise in every run, all combinations in the long one."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tests.browser.pages import Page

THEMES = ("light", "dark")
LANGUAGES = ("en", "zh-hans")
SIZES = {"desktop": (1280, 800), "phone": (390, 844)}


@dataclass(frozen=True)
class Look:
    """How somebody meets the portal."""

    theme: str
    language: str
    size: str

    def __str__(self) -> str:
        return f"{self.theme}-{self.language}-{self.size}"


@dataclass(frozen=True)
class Visit:
    page: Page
    role: str


LOOKS = tuple(Look(*values) for values in itertools.product(THEMES, LANGUAGES, SIZES))
# Each theme with each language, and both with each size: half of the combinations do (an orthogonal array).
PAIRWISE = (LOOKS[0], LOOKS[3], LOOKS[5], LOOKS[6])


def pairwise(look: Look, pages: Sequence[Page]) -> list[Visit]:
    """Every page once in each look of PAIRWISE, by another of its roles each time: over all pages every role
    meets every theme, language and size."""
    turn = PAIRWISE.index(look)
    return _by_role(
        [Visit(page, page.roles[(place + turn) % len(page.roles)]) for place, page in enumerate(pages)]
    )


def exhaustive(look: Look, pages: Sequence[Page]) -> list[Visit]:
    """Every page by everybody who sees it."""
    return _by_role([Visit(page, role) for page in pages for role in page.roles])


def _by_role(visits: list[Visit]) -> list[Visit]:
    return sorted(visits, key=lambda visit: visit.role)
