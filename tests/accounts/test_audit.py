"""The audit trail: append-only, complete, for the right eyes."""

import csv
import io
from typing import Any

import pytest
from django.test import Client, RequestFactory

from portal.accounts.audit import changes, record, source_ip
from portal.accounts.models import AppendOnlyError, AuditEntry, User
from tests.cast import NOW, Cast

pytestmark = pytest.mark.django_db


@pytest.fixture
def entry(cast: Cast) -> AuditEntry:
    return record(
        now=NOW,
        actor=cast.administrator,
        action="project.change",
        target=cast.project,
        project=cast.project,
        before={"name": "Tides"},
        after={"name": "=Tidal models"},
        source_ip="192.0.2.7",
    )


def test_an_entry_says_who_changed_what_from_where(entry: AuditEntry, cast: Cast) -> None:
    assert (entry.actor, entry.target_kind, entry.target_id) == (
        cast.administrator,
        "project",
        str(cast.project.pk),
    )
    assert (entry.target_name, entry.source_ip) == ("Tidal models", "192.0.2.7")


def test_an_entry_is_never_changed_nor_deleted(entry: AuditEntry) -> None:
    entry.action = "nothing.happened"
    with pytest.raises(AppendOnlyError):
        entry.save()
    with pytest.raises(AppendOnlyError):
        entry.delete()
    with pytest.raises(AppendOnlyError):
        AuditEntry.objects.filter(pk=entry.pk).update(action="x")
    with pytest.raises(AppendOnlyError):
        AuditEntry.objects.all().delete()
    with pytest.raises(AppendOnlyError):
        AuditEntry.objects.bulk_update([entry], ["action"])
    assert AuditEntry.objects.get().action == "project.change"


@pytest.mark.parametrize(
    ("proxies", "forwarded", "expected"),
    [
        (0, None, "192.0.2.1"),
        (0, "203.0.113.9", "192.0.2.1"),
        (1, "203.0.113.9", "203.0.113.9"),
        (1, "198.51.100.1, 203.0.113.9", "203.0.113.9"),
        (2, "198.51.100.1, 203.0.113.9, 10.0.0.1", "203.0.113.9"),
        (2, "203.0.113.9", None),
        (1, "nonsense", None),
        (1, None, None),
    ],
)
def test_an_address_is_taken_from_whom_we_trust(
    settings: Any, proxies: int, forwarded: str | None, expected: str | None
) -> None:
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = proxies
    headers = {"X-Forwarded-For": forwarded} if forwarded else {}
    request = RequestFactory().get("/", REMOTE_ADDR="192.0.2.1", headers=headers)

    assert source_ip(request) == expected


def test_only_what_differs_is_kept() -> None:
    assert changes({"a": 1, "b": 2}, {"a": 1, "b": 3}) == ({"b": 2}, {"b": 3})
    assert changes({"a": 1}, {"a": 1}) == (None, None)


@pytest.mark.parametrize(
    ("role", "status"),
    [("member", 403), ("lead", 403), ("finance", 403), ("administrator", 200), ("auditor", 200)],
)
@pytest.mark.parametrize("url", ["/audit/", "/audit.csv"])
def test_administrators_and_auditors_read_it(
    client: Client, cast: Cast, role: str, status: int, url: str
) -> None:
    client.force_login(getattr(cast, role))

    assert client.get(url).status_code == status


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", True),
        ("q=anou", True),
        ("actor=anouk", True),
        ("actor=mina", False),
        ("q=tidal", True),
        ("q=glacier", False),
        ("kind=project", True),
        ("kind=cluster", False),
        ("action=project.change", True),
        ("project=tides", True),
        ("project=glaciers", False),
        ("since=2026-03-10&until=2026-03-10", True),
        ("since=2026-03-11", False),
        ("until=2026-03-09", False),
    ],
)
def test_filters(client: Client, cast: Cast, entry: AuditEntry, query: str, found: bool) -> None:
    client.force_login(cast.auditor)

    page = client.get(f"/audit/?{query}")

    assert (entry in page.context["page"].object_list) is found


def test_a_filter_that_is_no_date_is_named_and_ignored(client: Client, cast: Cast, entry: AuditEntry) -> None:
    client.force_login(cast.auditor)

    page = client.get("/audit/?since=yesterday")

    assert "Enter a valid date" in page.content.decode()
    assert entry in page.context["page"].object_list


def test_htmx_gets_the_entries_alone(client: Client, cast: Cast, entry: AuditEntry) -> None:
    client.force_login(cast.auditor)

    part = client.get("/audit/", headers={"HX-Request": "true"}).content.decode()

    assert "<html" not in part
    assert "Tidal models" in part


