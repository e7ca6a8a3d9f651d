"""The browser that tests look through."""

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

# A machine with much to do takes its time; what is waited for comes at once on others.
expect.set_options(timeout=30_000)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, with its sandbox off: tests may run as root, and it only ever sees our own pages."""
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
