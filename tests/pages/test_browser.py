"""What a person with a browser meets on every page: theme, keyboard, phone, policy, accessibility."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from claims.models import Request
from inventory.models import Device
from portal.accounts.models import AuditEntry
from portal.accounts.tokens import issue_token
from tests.cast import PASSWORD, Cast
from tests.pages.fleet import cluster, devices, request

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SCREENSHOTS = Path(__file__).parent.parent / "screenshots"
PAGES = {
    "home": "/",
    "devices": "/devices/",
    "clusters": "/clusters/",
    "cluster": "/clusters/harbour/",
    "classes": "/classes/",
    "class-new": "/create-class/",
    "nodes": "/nodes/",
    "requests": "/requests/",
    "request-new": "/requests/new/",
    "history": "/history/",
    "cost": "/cost/",
    "projects": "/projects/",
    "project": "/projects/tides/",
    "project-new": "/create-project/",
    "search": "/search/?q=beam",
    "tokens": "/tokens/",
    "audit": "/audit/",
    "profile": "/profile/",
    "password": "/accounts/password/change/",
    "api-docs": "/api/docs/",
    "not-found": "/no/such/page/",
}
DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
# Every theme, language and size at least once with each of the others; the rest is for `make test-long`.
LOOKS = [
    ("light", "en", "desktop"),
    ("dark", "zh-hans", "desktop"),
    ("light", "zh-hans", "phone"),
    ("dark", "en", "phone"),
    *(
        pytest.param(look, marks=pytest.mark.long)
        for look in [
            ("light", "en", "phone"),
            ("dark", "zh-hans", "phone"),
            ("light", "zh-hans", "desktop"),
            ("dark", "en", "desktop"),
        ]
    ),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("There is no Chromium on this machine (Debian: apt-get install chromium).")
    # Playwright's loop runs in this thread, where the tests also ask the database.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield running
        running.close()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture(autouse=True)
def fresh_limits() -> None:
    """Attempts to sign in are counted in the cache, which outlives a test."""
    from django.core.cache import cache

    cache.clear()


@pytest.fixture
def world(cast: Cast) -> Cast:
    from datetime import timedelta

    from django.utils import timezone

    devices(cluster(), free=2, held=1, unavailable=1)
    devices(cluster("lakeside", state="unreachable"), free=1)
    request(cast, state="waiting-for-pod", requester=cast.administrator)
    request(cast, state="in-use", requester=cast.administrator)
    issue_token(
        user=cast.administrator,
        name="export",
        scopes=["chargeback"],
        lifetime=timedelta(days=9),
        now=timezone.now(),
    )
    return cast


def opened(browser: Browser, **options: Any) -> BrowserContext:
    return browser.new_context(**{"viewport": DESKTOP, **options})


def sign_in(page: Page, base: str, name: str = "anouk") -> None:
    page.goto(f"{base}/accounts/login/")
    page.fill("#id_login", name)
    page.fill("#id_password", PASSWORD)
    page.click("main button[type=submit]")
    page.wait_for_url(f"{base}/")


@pytest.mark.parametrize("look", LOOKS, ids="-".join)
def test_every_page_keeps_the_policy_fits_and_is_accessible(
    browser: Browser, live_server: Any, world: Cast, look: tuple[str, str, str]
) -> None:
    theme, language, size = look
    world.administrator.language = language
    world.administrator.save()
    axe = (settings.NODE_MODULES / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
    viewport = DESKTOP if size == "desktop" else PHONE
    context = opened(browser, color_scheme=theme, viewport=viewport)
    page = context.new_page()
    complaints: list[str] = []
    page.on(
        "console", lambda m: complaints.append(m.text) if m.type == "error" and "404" not in m.text else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    sign_in(page, live_server.url)
    SCREENSHOTS.mkdir(exist_ok=True)

    asked, device = Request.objects.order_by("pk")[0], Device.objects.order_by("pk")[0]
    details = {"request": f"/requests/{asked.key}/", "device": f"/devices/{device.pk}/"}
    for name, path in (PAGES | details).items():
        page.goto(live_server.url + path)
        assert page.get_attribute("html", "data-bs-theme") == theme
        assert page.get_attribute("html", "lang") == language
        page.screenshot(path=SCREENSHOTS / f"{name}-{theme}-{language}-{size}.png", full_page=True)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= viewport["width"], f"{path} is {width} wide"
        page.evaluate(axe)
        found = page.evaluate("axe.run(document)")["violations"]
        assert found == [], f"{path}: {[(v['id'], v['nodes'][0]['html'][:200]) for v in found]}"
    assert complaints == []
    context.close()


def test_the_theme_follows_the_system_until_chosen_and_is_remembered(
    browser: Browser, live_server: Any, world: Cast
) -> None:
    context = opened(browser, color_scheme="dark")
    page = context.new_page()
    sign_in(page, live_server.url)

    def theme() -> str | None:
        return page.get_attribute("html", "data-bs-theme")

    assert theme() == "dark"
    page.emulate_media(color_scheme="light")
    page.wait_for_selector("html[data-bs-theme=light]")

    toggle = page.locator("[data-theme-toggle]")
    toggle.click()
    toggle.click()
    assert theme() == "dark"
    assert toggle.get_attribute("aria-label") == "Theme: dark"

    page.reload()
    assert theme() == "dark"
    context.close()


def test_a_slash_leads_to_the_search_but_not_out_of_a_field(
    browser: Browser, live_server: Any, world: Cast
) -> None:
    context = opened(browser)
    page = context.new_page()
    sign_in(page, live_server.url)

    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "site-search"
    page.keyboard.type("a/b")
    assert page.input_value("#site-search") == "a/b"
    page.keyboard.press("Enter")
    page.wait_for_url("**/search/?q=a%2Fb")
    context.close()


def test_menus_work_without_a_mouse(browser: Browser, live_server: Any, world: Cast) -> None:
    context = opened(browser)
    page = context.new_page()
    sign_in(page, live_server.url)

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "cd-skip"
    page.locator("summary.cd-person").focus()
    page.keyboard.press("Enter")
    assert page.locator(".cd-menu-panel a[href='/profile/']").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator(".cd-menu-panel a[href='/profile/']").is_visible()
    assert "cd-person" in page.evaluate("document.activeElement.className")
    context.close()


def test_the_navigation_opens_on_a_phone(browser: Browser, live_server: Any, world: Cast) -> None:
    context = opened(browser, viewport=PHONE)
    page = context.new_page()
    sign_in(page, live_server.url)
    entry = page.locator("#site-nav a[href='/devices/']")

    assert not entry.is_visible()
    page.click(".cd-burger")
    entry.click()
    page.wait_for_url("**/devices/")
    assert not page.locator("#site-nav").is_visible()
    context.close()


def test_without_javascript_language_and_sign_out_still_work(
    browser: Browser, live_server: Any, world: Cast
) -> None:
    context = opened(browser, java_script_enabled=False)
    page = context.new_page()
    sign_in(page, live_server.url)

    page.click("summary.cd-iconbutton")
    page.click("button[value=zh-hans]")
    assert page.locator("h1").inner_text() == "首页"
    assert AuditEntry.objects.filter(action="person.change").count() == 1

    page.click("summary.cd-person")
    page.click("form[action='/accounts/logout/'] button")
    page.goto(f"{live_server.url}/tokens/")
    assert "/accounts/login/" in page.url
    context.close()


def test_filters_take_effect_as_one_types_and_can_be_shared(
    browser: Browser, live_server: Any, world: Cast
) -> None:
    context = opened(browser)
    page = context.new_page()
    sign_in(page, live_server.url)
    page.goto(f"{live_server.url}/audit/")
    assert "token.create" in page.locator("#entries").inner_text()

    page.locator("#id_actor").press_sequentially("nobody")
    page.wait_for_selector("#entries >> text=No entry fits these filters.")

    page.goto(page.url)
    assert page.input_value("#id_actor") == "nobody"
    assert "No entry fits" in page.locator("#entries").inner_text()
    context.close()


def test_a_form_is_sent_once_however_often_it_is_clicked(
    browser: Browser, live_server: Any, world: Cast
) -> None:
    context = opened(browser)
    page = context.new_page()
    sign_in(page, live_server.url)
    page.goto(f"{live_server.url}/tokens/")
    page.fill("#id_name", "twice")
    page.check("input[name=scopes][value=inventory]")
    page.dblclick("main form button[type=submit]")
    page.wait_for_selector("#new-token")

    assert world.administrator.auth_token_set.filter(name="twice").count() == 1
    context.close()