def test_the_export_holds_everything_and_no_formula(client: Client, cast: Cast, entry: AuditEntry) -> None:
    record(now=NOW, actor=None, action="desk.did", target=cast.project, target_name="=1+1")
    client.force_login(cast.auditor)

    text = b"".join(client.get("/audit.csv")).decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text)))

    by_action = {row["action"]: row for row in rows}
    assert set(by_action) == {"project.change", "desk.did"}
    assert by_action["project.change"]["after"] == '{"name": "=Tidal models"}'
    assert by_action["desk.did"]["target_name"] == "'=1+1"


def test_the_number_of_queries_does_not_grow(
    client: Client, cast: Cast, django_assert_max_num_queries: object
) -> None:
    client.force_login(cast.auditor)
    for _ in range(40):
        record(now=NOW, actor=cast.lead, action="x.y", target=cast.project, project=cast.project)

    with django_assert_max_num_queries(11):  # type: ignore[operator] # pytest-django's fixture
        client.get("/audit/")


def test_people_in_the_trail_cannot_be_deleted(entry: AuditEntry, cast: Cast) -> None:
    from django.db.models import ProtectedError

    with pytest.raises(ProtectedError):
        User.objects.get(pk=cast.administrator.pk).delete()


@pytest.mark.parametrize("query", ["since=0001-01-01", "until=9999-12-31"])
def test_the_ends_of_the_calendar_are_named_and_do_not_narrow(
    client: Client, cast: Cast, entry: AuditEntry, query: str
) -> None:
    cast.administrator.time_zone = "Pacific/Kiritimati"
    cast.administrator.save()
    client.force_login(cast.administrator)
    page = client.get(f"/audit/?{query}")
    assert "Ensure this value is" in page.content.decode()
    assert "project.change" in page.content.decode()
    assert client.get(f"/audit.csv?{query}").status_code == 200


def test_an_entry_has_a_page_with_every_value_and_what_else_was_done(
    client: Client, cast: Cast, entry: AuditEntry
) -> None:
    other = record(
        now=NOW,
        actor=None,
        action="project.move",
        target=cast.project,
        after={"spec": {"devices": ["<b>x</b>"]}, "none": None},
    )
    client.force_login(cast.auditor)

    page = client.get(f"/audit/{other.pk}/").content.decode()

    assert "&lt;b&gt;x&lt;/b&gt;" in page
    assert "the desk itself" in page
    assert f'href="/audit/{entry.pk}/"' in page
    assert "=Tidal models" in client.get(f"/audit/{entry.pk}/").content.decode()


@pytest.mark.parametrize("form", ["/audit/?format=csv&", "/audit.csv?"])
def test_the_csv_is_what_the_page_shows(client: Client, cast: Cast, entry: AuditEntry, form: str) -> None:
    client.force_login(cast.auditor)

    assert "project.change" in b"".join(client.get(f"{form}q=tidal")).decode()
    assert "project.change" not in b"".join(client.get(f"{form}q=glacier")).decode()


# --- REST --------------------------------------------------------------------------------------------


def test_programs_read_the_trail_by_the_filters_of_the_page(
    client: Client, cast: Cast, entry: AuditEntry
) -> None:
    record(now=NOW, actor=None, action="desk.did", target=cast.other, project=cast.other)
    client.force_login(cast.auditor)

    everything = client.get("/api/v1/audit/").json()["results"]
    found = client.get("/api/v1/audit/?project=tides&action=project.change&since=2026-03-10").json()[
        "results"
    ]

    assert [told["actor"] for told in everything] == [None, "anouk"]
    assert [told["id"] for told in found] == [entry.pk]
    assert found[0]["before"] == {"name": "Tides"}
    assert client.get(f"/api/v1/audit/{entry.pk}/").json() == found[0]


def test_a_day_that_is_none_is_refused_by_name(client: Client, cast: Cast) -> None:
    client.force_login(cast.auditor)

    answer = client.get("/api/v1/audit/?since=yesterday")

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "since"


@pytest.mark.parametrize("role", ["member", "lead", "finance", "stranger"])
def test_nobody_else_reads_it_by_program(client: Client, cast: Cast, entry: AuditEntry, role: str) -> None:
    client.force_login(getattr(cast, role))

    assert client.get("/api/v1/audit/").status_code == 403
    assert client.get(f"/api/v1/audit/{entry.pk}/").status_code == 403
