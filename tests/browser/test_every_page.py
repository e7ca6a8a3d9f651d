"""Every page in a browser: it keeps the policy, fits, is accessible and speaks the reader's language."""

from itertools import product
from typing import Any
from uuid import UUID

import pytest
from django.urls import NoReverseMatch, reverse
from playwright.sync_api import Browser

from portal.accounts.models import User
from tests.browser.inspection import inspecting
from tests.browser.pages import BARE, FAULTS, NOT_PAGES, PAGES, REFUSING, ROLES, route_names
from tests.browser.plan import LANGUAGES, LOOKS, PAIRWISE, SIZES, THEMES, Look, Visit, exhaustive, pairwise
from tests.browser.sessions import signed_in
from tests.browser.world import make_world
from tests.cast import Cast

pytestmark = pytest.mark.timeout(600)


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
        for names in ((), ("slug",), ("pk",), ("slug", "pk"), ("name",), ("key",)):
            try:
                return reverse(name, kwargs={key: values.get(key, arguments[0]) for key in names})
            except NoReverseMatch:
                continue
    raise AssertionError(f"no address for {name}")


def test_every_pair_of_role_theme_language_and_size_is_met() -> None:
    met = {pair for look in PAIRWISE for visit in pairwise(look, PAGES) for pair in _pairs(visit, look)}
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
    # Errors are told here as on a real desk, without being logged to the output of the tests.
    settings.DEBUG_PROPAGATE_EXCEPTIONS = False
    return str(live_server.url)


@in_browser
@pytest.mark.parametrize("look", PAIRWISE, ids=str)
def test_every_page(browser: Browser, base: str, cast: Cast, look: Look) -> None:
    visit_all(browser, base, cast, look, pairwise(look, PAGES))


@in_browser
@pytest.mark.parametrize("look", PAIRWISE[1:3], ids=str)
def test_every_list_before_there_is_anything(browser: Browser, base: str, cast: Cast, look: Look) -> None:
    visit_bare(browser, base, cast, look)


@in_browser
@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_every_page_for_everybody(browser: Browser, base: str, cast: Cast, look: Look) -> None:
    visit_all(browser, base, cast, look, exhaustive(look, PAGES))


@in_browser
@pytest.mark.long
@pytest.mark.parametrize("look", [look for look in LOOKS if look not in PAIRWISE[1:3]], ids=str)
def test_every_list_before_there_is_anything_in_other_looks(
    browser: Browser, base: str, cast: Cast, look: Look
) -> None:
    visit_bare(browser, base, cast, look)


def visit_all(browser: Browser, base: str, cast: Cast, look: Look, visits: list[Visit]) -> None:
    """Pages, what their forms say when they are sent empty, and pages of errors."""
    world = make_world(cast)
    refusing = {page.name: page for page in PAGES if page.name in REFUSING}
    with inspecting(browser, look, users_of(cast), base) as inspector:
        for visit in visits:
            inspector.become(visit.role)
            inspector.open(visit.page.path(world), name=visit.page.name, status=visit.page.status)
        inspector.become("administrator")
        for name, page in refusing.items():
            inspector.open(page.path(world), name=name, picture=False)
            inspector.submit_empty(f"{name}-refused")
        for path, status, name in FAULTS:
            inspector.open(path, name=name, status=status)


def visit_bare(browser: Browser, base: str, cast: Cast, look: Look) -> None:
    with inspecting(browser, look, users_of(cast), base) as inspector:
        inspector.become("administrator")
        for name in BARE:
            inspector.open(reverse(name), name=f"{name}-bare")


def users_of(cast: Cast) -> dict[str, User]:
    return {role: getattr(cast, role) for role in ROLES if role != "anonymous"}
