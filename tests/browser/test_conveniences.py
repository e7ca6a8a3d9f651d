"""What the scripts of the portal add to links and forms, and that it goes without them."""

import re
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from portal.accounts.models import AuditEntry, Membership
from portal.accounts.tokens import issue_token
from tests.browser.sessions import sessions_of
from tests.cast import NOW, PASSWORD, Cast

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True), pytest.mark.timeout(180)]


def opened(browser: Browser, live_server: Any, cast: Cast, **options: Any) -> tuple[BrowserContext, Page]:
    """A page of the administrator."""
    context = browser.new_context(**{"base_url": live_server.url, "locale": "en-GB", **options})
    session = sessions_of({"administrator": cast.administrator})["administrator"]
    context.add_cookies([{"name": "sessionid", "value": session, "url": live_server.url}])
    return context, context.new_page()


def test_signing_in_leads_to_the_page_asked_for(browser: Browser, live_server: Any, cast: Cast) -> None:
    context = browser.new_context(base_url=live_server.url, locale="en-GB")
    page = context.new_page()
    page.goto("/projects/")
    page.fill("#id_login", "mina")
    page.fill("#id_password", PASSWORD)
    page.click("main button[type=submit]")
    expect(page).to_have_url("/projects/")
    context.close()


def test_the_theme_follows_the_system_until_chosen_and_is_remembered(
    browser: Browser, live_server: Any, cast: Cast
) -> None:
    context, page = opened(browser, live_server, cast, color_scheme="dark")
    page.goto("/")
    html = page.locator("html")
    expect(html).to_have_attribute("data-bs-theme", "dark")
    page.emulate_media(color_scheme="light")
    expect(html).to_have_attribute("data-bs-theme", "light")

    toggle = page.locator("[data-theme-toggle]")
    toggle.click()
    toggle.click()
    expect(html).to_have_attribute("data-bs-theme", "dark")
    expect(toggle).to_have_attribute("aria-label", "Theme: dark")

    page.reload()
    expect(html).to_have_attribute("data-bs-theme", "dark")
    context.close()


def test_times_are_told_in_the_browsers_zone_with_utc_beside(
    browser: Browser, live_server: Any, cast: Cast
) -> None:
    context, page = opened(browser, live_server, cast, timezone_id="Asia/Tokyo")
    page.goto("/")  # finds the zone out
    page.goto("/projects/tides/")
    made = page.locator(f"time[datetime^='{NOW:%Y-%m-%dT%H:%M}']").first
    expect(made).to_have_text("2026-03-10 18:30")
    expect(made).to_have_attribute("title", "2026-03-10 09:30:00 UTC")
    context.close()


def test_without_javascript_language_and_sign_out_still_work(
    browser: Browser, live_server: Any, cast: Cast
) -> None:
    context, page = opened(browser, live_server, cast, java_script_enabled=False)
    page.goto("/")
    page.click("summary.cd-iconbutton")
    page.click("button[value=zh-hans]")
    assert page.locator("h1").inner_text() == "首页"
    assert AuditEntry.objects.filter(action="person.change").count() == 1

    page.click("summary.cd-person")
    page.click("form[action='/accounts/logout/'] button")
    page.goto("/tokens/")
    assert "/accounts/login/" in page.url
    context.close()


def test_the_language_is_chosen_before_signing_in_too(browser: Browser, live_server: Any, cast: Cast) -> None:
    context = browser.new_context(base_url=live_server.url, locale="en-GB")
    page = context.new_page()
    page.goto("/accounts/login/?next=/projects/")
    page.click("summary.cd-iconbutton")
    page.click("button[value=zh-hans]")
    expect(page.locator("html")).to_have_attribute("lang", "zh-hans")
    expect(page).to_have_url("/accounts/login/?next=/projects/")
    context.close()


def test_filters_take_effect_as_one_types_and_can_be_shared(
    browser: Browser, live_server: Any, cast: Cast
) -> None:
    from datetime import timedelta

    from django.utils import timezone

    issue_token(
        user=cast.administrator, name="export", scopes=["chargeback"], lifetime=timedelta(days=9),
        now=timezone.now(),
    )  # fmt: skip
    context, page = opened(browser, live_server, cast)
    page.goto("/audit/")
    entries = page.locator("#list")
    expect(entries).to_contain_text("export")

    page.locator("#list-q").press_sequentially("nobody")
    expect(entries).to_contain_text("No entry fits")

    page.goto(page.url)
    expect(page.locator("#list-q")).to_have_value("nobody")
    expect(entries).to_contain_text("No entry fits")
    context.close()


