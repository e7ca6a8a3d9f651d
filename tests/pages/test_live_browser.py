"""A page that keeps itself up to date, left open: what it asks for, and what it leaves behind."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.test import Client
from playwright.sync_api import Browser, Page, Route

from portal.accounts.models import User
from tests.cast import Cast

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
# The page's 15 seconds, and the moment that a new version takes to settle.
PACE = 15_100
MINUTE = 60_000
HOUR = 60 * MINUTE


@dataclass
class Desk:
    """The first page with a clock of its own; its polls are answered here. Answers are (status, version)."""

    page: Page
    answer: Callable[[int], tuple[int, int]] = lambda _number: (304, 0)
    asked: list[str] = field(default_factory=list)
    answered: int = 0

    def handle(self, route: Route) -> None:
        if route.request.headers.get("hx-request") != "true":
            route.continue_()
            return
        self.asked.append(route.request.headers.get("if-none-match", ""))
        status, version = self.answer(len(self.asked))
        headers = {"ETag": f'"{version}"', "Content-Type": "text/html"}
        body = "" if status == 304 else live_part(version)
        route.fulfill(status=status, headers=headers, body=body)
        self.answered += 1

    def let_pass(self, milliseconds: int, step: int = PACE) -> int:
        """The page's clock goes on; every poll is answered before it does. How many polls there were."""
        before = len(self.asked)
        for _ in range(milliseconds // step):
            self.page.clock.run_for(step)
            self.settle()
        return len(self.asked) - before

    def settle(self) -> None:
        """Until the page has dealt with all answers."""
        self.until(lambda: self.answered == len(self.asked) and self.page.evaluate("window.polling") == 0)

    def until(self, happened: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not happened():
            assert time.monotonic() < deadline
            self.page.evaluate("0")

    def hide(self, *, hidden: bool) -> None:
        self.page.evaluate(
            "hidden => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});"
            " document.dispatchEvent(new Event('visibilitychange')); }",
            hidden,
        )
        self.settle()


def live_part(version: int) -> str:
    """What a poll brings: as long as a busy page."""
    rows = "".join(f"<tr><td><a href='/x/{n}/'>row {n}</a></td><td>{version}</td></tr>" for n in range(50))
    return (
        f"<div class='cd-columns' id='home-live' data-version='{version}' hx-get='/' hx-trigger='every 15s'"
        " hx-swap='outerHTML'><p id='words'>words to read</p>"
        f"<details><summary>more</summary>{version}</details>"
        f"<div class='table-responsive'><table class='table'>{rows}</table></div></div>"
    )


@pytest.fixture
def desk(browser: Browser, live_server: Any, cast: Cast) -> Iterator[Desk]:
    client = Client()
    client.force_login(User.objects.get(username="mina"))
    context = browser.new_context(base_url=live_server.url)
    session = client.cookies["sessionid"].value
    context.add_cookies([{"name": "sessionid", "value": session, "url": live_server.url}])
    page = context.new_page()
    page.clock.install()
    desk = Desk(page)
    page.route("**/*", desk.handle)
    page.goto("/")
    # Requests under way, counted by the page itself.
    page.evaluate(
        "window.polling = 0;"
        "document.addEventListener('htmx:beforeSend', () => { window.polling += 1; });"
        "document.addEventListener('htmx:afterRequest', () => { window.polling -= 1; });"
    )
    # From here on time passes when a test says so, and only then.
    page.clock.pause_at(page.evaluate("Date.now()") / 1000 + 1)
    desk.settle()
    desk.asked.clear()
    desk.answered = 0
    yield desk
    context.close()


def test_a_page_left_open_neither_leaks_nor_hammers(desk: Desk) -> None:
    """Half an hour in sight, then hours unattended; every second poll brings news."""
    desk.answer = lambda number: (200, number) if number % 2 else (304, number)
    metrics = desk.page.context.new_cdp_session(desk.page)

    def held() -> dict[str, int]:
        metrics.send("HeapProfiler.collectGarbage")
        counted = metrics.send("Memory.getDOMCounters")
        return {name: counted[name] for name in ("nodes", "jsEventListeners", "documents")}

    attended = desk.let_pass(30 * MINUTE)
    early = held()
    unattended = desk.let_pass(2 * HOUR, step=MINUTE // 2 + 100)
    late = held()

    assert 100 <= attended <= 121
    assert unattended <= 121
    assert late["documents"] == early["documents"]
    # A version has some 330 nodes: none of the sixty that came since has stayed.
    assert late["nodes"] - early["nodes"] < 330
    assert late["jsEventListeners"] - early["jsEventListeners"] < 50


def test_a_version_that_is_there_already_changes_nothing(desk: Desk) -> None:
    desk.answer = lambda number: (200, 7) if number == 1 else (304, 7)
    desk.let_pass(PACE)
    desk.page.evaluate("document.getElementById('home-live').dataset.mine = 'yes'")
    desk.let_pass(3 * PACE)

    assert len(desk.asked) >= 3
    assert set(desk.asked[1:]) == {'"7"'}
    assert desk.page.get_attribute("#home-live", "data-mine") == "yes"


def test_a_hidden_page_asks_for_nothing_and_at_once_when_it_is_seen_again(desk: Desk) -> None:
    desk.hide(hidden=True)
    assert desk.let_pass(HOUR, step=5 * MINUTE) == 0
    desk.hide(hidden=False)
    assert len(desk.asked) == 1


def test_errors_are_asked_after_later_and_later_until_it_works_again(desk: Desk) -> None:
    desk.answer = lambda _number: (503, 0)
    # After 30 s, 60 s, 120 s, 240 s and then every 300 s.
    assert desk.let_pass(10 * MINUTE) <= 6
    assert desk.page.is_visible("#cd-trouble")
    desk.answer = lambda number: (200, number)
    desk.let_pass(6 * MINUTE)
    assert desk.let_pass(4 * PACE) >= 2
    assert not desk.page.is_visible("#cd-trouble")


@pytest.mark.parametrize("status", [286, 401, 404])
def test_what_is_over_or_out_of_reach_is_not_asked_for_again(desk: Desk, status: int) -> None:
    desk.answer = lambda _number: (status, 1)
    assert desk.let_pass(20 * PACE) == 1


def test_who_reads_and_selects_is_not_disturbed(desk: Desk) -> None:
    desk.answer = lambda number: (200, number)
    desk.let_pass(PACE)
    desk.page.evaluate("getSelection().selectAllChildren(document.getElementById('words'))")
    desk.let_pass(3 * PACE)
    assert desk.page.get_attribute("#home-live", "data-version") == "1"
    desk.page.evaluate("getSelection().removeAllRanges()")
    desk.let_pass(PACE)
    assert desk.page.get_attribute("#home-live", "data-version") == "5"


def test_focus_and_what_was_unfolded_stay(desk: Desk) -> None:
    desk.answer = lambda number: (200, number)
    desk.let_pass(PACE)
    desk.page.evaluate("document.querySelector('#home-live details').open = true")
    desk.page.evaluate("document.querySelector('a[href=\"/x/7/\"]').focus()")
    desk.let_pass(PACE)
    assert desk.page.get_attribute("#home-live", "data-version") == "2"
    assert desk.page.evaluate("document.activeElement.getAttribute('href')") == "/x/7/"
    assert desk.page.evaluate("document.querySelector('#home-live details').open")
