"""REST of allocations: filters, pages, formats of any size, versions, and who may see what."""

import csv
import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from claims.ledger import storage
from claims.models import Allocation, Consumer, Request, RequestClaim
from claims.rest.allocations import COLUMNS
from inventory.models import Cluster, Observation
from portal.accounts.models import Project, User
from tests.claims.conftest import NOW, Cast
from tests.claims.mirror import observe
from tests.claims.test_ledger_units import scheduled

Kind = Observation.Kind
URL = "/api/v1/allocations/"


@pytest.fixture
def ledger(request_: Request, cluster: Cluster) -> Request:
    """The request's claim for an hour, one of nobody known, and a Pod's units."""
    request_.object_uid = "claim-1"
    request_.save()
    RequestClaim.objects.create(
        cluster=cluster, claim_uid="claim-1", claim_name="c", request=request_, seen_at=NOW
    )
    consumer = {"resource": "pods", "name": "train-0", "uid": "pod-9"}
    observe(request_, Kind.CLAIM_ALLOCATED, 0)
    observe(request_, Kind.CONSUMER_JOINED, 1, consumer=consumer)
    observe(request_, Kind.CLAIM_RELEASED, 60)
    observe(request_, Kind.CLAIM_ALLOCATED, 100, uid="foreign")
    scheduled(cluster, 30, count=3)
    storage.apply(cluster=cluster)
    return request_


def get(user: User, query: str = "", **headers: str) -> Any:
    client = Client()
    client.force_login(user)
    return client.get(f"{URL}?{query}", headers=headers)


def results(user: User, query: str = "") -> list[dict[str, Any]]:
    response = get(user, query)
    assert response.status_code == 200, response.content
    found: list[dict[str, Any]] = response.json()["results"]
    return found


def body(response: Any) -> str:
    assert response.status_code == 200
    return b"".join(response.streaming_content).decode()


def test_an_interval_tells_its_facts_as_they_were(cast: Cast, ledger: Request) -> None:
    units, claim = results(cast.owner, "kind=units")[0], results(cast.owner, f"request={ledger.key}")[0]
    assert (units["units"], units["replicas"], units["extended_resource"]) == (3, 4, "nvidia.com/gpu")
    assert (claim["started_at"], claim["ended_at"]) == ("2026-11-10T12:00:00Z", "2026-11-10T13:00:00Z")
    assert (claim["claim_uid"], claim["epoch"], claim["bound"]) == ("claim-1", 1, "tenant")
    assert (claim["person"], claim["consumers"], claim["profile"]) == ("rhea", ["train-0"], "digest-H100")


@pytest.mark.parametrize(
    ("uses", "told"),
    [
        (None, None), ([], []), ([["main", ""], ["log", ""]], ["main", "log"]),
        ([["main", "gpu"], ["net", "nic"], ["both", ""]], ["main", "both"]),
        ([["main", "gpu/large"], ["small", "gpu/small"]], ["main"]),
    ],
)  # fmt: skip
def test_a_pods_containers_are_those_that_use_the_very_device(
    cast: Cast, request_: Request, cluster: Cluster, uses: Any, told: Any
) -> None:
    consumer = {"resource": "pods", "name": "train-0", "uid": "pod-9"}
    known = {} if uses is None else {"containers": uses}
    observe(request_, Kind.CLAIM_ALLOCATED, 0)
    observe(request_, Kind.CONSUMER_JOINED, 1, consumer=consumer | known)
    storage.apply(cluster=cluster)
    Allocation.objects.update(request_name="gpu/large")
    (row,) = results(cast.owner)
    assert [stay["containers"] for stay in row["stays"]] == [told]
    assert [row["stays"] for row in results(cast.stranger)] == [[]]
    before = list(Consumer.objects.values())
    assert before[0]["containers"] == uses
    storage.rebuild(cluster=cluster)
    assert list(Consumer.objects.values()) == before


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 3), ("kind=claim", 2), ("class=h100", 2), ("class=x", 0), ("person=rhea", 1), ("person=leo", 0),
        ("pod=train-0", 1), ("pod=pod-9", 1), ("pod=work", 1), ("pod=x", 0), ("request=x", 0),
        ("running=1", 2), ("from=2026-11-10T13:00Z", 2), ("to=2026-11-10T12:30Z", 1), ("node=node-a", 1),
    ],
)  # fmt: skip
def test_filters_narrow(cast: Cast, ledger: Request, query: str, count: int) -> None:
    assert len(results(cast.admin, query)) == count
    assert len(results(cast.owner, query)) == count


@pytest.mark.parametrize("query", ["person=rhea", "pod=train-0", "pod=pod-9", "person=rhea&format=ndjson"])
def test_who_used_what_is_not_found_out_by_filters(cast: Cast, ledger: Request, query: str) -> None:
    response = get(cast.stranger, query)
    if "format" in query:
        assert body(response) == ""
    else:
        assert response.json()["results"] == []
    for row in results(cast.stranger):
        assert (row["claim"], row["claim_uid"], row["person"], row["request"]) == ("", "", "", None)


