"""Charts in a real browser: under the strict policy, in both themes, and with ten thousand bars."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from playwright.sync_api import Browser, Page, expect

from claims.models import Allocation
from inventory.models import Observation
from portal.accounts.models import User
from tests.cast import Cast
from tests.pages.fleet import cluster, devices

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
BARS = 10_000
LANES = 100
# A zoom from a week to an hour, frame by frame.
ZOOM = """async () => {
  for (let step = 0; step < 60; step++) {
    claimdeskCharts.timelines[0].zoom(0.92, 0.7);
    await new Promise(requestAnimationFrame);
  }
}"""


@pytest.fixture
def page(browser: Browser, live_server: Any, cast: Cast) -> Iterator[Page]:
    client = Client()
    client.force_login(User.objects.get(username="mina"))
    context = browser.new_context(
        base_url=live_server.url, viewport={"width": 1280, "height": 900}, color_scheme="light"
    )
    session = client.cookies["sessionid"].value
    context.add_cookies([{"name": "sessionid", "value": session, "url": live_server.url}])
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    assert complaints == []
    context.close()


@pytest.fixture
def month(cast: Cast) -> None:
    """A hundred devices that were held ten thousand times in the last week."""
    now, where = timezone.now(), cluster()
    fleet = devices(where, held=LANES)
    Observation.objects.create(
        cluster=where, kind="device-appeared", at=now - timedelta(days=5), source="observed",
        observed_at=now - timedelta(days=5), name="x", uid="", key="1",
        facts={"profile": "d", "unavailable": ""},
    )  # fmt: skip
    each = timedelta(days=7) / (BARS // LANES)
    Allocation.objects.bulk_create(
        Allocation(
            cluster=where, namespace="tides", claim_name=f"c{number}", claim_uid=f"u{number}", epoch=1,
            driver="gpu.example.com", pool_name=device.pool.name, device_name=device.name,
            node_name=device.node_name, request_name="r", start_source="observed", product="Beam 9",
            started_at=now - each * (number // LANES + 1),
            ended_at=now - each * (number // LANES + 0.2) if number >= LANES else None,
            project=cast.project if number % 3 else cast.other,
        )
        for number, device in zip(range(BARS), fleet * (BARS // LANES), strict=True)
    )  # fmt: skip


def painted(page: Page, selector: str) -> int:
    """How many different colours the canvas has."""
    return int(
        page.evaluate(
            """selector => {
              const canvas = document.querySelector(selector + " canvas");
              const pixels = new Uint32Array(
                canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer);
              return new Set(pixels).size;
            }""",
            selector,
        )
    )


def test_a_chart_is_drawn_from_its_table_and_follows_the_theme(page: Page, month: None) -> None:
    page.goto("/charts/")
    expect(page.locator("#occupancy canvas")).to_be_visible()
    light = page.screenshot(clip=page.locator("#occupancy canvas").bounding_box())
    assert painted(page, "#occupancy") > 3
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("html[data-bs-theme=dark]")
    assert page.screenshot(clip=page.locator("#occupancy canvas").bounding_box()) != light

    page.get_by_text("The numbers as a table").click()
    expect(page.locator("#occupancy tbody tr")).to_have_count(84)


def test_a_filter_draws_the_chart_anew_and_leaves_no_old_one(page: Page, month: None) -> None:
    page.goto("/charts/")
    for name in ("day", "month", "week"):
        page.select_option("#o-range", name)
        expect(page).to_have_url(f"/charts/?range={name}&product=&cluster=")
        expect(page.locator("#occupancy canvas")).to_be_visible()
    # Instances that are not disposed of are kept by the library for ever.
    alive = "[...document.querySelectorAll('[_echarts_instance_]')].length"
    assert page.evaluate(alive) == 1


def test_without_javascript_the_table_is_there(
    browser: Browser, live_server: Any, cast: Cast, month: None
) -> None:
    client = Client()
    client.force_login(cast.member)
    context = browser.new_context(base_url=live_server.url, java_script_enabled=False)
    session = client.cookies["sessionid"].value
    context.add_cookies([{"name": "sessionid", "value": session, "url": live_server.url}])
    page = context.new_page()
    page.goto("/charts/")
    expect(page.locator("#occupancy .cd-chart-canvas")).to_be_hidden()
    page.get_by_text("The numbers as a table").click()
    expect(page.locator("#occupancy tbody tr").first).to_be_visible()
    context.close()


def test_ten_thousand_bars_are_few_elements_and_load_what_comes_into_sight(page: Page, month: None) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "timeline.json" in request.url else None)
    page.goto("/history/")
    expect(page.locator(".cd-timeline-legend")).to_contain_text("Tidal models")
    expect(page.locator(".cd-timeline tbody tr")).to_have_count(LANES)
    assert painted(page, ".cd-timeline") > 3
    count = "claimdeskCharts.timelines[0].lanes.reduce((sum, lane) => sum + lane.bars.length, 0)"
    drawn = "claimdeskCharts.timelines[0].chart.getZr().storage.getDisplayList(true).length"
    assert page.evaluate(count) == BARS
    # One path per lane in sight and colour, besides axes and labels.
    assert page.evaluate(drawn) < 400

    before = page.locator(".cd-timeline-window").inner_text()
    page.evaluate(ZOOM)
    expect(page.locator(".cd-timeline-window")).not_to_have_text(before)
    assert len(asked) == 1

    # Two weeks back nothing is there yet.
    with page.expect_response(lambda response: "timeline.json" in response.url):
        page.evaluate("claimdeskCharts.timelines[0].show(Date.now() - 15 * 864e5, Date.now() - 14 * 864e5)")
    expect(page.locator(".cd-timeline-note")).to_have_text("Nothing was held in this time.")


def test_the_timeline_can_be_used_without_a_mouse_and_tells_what_is_under_it(page: Page, month: None) -> None:
    page.goto("/history/")
    window = page.locator(".cd-timeline-window")
    expect(window).not_to_be_empty()
    for name in ("Zoom in", "Earlier", "Later", "Zoom out", "day", "month"):
        before = window.inner_text()
        button = page.locator(".cd-timeline").get_by_role("button", name=name, exact=True)
        button.focus()
        page.keyboard.press("Enter")
        expect(window).not_to_have_text(before)

    box = page.locator(".cd-timeline canvas").bounding_box()
    assert box is not None
    page.get_by_role("button", name="day", exact=True).click()
    tip = page.locator(".cd-chart-tip")
    # The day may still be on its way: what is under the mouse is told when it moves.
    for step in range(30):
        page.mouse.move(box["x"] + box["width"] - 40 - step % 2, box["y"] + 20)
        if "held now" in tip.inner_text():
            break
        page.wait_for_timeout(500)
    expect(tip).to_be_visible()
    expect(tip).to_contain_text("held now")
