"""A security key, as a person with a browser uses it: added, then asked for after the password."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from playwright.sync_api import Page, sync_playwright

from tests.cast import PASSWORD, Cast

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
KEY = {
    "protocol": "ctap2",
    "transport": "usb",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


@pytest.fixture
def page() -> Iterator[Page]:
    """A page of a browser with a key plugged in; what it complains about is in `complaints`."""
    if CHROMIUM is None:
        pytest.skip("There is no Chromium on this machine (Debian: apt-get install chromium).")
    from django.core.cache import cache

    cache.clear()
    before = os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")
    # Playwright's loop runs in this thread, where the test also asks the database.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        context = browser.new_context(locale="en")
        context.set_default_timeout(60_000)
        page = context.new_page()
        devices = context.new_cdp_session(page)
        devices.send("WebAuthn.enable")
        devices.send("WebAuthn.addVirtualAuthenticator", {"options": KEY})
        yield page
        browser.close()
    if before is None:
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


def send(page: Page, **fields: str) -> None:
    for name, value in fields.items():
        page.fill(f"#id_{name}", value)
    page.click("main form button[type=submit]")


def test_a_key_is_added_and_then_asked_for(page: Page, live_server: Any, cast: Cast) -> None:
    base = live_server.url
    complaints: list[str] = []
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"{base}/accounts/login/")
    send(page, login="mina", password=PASSWORD)
    page.wait_for_url(f"{base}/")

    page.goto(f"{base}/accounts/mfa/webauthn/add/")
    send(page, password=PASSWORD)
    page.fill("#id_name", "Blue key")
    page.click("[data-webauthn-start]")
    page.wait_for_selector("#recovery-codes")
    stored = Authenticator.objects.get(type="webauthn")
    assert (stored.user, str(stored)) == (cast.member, "Blue key")
    page.goto(f"{base}/accounts/mfa/webauthn/")
    assert "Blue key" in page.locator("main table").inner_text()

    page.context.clear_cookies()
    page.goto(f"{base}/accounts/login/?next=/tokens/")
    send(page, login="mina", password=PASSWORD)
    page.wait_for_url("**/accounts/mfa/authenticate/")
    page.goto(f"{base}/profile/")
    assert not page.url.endswith("/profile/")

    page.goto(f"{base}/accounts/mfa/authenticate/")
    page.click("[data-webauthn-start]")
    page.wait_for_url(f"{base}/tokens/")
    assert complaints == []
