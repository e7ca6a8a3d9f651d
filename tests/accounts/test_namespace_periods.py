"""A namespace is a project's from a time until another, as administrators set it on the project's page."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from inventory.models import NamespaceBinding
from portal.accounts.models import AuditEntry
from tests.cast import Cast
from tests.pages.fleet import cluster

pytestmark = pytest.mark.django_db
URL = "/projects/tides/namespaces/"


def form(**values: str) -> dict[str, object]:
    return {"cluster": cluster().pk, "namespace": "tides", **values}


def test_a_period_is_given_in_the_readers_time_zone(client: Client, cast: Cast) -> None:
    cast.administrator.time_zone = "Asia/Shanghai"
    cast.administrator.save()
    client.force_login(cast.administrator)

    client.post(URL, form(valid_from="2026-01-01T00:00", valid_until="2026-02-01T00:00"))

    made = NamespaceBinding.objects.get()
    assert made.valid_from == datetime(2025, 12, 31, 16, tzinfo=UTC)
    assert made.valid_until == datetime(2026, 1, 31, 16, tzinfo=UTC)
    assert AuditEntry.objects.get().action == "namespace.bind"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"valid_from": "yesterday"}, "Enter a valid date/time"),
        ({"valid_from": "0001-01-01T00:00"}, "between the years 2000 and 2999"),
        ({"valid_until": "9999-12-31T00:00"}, "between the years 2000 and 2999"),
        ({"valid_from": "2026-02-01T00:00", "valid_until": "2026-01-01T00:00"}, "after the start"),
    ],
)
def test_a_period_that_cannot_be_is_said_beside_it(
    client: Client, cast: Cast, values: dict[str, str], message: str
) -> None:
    client.force_login(cast.administrator)

    page = client.post(URL, form(**values))

    assert page.status_code == 422
    assert message in page.content.decode()
    assert 'value="tides"' in page.content.decode()
    assert not NamespaceBinding.objects.exists()


def test_an_end_is_set_ahead_and_taken_forward(client: Client, cast: Cast) -> None:
    client.force_login(cast.administrator)
    client.post(URL, form())
    made = NamespaceBinding.objects.get()
    url = f"{URL}{made.pk}/end/"

    client.post(url, {"valid_until": "2998-01-01T00:00"})
    made.refresh_from_db()
    assert made.valid_until == datetime(2998, 1, 1, tzinfo=UTC)

    page = client.post(url, {"valid_until": "2001-01-01T00:00"})
    assert "cannot lie in the past" in page.content.decode()

    client.post(url, {"valid_until": ""})
    made.refresh_from_db()
    assert made.valid_until is not None
    assert made.valid_until <= timezone.now()
    assert client.get(url).status_code == 404


def test_the_page_keeps_what_has_ended_and_shows_what_has_not_begun(client: Client, cast: Cast) -> None:
    now, day = timezone.now(), timedelta(days=1)
    for name, start, until in [("old", -9, -3), ("new", 3, None), ("now", -3, None)]:
        NamespaceBinding.objects.create(
            cluster=cluster(),
            namespace=name,
            project=cast.project,
            valid_from=now + start * day,
            valid_until=None if until is None else now + until * day,
        )
    client.force_login(cast.member)

    page = client.get("/projects/tides/").content.decode()

    assert page.index("harbour/new") < page.index("harbour/old")
    assert "ended" in page
    assert "not yet" in page
