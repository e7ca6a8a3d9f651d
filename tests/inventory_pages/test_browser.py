"""What a person does with the device browser and the class editor, in a real browser."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from inventory.models import Pod, ResourceSlice
from tests.inventory_pages.conftest import Cast, Fleet
from tests.inventory_pages.factories import hold, make_device, make_pool, make_profile

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True), pytest.mark.timeout(180)]


@pytest.fixture
def page(browser: Browser, live_server: Any, cast: Cast, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page of somebody signed in (`role` marks who; else the owner), relative to the desk's address."""
    mark = request.node.get_closest_marker("parametrize")
    role = mark.args[1][0] if mark and mark.args[0] == "role" else "owner"
    context = browser.new_context(base_url=live_server.url, viewport={"width": 1280, "height": 900})
    session = cast.client(role).cookies["sessionid"].value
    context.add_cookies([{"name": "sessionid", "value": session, "url": live_server.url}])
    opened = context.new_page()
    complaints: list[str] = []
    opened.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    yield opened
    assert complaints == []
    context.close()


def test_facets_narrow_the_list_and_the_address_follows(page: Page, fleet: Fleet) -> None:
    page.goto("/devices/")
    expect(page.locator(".inv-count")).to_have_text("5 devices")
    page.get_by_role("checkbox", name="unavailable").check()
    expect(page.locator(".inv-count")).to_have_text("3 devices")
    expect(page).to_have_url("/devices/?state=unavailable")
    # The list was drawn anew around the box that has the focus.
    expect(page.get_by_role("checkbox", name="unavailable")).to_be_focused()
    page.get_by_role("checkbox", name="AMD").first.check()
    expect(page.locator(".inv-count")).to_have_text("2 devices")
    page.get_by_role("link", name="Clear all").click()
    expect(page.locator(".inv-count")).to_have_text("5 devices")


def test_typing_searches_and_going_back_returns(page: Page, fleet: Fleet) -> None:
    page.goto("/devices/")
    page.keyboard.press("/")
    page.keyboard.type("gpu-02")
    expect(page.locator(".inv-count")).to_have_text("2 devices")
    expect(page).to_have_url("/devices/?q=gpu-02")
    page.get_by_role("link", name="gpu-0", exact=True).first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("AMD Instinct MI300X OAM")
    page.go_back()
    expect(page.locator(".inv-count")).to_have_text("2 devices")
    expect(page.locator("#device-q")).to_have_value("gpu-02")


def test_which_pods_hold_which_instances_of_a_gpu_is_one_glance(page: Page, fleet: Fleet) -> None:
    def uses(memory: str) -> list[dict[str, Any]]:
        return [{"counterSet": "gpu-0-set", "counters": {"memory": {"value": memory}}}]

    pool = make_pool(fleet.cluster, "mig-01")
    full = make_device(
        fleet.cluster, "gpu-0", node="mig-01", pool=pool, state="unavailable", reason="counters-used",
        published={"name": "gpu-0", "consumesCounters": uses("80Gi")},
    )  # fmt: skip
    mig = make_profile("NVIDIA H100 MIG 1g.10gb", kind="partition", memory="10Gi")
    for number in range(2):
        name = f"gpu-0-mig-{number}"
        part = make_device(
            fleet.cluster, name, node="mig-01", pool=pool, profile=mig,
            published={"name": name, "consumesCounters": uses("10Gi")},
        )  # fmt: skip
        if number:
            hold(part, namespace="protein-folding", claim="notebook", pod="notebook-pod")
    published = ResourceSlice.objects.get(pool=pool)
    counters = [{"name": "gpu-0-set", "counters": {"memory": {"value": "80Gi"}}}]
    published.manifest["spec"]["sharedCounters"] = counters
    published.save()
    uses_claim = [{"container": "jupyter", "claim": "gpu", "request": ""}]
    Pod.objects.filter(name="notebook-pod").update(claim_uses=uses_claim)
    page.goto(f"/devices/{full.pk}/")
    region = page.get_by_role("region", name="Cut from the same hardware")
    rows = region.locator("tbody tr")
    expect(rows.filter(has_text="gpu-0-mig-1")).to_contain_text("Protein folding")
    expect(rows.filter(has_text="gpu-0-mig-1")).to_contain_text("notebook-pod")
    expect(rows.filter(has_text="gpu-0-mig-1")).to_contain_text("container jupyter")
    expect(rows.filter(has_text="gpu-0-mig-0")).to_contain_text("free")
    expect(region.get_by_role("listitem").filter(has_text="gpu-0-set")).to_contain_text(
        "70 GiB of 80 GiB left"
    )
    # From the device to the pool, and to those like it.
    page.get_by_role("link", name="mig-01", exact=True).last.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("mig-01")


