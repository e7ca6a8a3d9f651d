"""A person with a browser that runs no JavaScript: follows links, fills in forms, reads pages."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests

TIMEOUT = 20.0


@dataclass
class Form:
    """A form as a page shows it, with the values that it would send unchanged."""

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)
    # Choices of the selects and radio groups: {field: {value: label}}.
    choices: dict[str, dict[str, str]] = field(default_factory=dict)


class _Reader(HTMLParser):
    """Collects forms, the texts of elements with an id or a data-state, and the visible text."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.states: list[str] = []
        self.words: list[str] = []
        self.by_id: dict[str, str] = {}
        self._open: list[tuple[str, str]] = []
        self._select = self._textarea = self._option = ""
        self._hidden = 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        if "data-state" in given:
            self.states.append(given["data-state"])
        if given.get("id") and tag in {"pre", "span", "div", "section"}:
            self._open.append((tag, given["id"]))
            self.by_id.setdefault(given["id"], "")
        elif self._open and tag == self._open[-1][0]:
            self._open.append((tag, ""))
        if tag in {"script", "style"}:
            self._hidden += 1
        self._form_part(tag, given)

    def _form_part(self, tag: str, given: dict[str, str]) -> None:
        if tag == "form":
            self.forms.append(Form(given.get("action", ""), given.get("method", "get").lower()))
        if not self.forms:
            return
        form, name = self.forms[-1], given.get("name", "")
        if tag == "input" and name and given.get("type") not in {"submit", "button"}:
            if given.get("type") in {"radio", "checkbox"}:
                form.choices.setdefault(name, {})[given.get("value", "on")] = given.get("value", "on")
                if "checked" not in given:
                    return
            form.fields[name] = given.get("value", "")
        elif tag == "select":
            self._select = name
            form.choices[name] = {}
        elif tag == "option" and self._select:
            self._option = given.get("value", "")
            form.choices[self._select][self._option] = ""
            if "selected" in given or self._select not in form.fields:
                form.fields[self._select] = self._option
        elif tag == "textarea" and name:
            self._textarea = name
            form.fields[name] = ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "select":
            self._select = self._option = ""
        if tag == "textarea":
            if self._textarea:
                # As browsers read it: a line break right after the tag is none of the text.
                fields = self.forms[-1].fields
                fields[self._textarea] = fields[self._textarea].removeprefix("\n")
            self._textarea = ""
        if tag in {"script", "style"}:
            self._hidden -= 1
        if self._open and tag == self._open[-1][0]:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._textarea:
            self.forms[-1].fields[self._textarea] += data
        elif self._select and self._option:
            self.forms[-1].choices[self._select][self._option] += data.strip()
        for _tag, identity in self._open:
            if identity:
                self.by_id[identity] += data
        if not self._hidden:
            self.words.append(data)


class Page:
    """An answer of the portal."""

    def __init__(self, response: requests.Response) -> None:
        self.response = response
        self.status = response.status_code
        self.url = response.url
        self._reader = _Reader()
        if "html" in response.headers.get("Content-Type", ""):
            self._reader.feed(response.text)

    @property
    def path(self) -> str:
        return urlsplit(self.url).path

    @property
    def text(self) -> str:
        """What a person reads, with single spaces."""
        return " ".join(" ".join(self._reader.words).split())

    @property
    def states(self) -> list[str]:
        """The states shown on the page, in order."""
        return self._reader.states

    @property
    def forms(self) -> list[Form]:
        return self._reader.forms

    def element(self, identity: str) -> str:
        """The text of the element with this id."""
        return self._reader.by_id[identity]

    def form(self, *, action: str = "", having: str = "") -> Form:
        """The POST form whose action ends with `action` and that has the field `having`."""
        for form in self.forms:
            if (
                form.method == "post"
                and (form.action or self.path).endswith(action)
                and (not having or having in form.fields)
            ):
                return form
        raise AssertionError(f"no form {action!r} with {having!r} on {self.url}: {self.text[:500]}")


class Visitor:
    """One person's session at the portal under `base`."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.session = requests.Session()
        self.session.headers["Accept-Language"] = "en"

    def get(self, path: str, **query: str) -> Page:
        response = self.session.get(urljoin(self.base, path), params=query, timeout=TIMEOUT)
        return Page(response)

    def submit(self, page: Page, form: Form, **fields: Any) -> Page:
        """Send a form of a page as it stands, but for these fields; redirects are followed."""
        unknown = set(fields) - set(form.fields) - set(form.choices)
        assert not unknown, f"the form of {page.url} has no field {', '.join(sorted(unknown))}"
        target = urljoin(page.url, form.action) if form.action else page.url
        response = self.session.post(
            target, data={**form.fields, **fields}, headers={"Referer": page.url}, timeout=TIMEOUT
        )
        return Page(response)

    def sign_in(self, username: str, password: str) -> Page:
        page = self.get("/accounts/login/")
        return self.submit(page, page.form(having="password"), login=username, password=password)
