"""What somebody does without a mouse."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, Page, expect

from tests.browser.sessions import sessions_of
from tests.cast import Cast
from tests.pages.fleet import cluster, devices

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True), pytest.mark.timeout(180)]
PHONE = {"width": 390, "height": 844}


@pytest.fixture
def page(browser: Browser, live_server: Any, cast: Cast, request: pytest.FixtureRequest) -> Iterator[Page]:
    """The administrator's page; on a phone where a test says so."""
    phone = request.node.name.endswith("_on_a_phone")
    context = browser.new_context(
        base_url=live_server.url,
        viewport=PHONE if phone else {"width": 1280, "height": 800},  # type: ignore[arg-type] # a TypedDict
        locale="en-GB",
    )
    session = sessions_of({"administrator": cast.administrator})["administrator"]
    context.add_cookies([{"name": "sessionid", "value": session, "url": live_server.url}])
    yield context.new_page()
    context.close()


def focused(page: Page) -> str:
    """The element with the focus: its id, else its class, else its text."""
    told: str = page.evaluate(
        "(() => { const e = document.activeElement; return e.id || e.className || e.textContent.trim() })()"
    )
    return told


def test_the_first_stop_leads_past_the_menu(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("Tab")
    assert focused(page) == "cd-skip"
    page.keyboard.press("Enter")
    assert focused(page) == "main"


def test_a_slash_leads_to_the_search_but_not_out_of_a_field(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("/")
    assert focused(page) == "site-search"
    page.keyboard.type("a/b")
    assert page.input_value("#site-search") == "a/b"
    page.keyboard.press("Enter")
    page.wait_for_url("**/search/?q=a%2Fb")


def test_on_a_page_with_a_search_of_its_own_the_slash_leads_there(page: Page) -> None:
    devices(cluster(), free=2)
    page.goto("/devices/")
    page.keyboard.press("/")
    assert focused(page) != "site-search"
    page.keyboard.type("no such thing")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=no+such+thing**")


def test_a_menu_opens_walks_and_closes_by_keys(page: Page) -> None:
    page.goto("/")
    panel = page.locator(".cd-menu-panel", has=page.locator(f"a[href='{reverse('profile')}']"))
    page.locator("summary.cd-person").focus()
    page.keyboard.press("Enter")
    expect(panel).to_be_visible()

    page.keyboard.press("ArrowDown")
    assert focused(page) == "Profile"
    page.keyboard.press("End")
    assert focused(page) == "Sign out"
    # Round and round.
    page.keyboard.press("ArrowDown")
    assert focused(page) == "Profile"

    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    assert focused(page) == "cd-person"


def test_a_menu_that_is_left_closes(page: Page) -> None:
    page.goto("/")
    page.locator("summary.cd-person").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    page.keyboard.press("Tab")
    expect(page.locator("details.cd-menu[open]")).to_have_count(0)


def test_the_language_is_chosen_by_keys(page: Page) -> None:
    page.goto("/projects/")
    page.get_by_label("Language", exact=True).focus()
    page.keyboard.press("Enter")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("项目")
    expect(page).to_have_url("/projects/")


def test_the_drawer_keeps_the_focus_and_gives_it_back_on_a_phone(page: Page) -> None:
    page.goto("/projects/")
    drawer = page.locator("#site-nav")
    page.locator(".cd-burger").focus()
    page.keyboard.press("Enter")
    expect(drawer).to_be_visible()
    expect(page.locator(".cd-nav-close")).to_be_focused()

    inside = "document.getElementById('site-nav').contains(document.activeElement)"
    stops = drawer.locator("a").count()
    for _ in range(stops + 2):
        page.keyboard.press("Tab")
        assert page.evaluate(inside)
    page.keyboard.press("Shift+Tab")
    assert page.evaluate(inside)

    page.keyboard.press("Escape")
    expect(drawer).to_be_hidden()
    expect(page.locator(".cd-burger")).to_be_focused()


def test_the_drawer_leads_to_other_pages_on_a_phone(page: Page) -> None:
    page.goto("/")
    entry = page.locator("#site-nav a[href='/devices/']")
    expect(entry).to_be_hidden()
    page.click(".cd-burger")
    entry.click()
    page.wait_for_url("**/devices/")
    expect(page.locator("#site-nav")).to_be_hidden()


def test_a_wide_table_is_scrolled_by_keys_and_keeps_its_first_column_on_a_phone(
    page: Page,
) -> None:
    devices(cluster(), free=3)
    page.goto("/devices/")
    scroller = page.locator(".table-responsive[tabindex='0']").first
    scroller.focus()
    before = scroller.locator("tbody tr").first.locator("> :first-child").bounding_box()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    # Not by wait_for_function: its second look evaluates text in the page, which the policy forbids.
    expect(scroller).not_to_have_js_property("scrollLeft", 0)
    after = scroller.locator("tbody tr").first.locator("> :first-child").bounding_box()
    assert before is not None
    assert after is not None
    assert abs(before["x"] - after["x"]) < 2
