"""Who visits which page in which look: pairwise in every run, all combinations in the long one."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from tests.browser.pages import Page

Item = TypeVar("Item")
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


def opposite(look: Look) -> Look:
    """The look that has nothing in common with this one."""
    return LOOKS[len(LOOKS) - 1 - LOOKS.index(look)]


# Each look with its opposite: a page that is seen in both is seen in every theme, language and size.
CONTRASTS = tuple((look, opposite(look)) for look in LOOKS[: len(LOOKS) // 2])


def share(items: Sequence[Item], contrast: tuple[Look, Look]) -> Sequence[Item]:
    """The part of a list that is looked at in these two looks: all parts together are the list."""
    return items[CONTRASTS.index(contrast) :: len(CONTRASTS)]


def pairwise(look: Look, pages: Sequence[Page]) -> list[Visit]:
    """This look's part of the visits: every page in two opposite looks, by two of its roles. Over all
    pages every role meets every theme, language and size, and each of these meets each of the others."""
    contrast = next(pair for pair in CONTRASTS if look in pair)
    turn = contrast.index(look)
    visits = []
    for place, page in enumerate(share(pages, contrast)):
        step = max(1, len(page.roles) // 2)
        visits.append(Visit(page, page.roles[(place + turn * step) % len(page.roles)]))
    return _by_role(visits)


def exhaustive(pages: Sequence[Page]) -> list[Visit]:
    """Every page by everybody who sees it."""
    return _by_role([Visit(page, role) for page in pages for role in page.roles])


def _by_role(visits: list[Visit]) -> list[Visit]:
    return sorted(visits, key=lambda visit: visit.role)