@pytest.mark.parametrize("query", ["from=yesterday", "kind=pods", "from=2026-11-02&to=2026-11-01T00:00Z"])
def test_what_cannot_be_read_is_named_in_every_format(cast: Cast, ledger: Request, query: str) -> None:
    for form in ("", "&format=csv", "&format=ndjson"):
        response = get(cast.owner, query + form)
        assert response.status_code == 400
        assert response["Content-Type"] == "application/problem+json"
        assert response.json()["errors"]
    assert get(cast.owner, "format=xlsx").status_code == 400
    assert get(cast.owner, accept="text/html,image/png").status_code == 406


def test_all_formats_say_the_same(cast: Cast, ledger: Request) -> None:
    pages = results(cast.owner)
    lines = body(get(cast.owner, "format=ndjson")).splitlines()
    assert [json.loads(line) for line in lines] == pages
    told = list(csv.DictReader(StringIO(body(get(cast.owner, accept="text/csv")))))
    assert list(told[0]) == list(COLUMNS)
    assert [row["id"] for row in told] == [str(row["id"]) for row in pages]
    claim = next(row for row in told if row["claim_uid"] == "claim-1")
    assert (claim["consumers"], claim["admin_access"], claim["capacity"]) == ("train-0", "false", "")


def test_pages_lead_through_all_rows_once(cast: Cast, ledger: Request) -> None:
    seen, query = [], "limit=1"
    while query:
        page = get(cast.owner, query).json()
        seen += [row["id"] for row in page["results"]]
        query = page["next"].partition("?")[2] if page["next"] else ""
    assert seen == [row["id"] for row in results(cast.owner)]
    assert len(set(seen)) == 3


@pytest.mark.parametrize("form", ["json", "csv", "ndjson"])
def test_who_has_this_version_gets_nothing_again(
    cast: Cast, ledger: Request, cluster: Cluster, form: str
) -> None:
    first = get(cast.owner, f"format={form}")
    again = get(cast.owner, f"format={form}", if_none_match=first["ETag"])
    assert (again.status_code, again["ETag"]) == (304, first["ETag"])
    # Another reader, another question, and another ledger are other versions.
    assert get(cast.stranger, f"format={form}")["ETag"] != first["ETag"]
    assert get(cast.owner, f"format={form}&running=1")["ETag"] != first["ETag"]
    observe(ledger, Kind.CLAIM_RELEASED, 120, uid="foreign")
    storage.apply(cluster=cluster)
    assert get(cast.owner, f"format={form}", if_none_match=first["ETag"]).status_code == 200


@pytest.mark.parametrize("form", ["json", "csv"])
def test_a_name_that_changes_makes_another_version(cast: Cast, ledger: Request, form: str) -> None:
    changes: list[tuple[Any, dict[str, str]]] = [
        (Project.objects.filter(slug="protein-folding"), {"slug": "folding"}),
        (Cluster.objects.all(), {"name": "other"}),
        (User.objects.filter(username="rhea"), {"username": "rhea.m"}),
    ]
    for rows, changed in changes:
        known = get(cast.owner, f"format={form}")["ETag"]
        assert get(cast.owner, f"format={form}", if_none_match=known).status_code == 304
        rows.update(**changed)
        assert get(cast.owner, f"format={form}", if_none_match=known).status_code == 200


def test_a_stream_asks_the_database_no_more_for_more_rows(
    cast: Cast, ledger: Request, cluster: Cluster
) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            body(get(cast.owner, "format=ndjson"))
        return len(seen)

    few = queries()
    for number in range(30):
        observe(ledger, Kind.CLAIM_ALLOCATED, 400 + number, uid=f"more-{number}", devices=[
            {"driver": "d", "pool": "p", "device": f"g{number}", "request": "r"},
        ])  # fmt: skip
    storage.apply(cluster=cluster)
    assert Allocation.objects.filter(started_at__gte=NOW + timedelta(minutes=400)).count() == 30
    assert queries() == few


@pytest.mark.parametrize("query", ["projects=x", "running=maybe", "page=2", "from=yesterday", "kind=pods"])
@pytest.mark.parametrize("form", ["json", "csv"])
def test_what_is_misspelt_is_refused_and_not_ignored(
    cast: Cast, ledger: Request, query: str, form: str
) -> None:
    """Else a program would take everything for what it has asked for."""
    response = get(cast.owner, f"{query}&format={form}")
    assert response.status_code == 400
    assert query.split("=", maxsplit=1)[0] in response.content.decode()
    assert get(cast.owner, f"limit=1&running=false&format={form}").status_code == 200


def test_pages_of_what_touches_a_period_go_through_all_its_parts(cast: Cast, ledger: Request) -> None:
    """Also of what began days and months before it, forwards and back."""
    for number, days in enumerate((1, 3, 20, 40, 400)):
        Allocation.objects.create(
            cluster=ledger.cluster, claim_uid=f"old{number}", epoch=1, device_name=f"g{number}",
            namespace="n", started_at=NOW - timedelta(days=days),
        )  # fmt: skip
    query = "from=2026-11-10T12:00Z&to=2026-11-10T15:00Z"
    whole = [row["id"] for row in results(cast.auditor, query)]
    assert len(whole) == 8
    client = Client()
    client.force_login(cast.auditor)
    there: list[int] = []
    pages = [f"{URL}?{query}&limit=3"]
    while pages[-1]:
        answer = client.get(pages[-1]).json()
        there += [row["id"] for row in answer["results"]]
        pages.append(answer["next"])
    assert there == whole
    back = client.get(client.get(pages[-2]).json()["previous"]).json()
    assert [row["id"] for row in back["results"]] == whole[3:6]