def test_a_cel_expression_is_checked_while_it_is_typed_and_moves_the_list(page: Page, fleet: Fleet) -> None:
    page.goto("/devices/")
    page.get_by_text("Expression (CEL)").click()
    page.fill("#device-cel", 'device.driver == "gpu.amd.com"')
    expect(page.locator("#cel-check")).to_contain_text("matches 2 devices, 0 free")
    expect(page.locator(".inv-count")).to_have_text("2 devices")
    expect(page).to_have_url(re.compile(r"cel=device\.driver"))
    # What cannot be read shows its place, and the list stays as it was.
    page.fill("#device-cel", 'device.driver == "gpu.amd.com" &&& true')
    expect(page.locator("#cel-check")).to_contain_text("Line 1, column 34")
    expect(page.locator("#device-cel")).to_be_focused()
    expect(page.locator(".inv-count")).to_have_text("2 devices")
    page.fill("#device-cel", "")
    expect(page.locator(".inv-count")).to_have_text("5 devices")


def test_columns_are_chosen_by_keyboard_and_stay(page: Page, fleet: Fleet) -> None:
    page.goto("/devices/?vendor=NVIDIA")
    page.locator(".cd-columns-menu > summary").focus()
    page.keyboard.press("Enter")
    page.get_by_role("checkbox", name="Hardware id").focus()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Apply").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("columnheader", name="Hardware id")).to_be_visible()
    expect(page).to_have_url(re.compile("vendor=NVIDIA.*columns="))
    page.goto("/devices/")
    expect(page.get_by_role("columnheader", name="Hardware id")).to_be_visible()


def test_facets_of_a_list_narrow_it_and_stay_open(page: Page, fleet: Fleet) -> None:
    page.goto("/nodes/")
    page.get_by_text("Condition", exact=True).first.click()
    page.get_by_role("checkbox", name="cordoned").check()
    expect(page.locator(".cd-list-count")).to_have_text("1 entry")
    expect(page).to_have_url(re.compile(r"\?condition=cordoned$"))
    # The menu is still open, its box has the focus, and its counts are new.
    expect(page.get_by_role("checkbox", name="cordoned")).to_be_focused()
    expect(page.locator("#facet-condition-chosen")).to_have_text("1")
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("gpu-01")
    expect(page.get_by_text("No node matches")).to_be_visible()


@pytest.mark.parametrize("role", ["administrator"])
def test_an_expression_is_checked_while_it_is_typed(page: Page, fleet: Fleet, role: str) -> None:
    page.goto("/create-class/")
    page.fill("#expression-1", 'device.driver == "gpu.nvidia.com"')
    expect(page.locator("#check-1")).to_contain_text("matches 3 devices of berlin, 1 free")
    page.fill("#expression-1", 'device.driver == "gpu.nvidia.com" &&& true')
    expect(page.locator("#check-1")).to_contain_text("Line 1, column 37")
    page.get_by_role("button", name="Another expression").click()
    expect(page.locator("textarea[name=expression]")).to_have_count(2)
    expect(page.locator("#check-1")).to_contain_text("Line 1, column 37")


@pytest.mark.parametrize("role", ["administrator"])
def test_a_class_is_written_with_completion_guard_and_effect(page: Page, fleet: Fleet, role: str) -> None:
    page.goto("/classes/berlin/gpu.nvidia.com/edit/")
    effect = page.locator("#effect")
    expect(effect).to_contain_text("3 → 3")
    box = page.get_by_label("Expression 1")
    box.fill("")
    box.press_sequentially("productN")
    choices = page.get_by_role("listbox")
    expect(choices).to_contain_text('device.attributes["gpu.nvidia.com"].productName')
    page.keyboard.press("Escape")
    expect(choices).to_be_hidden()
    # Chosen with the keyboard alone, with the value that most devices have.
    page.keyboard.press("Control+Space")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(box).to_have_value('device.attributes["gpu.nvidia.com"].productName == "NVIDIA H100 80GB HBM3"')
    expect(page.locator("#check-1")).to_contain_text("For some devices it fails")
    expect(effect).to_contain_text("lacks gpu.nvidia.com/productName")
    page.get_by_role("button", name="Use this").click()
    expect(box).to_have_value(re.compile('^device.driver == "gpu.nvidia.com" && device'))
    expect(page.locator("#check-1")).not_to_contain_text("For some devices it fails")
    expect(effect).not_to_contain_text("lacks")
    expect(effect).to_contain_text("Claims that wait")
    page.get_by_role("button", name="Edit as YAML").click()
    expect(page.get_by_label("The class as YAML")).to_have_value(re.compile("kind: DeviceClass"))
    expect(effect).to_contain_text("Claims that wait")
    page.get_by_role("button", name="Edit as a form").click()
    expect(page.get_by_label("Expression 1")).to_have_value(re.compile("^device.driver =="))
