"""Pages by cursor: all rows, each once, in both directions, however many are alike."""

import base64
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from django.db.models import QuerySet
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.test import APIRequestFactory

from portal.accounts.models import Project
from portal.cursors import CursorPages

THEN = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
ORDERINGS = [("created_at", "id"), ("-created_at", "-id"), ("id",), "-slug"]


@pytest.fixture
def projects(db: None) -> list[Project]:
    """Eleven of one instant, between two others."""
    times = [THEN.replace(year=2025), *[THEN] * 11, THEN.replace(year=2027)]
    return Project.objects.bulk_create(
        [Project(slug=f"p{n:02}", name=str(n), created_at=at) for n, at in enumerate(times)]
    )


def page(ordering: Any, cursor: str | None, rows: QuerySet[Project] | None = None, limit: int = 3) -> Any:
    asked = {"limit": limit} | ({} if cursor is None else {"cursor": cursor})
    request, pages = Request(APIRequestFactory().get("/", asked)), CursorPages()
    rows = Project.objects.all() if rows is None else rows
    found = pages.paginate_queryset(rows, request, SimpleNamespace(ordering=ordering))
    assert found is not None
    links = [_cursor(link) for link in (pages.get_next_link(), pages.get_previous_link())]
    return [row.pk for row in found], *links


def _cursor(link: str | None) -> str | None:
    return parse_qs(urlsplit(link).query)["cursor"][0] if link else None


def cursor_of(*said: Any) -> str:
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(said)).decode()


@pytest.mark.parametrize("ordering", ORDERINGS)
@pytest.mark.parametrize("limit", [1, 3, 13, 20])
def test_there_and_back_every_row_comes_once(projects: list[Project], ordering: Any, limit: int) -> None:
    names = (ordering,) if isinstance(ordering, str) else ordering
    expected = list(Project.objects.order_by(*names).values_list("pk", flat=True))
    there, cursor = [], None
    while True:
        found, following, before = page(ordering, cursor, limit=limit)
        assert (before is None) == (cursor is None)
        there += found
        if following is None:
            break
        cursor = following
    back = list(found)
    while before is not None:
        found, following, before = page(ordering, before, limit=limit)
        assert following is not None
        back = found + back

    assert there == back == expected


def test_what_comes_and_goes_meanwhile_hides_and_doubles_nothing(projects: list[Project]) -> None:
    first, following, _before = page(("created_at", "id"), None)
    Project.objects.filter(pk__in=[first[0], first[2]]).delete()
    Project.objects.create(slug="earlier", name="earlier", created_at=THEN.replace(year=2024))
    second, _following, before = page(("created_at", "id"), following)

    assert second == [project.pk for project in projects[3:6]]
    assert page(("created_at", "id"), before)[0][-1] == first[1]


def test_a_page_that_is_empty_by_now_leads_back(projects: list[Project]) -> None:
    _first, following, _before = page("id", None)
    Project.objects.filter(pk__gte=projects[3].pk).delete()
    found, following, before = page("id", following)

    assert (found, following) == ([], None)
    assert page("id", before)[0] == [project.pk for project in projects[:2]]


def test_a_page_begins_in_an_index(projects: list[Project]) -> None:
    _found, following, _before = page("id", None)
    told: list[str] = []

    class Noted(QuerySet[Project]):
        def __iter__(self) -> Any:
            told.append(str(self.query))
            return super().__iter__()

    page("id", following, Noted(Project))

    # One condition on all that it is ordered by, and no offset: what lies before is not gone through.
    (statement,) = told
    assert '("accounts_project"."id") > (' in statement
    assert "OFFSET" not in statement


@pytest.mark.parametrize(
    "cursor",
    [
        "nonsense", "!!", "ä", "W10", base64.b64encode(b"o=3&p=2026-01-01").decode(), cursor_of(),
        cursor_of(False, []), cursor_of(False, ["2026-01-01T00:00:00+00:00"]),
        cursor_of(False, ["2026-01-01T00:00:00+00:00", "1", "2"]), cursor_of(1, ["x"]),
        cursor_of(False, ["2026-01-01T00:00:00", "1"]), cursor_of(False, ["yesterday", "1"]),
        cursor_of(True, ["2026-01-01T00:00:00+00:00", "notanid"]),
        cursor_of(True, ["2026-01-01T00:00:00+00:00", "1\x00"]),
        cursor_of(False, ["2026-01-01T00:00:00+00:00", {"a": 1}]),
    ],
)  # fmt: skip
def test_a_cursor_that_no_page_gave_out_is_not_found(projects: list[Project], cursor: str) -> None:
    with pytest.raises(NotFound):
        page(("created_at", "id"), cursor)


def test_no_cursor_is_the_beginning(projects: list[Project]) -> None:
    assert page("id", "") == page("id", None)


def test_a_position_beyond_everything_is_one(projects: list[Project]) -> None:
    beyond = cursor_of(True, ["2999-01-01T00:00:00+00:00", "9" * 18])

    assert page(("created_at", "id"), beyond)[0] == [project.pk for project in projects[-3:]]
