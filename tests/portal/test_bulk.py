"""Writing many rows at once stores what one row at a time would."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from inventory.models import Cluster, Observation
from portal import append_only, bulk

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True, params=[1, 100], ids=["as many rows", "as few rows"])
def _how_many(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL takes few rows and many in different ways."""
    monkeypatch.setattr(bulk, "COPY_FROM", request.param)


@pytest.fixture(autouse=True)
def _changeable(db: None) -> None:
    """Rows of observations stand for any here; elsewhere the database lets nobody change them."""
    append_only.lift(connection)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster.objects.create(name="c1", created_at=NOW)


def observation(cluster: Cluster, key: str, **columns: Any) -> Observation:
    values: dict[str, Any] = {
        "kind": Observation.Kind.NODE_DOWN,
        "at": NOW + timedelta(microseconds=7),
        "source": Observation.Source.OBSERVED,
        "observed_at": NOW,
        "name": "node-1",
        "facts": {"größe": ["1", None, True, 2.5, 2**60], "odd": 'tab\t, line\n, \\N and "\\"'},
    }
    return Observation(cluster=cluster, key=key, **(values | columns))


def values(key: str) -> dict[str, Any]:
    found = Observation.objects.filter(key=key).values().get()
    return {name: value for name, value in found.items() if name not in ("id", "key")}


def test_every_column_is_stored_as_saving_the_row_would(cluster: Cluster) -> None:
    observation(cluster, "saved").save()
    bulk.append([observation(cluster, "appended")])
    bulk.create([observation(cluster, "created")])
    assert values("appended") == values("created") == values("saved")


def test_a_repeated_row_is_refused_or_left_out_as_asked(cluster: Cluster) -> None:
    bulk.append([observation(cluster, "a")])
    with pytest.raises(IntegrityError), transaction.atomic():
        bulk.append([observation(cluster, "a")])
    bulk.append([observation(cluster, "a", name="other"), observation(cluster, "b")], ignore_conflicts=True)
    assert set(Observation.objects.values_list("key", "name")) == {("a", "node-1"), ("b", "node-1")}


def test_created_rows_know_their_keys_and_keys_are_never_given_twice(cluster: Cluster) -> None:
    first = [observation(cluster, str(number)) for number in range(3)]
    bulk.create(first)
    assert {row.pk: row.key for row in first} == dict(Observation.objects.values_list("pk", "key"))
    given = {row.pk for row in first}
    Observation.objects.all().delete()
    again = [observation(cluster, "again")]
    bulk.create(again)
    assert again[0].pk not in given
    again[0].name = "renamed"
    again[0].save()
    assert Observation.objects.get().name == "renamed"
    assert Observation.objects.create(cluster=cluster, key="x", at=NOW, observed_at=NOW).pk > again[0].pk


def test_only_the_named_columns_are_overwritten(cluster: Cluster) -> None:
    row = observation(cluster, "a")
    bulk.create([row])
    row.name, row.namespace = "renamed", "not to be written"
    bulk.overwrite([row], ["name"])
    stored = Observation.objects.get()
    assert (stored.pk, stored.name, stored.namespace) == (row.pk, "renamed", "")


def test_rows_that_are_appended_keep_their_order(cluster: Cluster) -> None:
    rows = [observation(cluster, str(number)) for number in range(300)]
    bulk.append(rows, ignore_conflicts=True)
    stored = Observation.objects.order_by("pk").values_list("key", flat=True)
    assert list(stored) == [row.key for row in rows]


def test_json_that_is_text_already_is_stored_as_it_is(cluster: Cluster) -> None:
    bulk.create([observation(cluster, "a", facts=bulk.Encoded(b'{"b": [1, null]}'))])
    assert Observation.objects.get().facts == {"b": [1, None]}


def test_nothing_to_write_is_no_statement(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        bulk.append([])
        bulk.create([])
        bulk.overwrite([], ["name"])


@pytest.mark.django_db(transaction=True)
def test_outside_a_transaction_too_either_all_rows_are_stored_or_none() -> None:
    cluster = Cluster.objects.create(name="c1", created_at=NOW)
    with pytest.raises(IntegrityError):
        bulk.append([observation(cluster, "a"), observation(cluster, "b"), observation(cluster, "a")])
    assert not Observation.objects.exists()
