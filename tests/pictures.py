"""The pictures of the README, from a demo that runs: ``python -m tests.pictures http://127.0.0.1:8000``.

They are of a researcher's light English pages, 1280 × 800, and go to `docs/pictures`. Nothing is changed at
the desk: who wants to see more on them asks for something first, best for slices of GPUs, and holds it.
"""

import base64
import sys

from playwright.sync_api import Page, expect, sync_playwright

from portal.env import BASE_DIR
from portal.management.people import PASSWORD
from tests.chromium import CHROMIUM

FOLDER = BASE_DIR / "docs" / "pictures"
MAX_BYTES = 150_000


def sign_in(page: Page) -> None:
    page.goto("/accounts/login/")
    page.fill("input[name=login]", "rhea")
    page.fill("input[name=password]", PASSWORD)
    page.press("input[name=password]", "Enter")
    page.wait_for_url("**/")


def home(page: Page) -> None:
    page.goto("/")


def devices(page: Page) -> None:
    page.goto("/devices/?product=NVIDIA+A100-SXM4-40GB")


def request(page: Page) -> None:
    page.goto("/requests/new/?flavor=h100-80g")
    page.fill("input[name=count]", "2")
    page.press("input[name=count]", "Tab")
    expect(page.locator("#request-preview")).to_contain_text("EUR")


def partitions(page: Page) -> None:
    """The page of a partition that is held, where there is one: who has what of it, what is left."""
    page.goto("/devices/?q=mig&state=held")
    if not page.locator("main table tbody a[href^='/devices/']").count():
        page.goto("/devices/?q=MIG+7g.80gb")
    page.locator("main table tbody a[href^='/devices/']").first.click()
    page.wait_for_url("**/devices/*/")


PICTURES = (home, devices, request, partitions)


def take(address: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = browser.new_context(
            base_url=address,
            viewport={"width": 1280, "height": 800},
            color_scheme="light",
            locale="en-GB",
            reduced_motion="reduce",
        )
        page = context.new_page()
        # Playwright itself writes no WebP.
        chromium = context.new_cdp_session(page)
        sign_in(page)
        for picture in PICTURES:
            picture(page)
            page.wait_for_load_state("networkidle")
            taken = chromium.send("Page.captureScreenshot", {"format": "webp", "quality": 85})
            path = FOLDER / f"{picture.__name__}.webp"
            size = path.write_bytes(base64.b64decode(taken["data"]))
            sys.stdout.write(f"{path.relative_to(BASE_DIR)}: {size:,} bytes\n")
            if size > MAX_BYTES:
                sys.exit(f"{path.name} is larger than {MAX_BYTES:,} bytes")
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    take(sys.argv[1])
