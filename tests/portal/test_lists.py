"""A list's address: what is read of it, what its links carry, how its columns are remembered."""

from typing import Any
from urllib.parse import parse_qs

import pytest
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.template import Context, Template
from django.test import RequestFactory
from django.utils import timezone

from portal.accounts.models import Project
from portal.lists import Choice, Column, Listing, ListState, clean_text

LISTING = Listing(
    "projects",
    columns=(
        Column("name", "Name", order=("name",), fixed=True),
        Column("centre", "Cost centre", order=("cost_centre",)),
        Column("archived", "Archived", order=("archived_at",), nullable=True),
        Column("note", "Description", shown=False),
    ),
    facets=(
        Choice("centre", "Cost centre", column="cost_centre", labels={"B": "Biology"}),
        Choice(
            "size",
            "Name",
            conditions={"short": Q(name__in=["a", "b"]), "long": Q(name__startswith="long")},
        ),
    ),
    search=("name", "description"),
    sort="name",
    keeps=("view",),
)


def request(query: str = "", **cookies: str) -> HttpRequest:
    made = RequestFactory().get(f"/projects/?{query}")
    made.COOKIES.update(cookies)
    return made


def read(query: str = "", *, own: str = "") -> ListState:
    return LISTING.read(request(query, **{LISTING.cookie: own}))


# --- reading ----------------------------------------------------------------------------------------


def test_nothing_asked_is_the_default() -> None:
    state = read()
    assert (state.text, state.chosen, state.sort, state.descending) == ("", {}, "name", False)
    assert state.columns == ("name", "centre", "archived")
    assert state.href() == "?"
    assert not state.narrows


@pytest.mark.parametrize(
    "query",
    [
        "sort=nonsense", "sort=-", "sort=note", "columns=nonsense", "columns=", "page=abc", "centre=",
        "q=%00", "centre=%00", "other=1", "remember=1",
    ],
)  # fmt: skip
def test_what_is_not_understood_falls_back(query: str) -> None:
    assert read(query).href() == "?"


def test_a_link_says_what_was_read_and_no_more() -> None:
    query = "q=x&centre=B&centre=C&view=tree&sort=-centre&columns=note,centre&page=7&size=short&q2=1"
    link = read(query).href()
    assert parse_qs(link[1:]) == {
        "q": ["x"],
        "centre": ["B", "C"],
        "size": ["short"],
        "view": ["tree"],
        "sort": ["-centre"],
        "columns": ["name,centre,note"],
    }
    assert read(link[1:]).href() == link


def test_links_replace_toggle_and_turn_round() -> None:
    state = read("q=x&centre=B&sort=centre")
    assert state.href(page=3, q="") == "?centre=B&sort=centre&page=3"
    assert state.toggled("centre", "B") == "?q=x&sort=centre"
    assert state.toggled("centre", "C") == "?q=x&centre=B&centre=C&sort=centre"
    assert state.sorted_by("centre") == "?q=x&centre=B&sort=-centre"
    assert state.sorted_by("name") == "?q=x&centre=B"


def test_text_is_bounded_and_clean() -> None:
    assert clean_text(" a\x00b ") == "ab"
    assert len(clean_text("x" * 5000)) == 253
    assert len(read("&".join(f"centre={n}" for n in range(200))).values("centre")) == 50


# --- columns ----------------------------------------------------------------------------------------


def test_columns_are_those_of_the_address_else_ones_own() -> None:
    assert read("", own="name.note").columns == ("name", "note")
    assert read("columns=archived", own="name.note").columns == ("name", "archived")
    assert read("", own="nonsense.<script>").columns == LISTING.default_columns
    assert read("", own="name.note").href() == "?", "one's own columns are nobody else's"


def remembered(query: str) -> HttpResponse:
    answer = LISTING.remembered(request(query))
    assert answer is not None
    return answer


def test_a_choice_of_columns_is_kept_and_leads_back_to_the_same_view() -> None:
    answer = remembered("q=x&columns=name&columns=note&remember=1&page=2")
    assert answer.status_code == 303
    assert answer["Location"] == "/projects/?q=x&columns=name%2Cnote"
    cookie = answer.cookies["columns-projects"]
    assert cookie.value == "name.note"
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"


@pytest.mark.parametrize("query", ["columns=&remember=1", "columns=name,centre,archived&remember=1"])
def test_the_default_columns_are_not_kept(query: str) -> None:
    answer = remembered(query)
    assert answer["Location"] == "/projects/?"
    assert answer.cookies["columns-projects"]["max-age"] == 0


def test_looking_at_a_shared_address_changes_nobodys_columns() -> None:
    assert LISTING.remembered(request("columns=name")) is None


# --- rows -------------------------------------------------------------------------------------------


@pytest.fixture
def projects(db: None) -> None:
    def make(name: str, **fields: Any) -> None:
        Project.objects.create(slug=name, name=name, created_at=timezone.now(), **fields)

    make("a", cost_centre="B")
    make("b", cost_centre="C", description="about folding", archived_at=timezone.now())
    make("long-one", cost_centre="B")


def names(query: str) -> list[str]:
    state = read(query)
    return [p.name for p in state.page(state.narrowed(Project.objects.all()))]


@pytest.mark.usefixtures("projects")
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["a", "b", "long-one"]),
        ("sort=-name", ["long-one", "b", "a"]),
        ("sort=archived", ["a", "long-one", "b"]),
        ("sort=-archived", ["b", "long-one", "a"]),
        ("q=FOLD", ["b"]),
        ("q=long+one", ["long-one"]),
        ("q=long+two", []),
        ("q=%25", []),
        ("centre=B", ["a", "long-one"]),
        ("centre=B&centre=C&size=short", ["a", "b"]),
        ("size=nonsense", []),
        ("page=99", ["a", "b", "long-one"]),
    ],
)
def test_rows_are_narrowed_and_ordered(query: str, found: list[str]) -> None:
    assert names(query) == found


@pytest.mark.usefixtures("projects")
def test_facets_narrow_each_other_but_not_themselves() -> None:
    centre, size = read("centre=B&size=short").facets(Project.objects.all())
    assert [(v.label, v.count, v.chosen) for v in centre.values] == [("Biology", 1, True), ("C", 1, False)]
    assert [(v.value, v.count) for v in size.values] == [("short", 1), ("long", 1)]
    assert (centre.chosen, size.chosen) == (1, 1)


@pytest.mark.usefixtures("projects")
def test_a_chosen_value_that_is_gone_is_still_offered_to_be_taken_back() -> None:
    centre, _size = read("centre=gone").facets(Project.objects.all())
    assert ("gone", 0, True) in [(v.value, v.count, v.chosen) for v in centre.values]


# --- what is drawn ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("projects")
def test_header_bar_and_form_are_drawn_from_the_state() -> None:
    state = read("q=%22%3E%3Cb%3E&centre=B&sort=-name&columns=name,centre")
    facets = state.facets(Project.objects.all())
    page = state.page(Project.objects.all())
    html = Template(
        "{% load lists %}{% list_form list facets %}{% list_bar list page facets %}"
        "<table>{% list_header list %}</table>{% list_pages list page %}{% list_updates facets %}"
    ).render(Context({"list": state, "facets": facets, "page": page}))
    assert "<b>" not in html
    assert 'aria-sort="descending"' in html
    assert "Archived</th>" not in html
    assert "format=csv" in html
    assert 'hx-swap-oob="true"' in html
    assert 'name="remember" value="1"' in html
