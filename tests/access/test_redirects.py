"""Nobody is sent to another site, whatever an address or a form says about where to go next."""

import re
from urllib.parse import urljoin, urlsplit

import pytest
from django.test import Client

from tests.access import calls
from tests.access.bodies import body_of
from tests.access.table import Row, read
from tests.access.world import World, world

__all__ = ["world"]

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.everyrole,
    pytest.mark.xdist_group("access"),
    pytest.mark.timeout(300),
]

HERE = "http://testserver"
NAMES = ("next", "to", "back", "redirect", "return", "url", "redirect_uri")
HOSTILE = (
    "https://evil.example/",
    "//evil.example/",
    "///evil.example/",
    r"\\evil.example/",
    r"/\evil.example/",
    "/\t/evil.example/",
    "\x01https://evil.example/",
    "https:evil.example",
    "https:///evil.example/",
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "https://testserver@evil.example/",
    "https://testserver.evil.example/",
    "http://[::1]evil.example/",
)
LINK_ELSEWHERE = re.compile(r"(href|action|src)=.((https?:)?//evil|javascript:|data:text)")
# Everything that may answer with a redirect; pages that only show are left out.
ROWS = {str(row): row for row in read() if {"302", "303", "login"} & set(row.expected.values())}
# What reads where to go next is tried with every value, the others with one that most would fall for.
LISTENING = {
    f"{method} {name}"
    for method in ("GET", "POST")
    for name in ("account_login", "account_logout", "account_reauthenticate", "set_language", "oidc-login")
} & set(ROWS)


@pytest.mark.parametrize("call", sorted(LISTENING))
def test_hostile_values_lead_nowhere_else(call: str, world: World) -> None:
    for value in HOSTILE:
        for who in ("owner", "anonymous"):
            assert_stays(ROWS[call], world, who, value)


@pytest.mark.parametrize("call", sorted(set(ROWS) - LISTENING))
def test_no_other_call_listens_to_where_to_go(call: str, world: World) -> None:
    for who in ("administrator", "anonymous"):
        assert_stays(ROWS[call], world, who, "//evil.example/")


def assert_stays(row: Row, world: World, who: str, value: str) -> None:
    client: Client = world.browser(who)
    wanted = dict.fromkeys(NAMES, value)
    headers = {"Referer": value.replace("\x01", "").replace("\t", "")}
    url = calls.url_of(row, world)
    with calls.undone():
        if row.method == "GET":
            response = client.get(url, wanted, headers=headers)
        else:
            sent = body_of(str(row), world)
            assert isinstance(sent, dict), "no page is sent a list"
            body = {**wanted, **sent} | {"next": value}
            response = client.post(url, body, query_params=wanted, headers=headers)
        text = "" if response.streaming else response.content.decode(errors="replace")
    for header in ("Location", "HX-Redirect", "Refresh", "HX-Location"):
        if (target := response.headers.get(header)) is not None:
            there = urlsplit(urljoin(f"{HERE}{url}", as_a_browser_reads(target)))
            assert (there.scheme, there.netloc) == ("http", "testserver"), target
    assert not LINK_ELSEWHERE.search(text)


def as_a_browser_reads(target: str) -> str:
    """Browsers drop tabs, ends of lines and what stands before the scheme, and take \\ for /."""
    kept = "".join(c for c in target if c not in "\t\r\n").lstrip("".join(map(chr, range(33))))
    return kept.replace("\\", "/")
