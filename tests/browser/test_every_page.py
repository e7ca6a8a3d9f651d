"""Every page in a browser: it keeps the policy, fits, is accessible and speaks the reader's language."""

from collections.abc import Sequence
from itertools import product
from typing import Any
from uuid import UUID

import pytest
from django.urls import NoReverseMatch, reverse
from playwright.sync_api import Browser

from portal.accounts.models import User
from tests.browser.inspection import Inspector, inspecting
from tests.browser.pages import BARE, FAULTS, NOT_PAGES, PAGES, REFUSING, ROLES, route_names
from tests.browser.plan import (
    CONTRASTS,
    LANGUAGES,
    LOOKS,
    SIZES,
    THEMES,
    Look,
    Visit,
    exhaustive,
    pairwise,
    share,
)
from tests.browser.sessions import signed_in
from tests.browser.world import World, keep_in_step, make_world
from tests.cast import Cast

pytestmark = pytest.mark.timeout(600)


def _name(contrast: tuple[Look, Look]) -> str:
    return str(contrast[0])


def in_browser(test: Any) -> Any:
    """Needs a Chromium, and a database that the server's threads see."""
    return pytest.mark.browser(pytest.mark.django_db(transaction=True)(test))


def test_every_route_is_a_page_to_be_looked_at_or_is_known_to_be_none() -> None:
    routes = set(route_names())
    listed = {page.route for page in PAGES} | set(NOT_PAGES)
    assert routes - listed == set(), "put them into tests/browser/pages.py"
    assert listed - routes == set(), "these are gone"
    assert not {page.route for page in PAGES} & set(NOT_PAGES)
    assert len({page.name for page in PAGES}) == len(PAGES)


@pytest.mark.django_db
def test_what_is_no_page_is_what_it_is_said_to_be(cast: Cast) -> None:
    client = signed_in(cast.administrator)
    for name, kind in NOT_PAGES.items():
        if kind == "post":
            assert client.get(sample_address(name)).status_code == 405, name
        if kind == "file" and name != "mfa_download_recovery_codes":
            assert "html" not in client.get(sample_address(name))["Content-Type"], name


def sample_address(name: str) -> str:
    """The route's address with something in the place of each argument."""
    for arguments in product(("berlin", 1, UUID(int=1)), repeat=2):
        values = dict(zip(("slug", "pk"), arguments, strict=True))
        for names in (
            *((), ("slug",), ("pk",), ("slug", "pk"), ("name",)),
            *(("key",), ("key", "slug"), ("key", "pk")),
        ):
            try:
                return reverse(name, kwargs={key: values.get(key, arguments[0]) for key in names})
            except NoReverseMatch:
                continue
    for others in (
        {"month": "2026-01"},
        {"month": "2026-01", "slug": "tides"},
        {"cluster": "berlin", "name": "gpu", "version": 1},
    ):
        try:
            return reverse(name, kwargs=others)
        except NoReverseMatch:
            continue
    raise AssertionError(f"no address for {name}")


def test_every_pair_of_role_theme_language_and_size_is_met() -> None:
    met = {pair for look in LOOKS for visit in pairwise(look, PAGES) for pair in _pairs(visit, look)}
    values = [("role", ROLES), ("theme", THEMES), ("language", LANGUAGES), ("size", tuple(SIZES))]
    for index, (one, firsts) in enumerate(values):
        for other, seconds in values[index + 1 :]:
            wanted = {(one, first, other, second) for first in firsts for second in seconds}
            assert wanted <= met
    for page in PAGES:
        for name, choices in values[1:]:
            assert {("page", page.name, name, choice) for choice in choices} <= met


def _pairs(visit: Visit, look: Look) -> list[tuple[str, str, str, str]]:
    values = [
        ("page", visit.page.name),
        ("role", visit.role),
        ("theme", look.theme),
        ("language", look.language),
        ("size", look.size),
    ]
    return [(*one, *other) for index, one in enumerate(values) for other in values[index + 1 :]]


@pytest.fixture
def base(live_server: Any, settings: Any) -> str:
    """Where the portal is, with the addresses at which it fails."""
    settings.ROOT_URLCONF = "tests.browser.urls"
    return str(live_server.url)


@in_browser
@pytest.mark.parametrize("contrast", CONTRASTS, ids=_name)
def test_every_page_is_fit_for_everybody(
    browser: Browser, base: str, cast: Cast, contrast: tuple[Look, Look]
) -> None:
    world = make_world(cast)
    for look in contrast:
        with inspecting(browser, look, users_of(cast), base) as inspector:
            visit(inspector, world, pairwise(look, PAGES))
            refuse(inspector, world, share(REFUSING, contrast))
            fail(inspector, share(FAULTS, contrast))


@in_browser
@pytest.mark.parametrize("contrast", CONTRASTS[:1], ids=_name)
def test_every_list_says_what_to_do_before_there_is_anything(
    browser: Browser, base: str, cast: Cast, contrast: tuple[Look, Look]
) -> None:
    for look in contrast:
        with inspecting(browser, look, users_of(cast), base) as inspector:
            visit_bare(inspector)


@pytest.mark.long
@in_browser
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_every_page_is_fit_for_everybody_in_every_look(
    browser: Browser, base: str, cast: Cast, look: Look
) -> None:
    world = make_world(cast)
    with inspecting(browser, look, users_of(cast), base) as inspector:
        visit(inspector, world, exhaustive(PAGES))
        refuse(inspector, world, REFUSING)
        fail(inspector, FAULTS)


@pytest.mark.long
@in_browser
@pytest.mark.parametrize("look", [look for look in LOOKS if look not in CONTRASTS[0]], ids=str)
def test_every_list_says_what_to_do_in_other_looks(
    browser: Browser, base: str, cast: Cast, look: Look
) -> None:
    with inspecting(browser, look, users_of(cast), base) as inspector:
        visit_bare(inspector)


def visit(inspector: Inspector, world: World, visits: list[Visit]) -> None:
    for one in visits:
        keep_in_step()
        inspector.become(one.role)
        inspector.open(one.page.path(world), name=one.page.name, status=one.page.status)


def refuse(inspector: Inspector, world: World, names: Sequence[str]) -> None:
    """What forms say when they are sent empty."""
    pages = {page.name: page for page in PAGES}
    inspector.become("administrator")
    for name in names:
        inspector.open(pages[name].path(world), name=name, picture=False)
        inspector.submit_empty(f"{name}-refused")


def fail(inspector: Inspector, faults: Sequence[tuple[str, int, str]]) -> None:
    inspector.become("administrator")
    for path, status, name in faults:
        inspector.open(path, name=name, status=status)


def visit_bare(inspector: Inspector) -> None:
    inspector.become("administrator")
    for name in BARE:
        inspector.open(reverse(name), name=f"{name}-bare")


def users_of(cast: Cast) -> dict[str, User]:
    return {role: getattr(cast, role) for role in ROLES if role != "anonymous"}
