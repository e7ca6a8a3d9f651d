"""A ledger folded by and by, from observations that come in any order and are archived meanwhile, is the one
that comes out when it is folded anew."""

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from claims.ledger import archive, storage
from claims.ledger.audit import audit
from claims.models import Allocation, Consumer
from inventory.models import Cluster, Observation
from tests.claims.conftest import NOW
from tests.claims.test_ledger_random import History

pytestmark = pytest.mark.django_db
DECEMBER = datetime(2026, 12, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, settings: Any) -> None:
    options = {"location": str(tmp_path / "archive")}
    backend = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": options}
    settings.STORAGES = settings.STORAGES | {"archive": backend}


def ledger() -> list[list[dict[str, Any]]]:
    """All rows but their numbers, in a fixed order."""
    rows = (Allocation.objects.values(), Consumer.objects.values())
    told = ([{name: value for name, value in row.items() if name != "id"} for row in some] for some in rows)
    return [sorted(some, key=repr) for some in told]


def lived_through(cluster: Cluster, seed: int) -> None:
    """Several histories of the same devices: holders contradict each other, too."""
    chance = random.Random(seed)
    events = list(enumerate(event for part in range(3) for event in History(seed * 10 + part).events))
    chance.shuffle(events)
    while events:
        size = chance.randint(1, 15)
        now, events = events[:size], events[size:]
        for number, event in now:
            Observation.objects.create(
                cluster=cluster, kind=event.kind, at=event.at, source=event.source, uid=event.uid,
                uncertainty_us=event.uncertainty_us, observed_at=event.observed_at, name=event.name,
                namespace=event.namespace, facts=event.facts, key=f"{number}/{event.key}",
            )  # fmt: skip
        storage.apply(cluster=cluster)
        if chance.random() < 0.3:
            archive.archive(cluster=cluster, before=DECEMBER, now=NOW)


@pytest.mark.parametrize(
    "seed", [15, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(100, 140))]
)
def test_it_comes_out_the_same_from_rows_and_files(seed: int) -> None:
    cluster = Cluster.objects.create(name="main", created_at=NOW)
    lived_through(cluster, seed)
    before = ledger()
    assert before[0]
    assert Allocation.objects.filter(contested=True).exists() or seed != 15
    found = {one.code for one in audit(cluster=cluster, now=NOW).violations}
    assert found <= {"overlap", "open-unknown"}
    storage.rebuild(cluster=cluster)
    assert ledger() == before
    Allocation.objects.all().delete()
    Consumer.objects.all().delete()
    storage.rebuild(cluster=cluster)
    assert ledger() == before
