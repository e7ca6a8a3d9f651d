"""Opens pages in a browser, keeps a picture of each, and tells what is wrong with them."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.db import models
from playwright.sync_api import Browser, BrowserContext
from playwright.sync_api import Page as Tab

from portal.accounts.models import User
from tests.browser.plan import SIZES, Look
from tests.browser.sessions import sessions_of
from tests.browser.words import TECHNICAL

HERE = Path(__file__).parent
SCREENSHOTS = HERE.parent / "screenshots"
INSPECT = (HERE / "inspect.js").read_text(encoding="utf-8")
SEND_EMPTY = """() => {
  const form = document.querySelector("main form[method=post]");
  for (const field of form.querySelectorAll("input:not([type=hidden]), textarea")) {
    if (/radio|checkbox/.test(field.type)) field.checked = false; else field.value = "";
  }
  form.noValidate = true;
  form.requestSubmit(form.querySelector("[type=submit][value=save], [type=submit]:not([formnovalidate])"));
}"""
OUR_APPS = ("accounts", "inventory", "claims")
PATIENCE_MS = 20_000
TEXTUAL = (models.CharField, models.TextField, models.JSONField)


class Inspector:
    """One tab in one look. `complaints` are what was wrong with the pages so far."""

    def __init__(self, context: BrowserContext, look: Look, sessions: Mapping[str, str], base: str) -> None:
        self.look, self.sessions, self.base = look, sessions, base
        self.context = context
        self.tab: Tab = context.new_page()
        self.complaints: list[str] = []
        self._strangers: set[str] = set()
        self._where = self._role = ""
        self._known = sorted(_words_of_data() | TECHNICAL) if look.language == "zh-hans" else None
        self.tab.on("console", lambda message: self._heard(message.type, message.text))
        self.tab.on("pageerror", lambda error: self._heard("error", str(error)))

    def become(self, role: str) -> None:
        """From now on pages are opened by somebody of this role."""
        if role == self._role:
            return
        self._role = role
        self.context.clear_cookies(name="sessionid")
        if role in self.sessions:
            cookie: Any = {"name": "sessionid", "value": self.sessions[role], "url": self.base}
            self.context.add_cookies([cookie])

    def open(self, path: str, *, name: str, status: int = 200, picture: bool = True) -> None:
        """Open a page and, with `picture`, inspect it."""
        self._where = f"{name} {self.look}"
        response = self.tab.goto(self.base + path)
        assert response is not None
        if response.status != status:
            self._complain(f"answered {response.status}")
        elif picture:
            self.inspect(name)

    def submit_empty(self, name: str) -> None:
        """Send the main form of the open page without anything in it, and inspect the answer."""
        self._where = f"{name} {self.look}"
        with self.tab.expect_navigation():
            self.tab.evaluate(SEND_EMPTY)
        if not self.tab.locator("[aria-invalid=true], .cd-notice-error, .cd-field-error").count():
            self._complain("says nothing about what is missing")
        self.inspect(name)

    def inspect(self, name: str) -> None:
        """The page that is open now."""
        self._where = f"{name} {self.look}"
        width, _height = SIZES[self.look.size]
        found: dict[str, Any] = self.tab.evaluate(INSPECT, [self._known, PATIENCE_MS])
        self.tab.screenshot(path=SCREENSHOTS / f"{name}-{self.look}.png", full_page=True)
        if (found["theme"], found["language"]) != (self.look.theme, self.look.language):
            self._complain(f"is {found['theme']} and in {found['language']}")
        if found["width"] > width:
            self._complain(f"is {found['width']} wide")
        if len(found["headings"]) != 1 or not found["headings"][0]:
            self._complain(f"has the first headings {found['headings']}")
        if not re.fullmatch(r"\S.* · Claimdesk", found["title"]):
            self._complain(f"has the title {found['title']!r}")
        for text in found["violations"]:
            self._complain(text)
        # What stands on every page is told once.
        for text in set(found["strangers"]) - self._strangers:
            self._complain(f"is not in Chinese: {text}")
        self._strangers.update(found["strangers"])

    def _heard(self, kind: str, text: str) -> None:
        # That a page is told with the status of an error is what we asked for; the status itself is checked.
        if kind == "error" and not text.startswith("Failed to load resource"):
            self._complain(text)

    def _complain(self, text: str) -> None:
        self.complaints.append(f"{self._where}: {text}")


@contextmanager
def inspecting(browser: Browser, look: Look, users: Mapping[str, User], base: str) -> Iterator[Inspector]:
    """An inspector of this look; what it complains of fails the test at its end."""
    SCREENSHOTS.mkdir(exist_ok=True)
    width, height = SIZES[look.size]
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if look.theme == "dark" else "light",
        locale="zh-CN" if look.language == "zh-hans" else "en-GB",
        reduced_motion="reduce",
    )
    context.add_init_script(path=settings.NODE_MODULES / "axe-core" / "axe.min.js")
    inspector = Inspector(context, look, sessions_of(users), base)
    yield inspector
    context.close()
    if inspector.complaints:
        pytest.fail("\n".join(inspector.complaints), pytrace=False)


def _words_of_data() -> set[str]:
    """The words of what people and clusters wrote, which no page translates."""
    found: set[str] = set()
    for app in OUR_APPS:
        for model in apps.get_app_config(app).get_models():
            names = [
                field.attname
                for field in model._meta.concrete_fields
                if isinstance(field, (models.CharField, models.TextField, models.JSONField))
                and not field.choices
            ]
            for row in model._default_manager.values_list(*names) if names else ():
                found |= {word.lower() for value in row for word in re.findall(r"[A-Za-z'’]{2,}", str(value))}
    return found
