"""The list of requests and of history: facets, columns, CSV – within what the reader may see."""

import csv
import io
from typing import Any

import pytest
from django.test import Client

from claims.models import Request
from portal.accounts.models import User
from tests.claims.conftest import Cast


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def rows(client: Client, path: str) -> list[dict[str, str]]:
    response = client.get(path)
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    text = b"".join(response.streaming_content).decode("utf-8-sig")  # type: ignore[attr-defined] # it streams
    return list(csv.DictReader(io.StringIO(text)))


def facets(client: Client, query: str = "") -> dict[str, dict[str, int]]:
    found: Any = client.get(f"/requests/?{query}").context["facets"]
    return {facet.name: {value.value: value.count for value in facet.values} for facet in found}


@pytest.mark.parametrize("who", ["owner", "teammate", "lead", "admin", "auditor"])
def test_members_and_readers_of_everything_export_requests(who: str, cast: Cast, request_: Request) -> None:
    (row,) = rows(signed_in(getattr(cast, who)), "/requests/?format=csv")
    assert (row["name"], row["state"], row["project"]) == (
        request_.object_name,
        request_.state,
        request_.project.slug,
    )


@pytest.mark.parametrize("who", ["stranger", "finance"])
def test_others_export_and_count_nothing(who: str, cast: Cast, request_: Request) -> None:
    client = signed_in(getattr(cast, who))
    assert rows(client, "/requests/?format=csv") == []
    assert facets(client) == {"state": {}, "project": {}, "cluster": {}, "mine": {}}


def test_facets_count_what_the_others_leave(cast: Cast, request_: Request) -> None:
    told = facets(signed_in(cast.owner))
    assert told["state"] == {"active": 1, request_.state: 1}
    assert told["project"] == {request_.project.slug: 1}
    assert told["mine"] == {"1": 1}
    assert facets(signed_in(cast.teammate))["mine"] == {}
    assert facets(signed_in(cast.owner), "state=over")["project"] == {}


def test_a_purpose_that_a_spreadsheet_would_run_is_defused(cast: Cast, request_: Request) -> None:
    Request.objects.filter(pk=request_.pk).update(purpose="=HYPERLINK(1)")
    (row,) = rows(signed_in(cast.owner), "/requests/?format=csv&q=hyperlink")
    assert row["purpose"] == "'=HYPERLINK(1)"


@pytest.mark.parametrize("path", ["/requests/", "/history/"])
def test_columns_and_order_are_in_the_address(path: str, cast: Cast, request_: Request) -> None:
    client = signed_in(cast.owner)
    listing = client.get(path).context["list"].listing
    every = ",".join(column.name for column in listing.columns)
    for column in listing.columns:
        for sort in (column.name, f"-{column.name}") if column.order else ():
            assert client.get(f"{path}?columns={every}&sort={sort}").status_code == 200
    assert client.get(f"{path}?columns={every}&remember=1").status_code == 303
