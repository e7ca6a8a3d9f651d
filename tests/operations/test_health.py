"""Probes are answered before anybody signs in, and tell what is missing."""

from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client

from portal import health

pytestmark = pytest.mark.django_db


def ask(path: str, **headers: Any) -> tuple[int, str]:
    # Kubernetes asks by the address of the Pod, which is no host of ours, over plain HTTP.
    answer = Client().get(path, headers={"host": "10.1.2.3:8000"}, **headers)
    return answer.status_code, answer.content.decode()


def test_a_living_process_says_so_to_anybody(settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    assert ask("/healthz") == (200, "process: ok\n")


def test_it_is_ready_with_its_database_its_schema_and_its_broker(settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    assert ask("/readyz") == (200, "database: ok\nmigrations: ok\nbroker: ok\n")


def test_without_its_database_it_lives_but_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object, **__: object) -> None:
        raise OperationalError("secret-host refused")

    monkeypatch.setattr(connection, "cursor", gone)
    status, said = ask("/readyz")
    assert (status, said) == (503, "database: unreachable\nbroker: ok\n")
    assert ask("/healthz")[0] == 200


def test_an_older_schema_is_not_ready_and_a_newer_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    from django.db.migrations.recorder import MigrationRecorder

    recorder = MigrationRecorder(connection)
    recorder.record_applied("claims", "9999_of_a_later_release")
    assert ask("/readyz")[0] == 200
    last = max(name for app, name in recorder.applied_migrations() if app == "accounts")
    recorder.record_unapplied("accounts", last)
    status, said = ask("/readyz")
    assert status == 503
    assert "migrations: 1 not applied" in said


def test_without_its_broker_it_goes_on_serving_and_says_so(settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert ask("/readyz") == (200, "database: ok\nmigrations: ok\nbroker: unreachable\n")


def test_no_trouble_has_a_name_or_address_of_ours_in_it(settings: Any) -> None:
    settings.REDIS_URL = "redis://user:secret@no-such-host.invalid:6379/0"
    assert "secret" not in ask("/readyz")[1]
    assert health.broker_trouble("no address at all") == "unreachable"