def test_a_form_is_sent_once_however_often_it_is_clicked(
    browser: Browser, live_server: Any, cast: Cast
) -> None:
    context, page = opened(browser, live_server, cast)
    page.goto("/tokens/")
    page.fill("#id_name", "twice")
    page.check("input[name=scopes][value=inventory]")
    page.dblclick("main form button[type=submit]")
    page.wait_for_selector("#new-token")
    assert cast.administrator.auth_token_set.filter(name="twice").count() == 1
    context.close()


def test_a_date_without_its_time_is_not_sent_as_none(browser: Browser, live_server: Any, cast: Cast) -> None:
    context, page = opened(browser, live_server, cast)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    page.goto("/quotas/new/")
    until = page.locator("input[name=valid_until]")
    until.focus()
    page.keyboard.type("12312030")
    assert until.evaluate("field => [field.value, field.validity.badInput]") == ["", True]
    page.click("main form[method=post] button[type=submit]")
    expect(until).to_be_focused()
    assert not sent
    # What is whole, or empty, is sent as ever, though other fields are not filled in.
    until.fill("2030-12-31T12:00")
    with page.expect_response(lambda response: response.request.method == "POST") as answered:
        page.click("main form[method=post] button[type=submit]")
    assert answered.value.status == 422
    context.close()


# --- trouble --------------------------------------------------------------------------------------------


def test_a_failed_update_says_so_and_is_tried_again(browser: Browser, live_server: Any, cast: Cast) -> None:
    context, page = opened(browser, live_server, cast)
    page.goto("/audit/")
    answers = [500, 200]

    def answer(route: Route) -> None:
        if route.request.headers.get("hx-request") and answers.pop(0) == 500:
            route.fulfill(status=500, body="broken")
        else:
            route.continue_()

    page.route("**/audit/**", answer)
    page.locator("#list-q").press_sequentially("x")
    trouble = page.locator("#cd-trouble")
    expect(trouble).to_be_visible()
    expect(trouble).to_contain_text("Something went wrong")
    trouble.get_by_role("button", name="Try again").click()
    expect(trouble).to_be_hidden()
    expect(page.locator("#list")).to_contain_text("No entry fits")
    assert answers == []
    context.close()


def test_a_desk_out_of_reach_is_told(browser: Browser, live_server: Any, cast: Cast) -> None:
    context, page = opened(browser, live_server, cast)
    page.goto("/audit/")
    context.set_offline(True)
    page.locator("#list-q").press_sequentially("x")
    trouble = page.locator("#cd-trouble")
    expect(trouble).to_contain_text("cannot be reached")
    trouble.get_by_role("button", name="Close").click()
    expect(trouble).to_be_hidden()
    context.close()


def test_who_was_signed_out_meanwhile_is_led_back_to_the_same_page(
    browser: Browser, live_server: Any, cast: Cast
) -> None:
    context, page = opened(browser, live_server, cast)
    page.goto("/audit/?q=mina")
    Session.objects.all().delete()
    page.locator("#list-q").fill("lena")
    trouble = page.locator("#cd-trouble")
    expect(trouble).to_contain_text("no longer signed in")
    # What is on the page stays there.
    expect(page.locator("#list")).to_be_visible()
    trouble.get_by_role("link", name="Sign in").click()
    page.fill("#id_login", "anouk")
    page.fill("#id_password", PASSWORD)
    page.click("main button[type=submit]")
    expect(page).to_have_url(re.compile(r"/audit/\?q="))
    context.close()


def test_a_form_sent_after_the_session_leads_back_to_the_form(
    browser: Browser, live_server: Any, cast: Cast
) -> None:
    context, page = opened(browser, live_server, cast)
    page.goto("/projects/tides/")
    Session.objects.all().delete()
    page.locator("form[action$='/members/'] input[name=username]").fill("stig")
    page.locator("form[action$='/members/'] button[type=submit]").click()
    expect(page.locator("main")).to_contain_text("what you sent was not kept")
    page.fill("#id_login", "anouk")
    page.fill("#id_password", PASSWORD)
    page.click("main button[type=submit]")
    expect(page).to_have_url("/projects/tides/")
    assert not Membership.objects.filter(user=cast.stranger, project=cast.project).exists()
    context.close()
