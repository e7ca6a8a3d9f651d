"""The doctor finds what is wrong, names it and says what to do; and calls nothing well that it could not
look at."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.fernet import Fernet
from django.core.management import call_command
from django.db import OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from inventory import sealing
from inventory.models import Cluster
from portal.celery import app
from portal.pages.doctor import Result, State, examine
from tests.embedded import EmbeddedCluster
from tests.inventory_pages.factories import make_cluster

pytestmark = pytest.mark.django_db


def found() -> Mapping[str, Result]:
    """The worst result of each check."""
    order = [State.GOOD, State.WARNING, State.UNKNOWN, State.BAD]
    told: dict[str, Result] = {}
    for result in examine(now=timezone.now()):
        before = told.get(result.check)
        if before is None or order.index(result.state) > order.index(before.state):
            told[result.check] = result
    return told


@pytest.fixture(autouse=True)
def well_kept(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation as it should be, with workers that answer."""
    settings.ALLOWED_HOSTS = ["desk.example.org"]
    settings.CSRF_TRUSTED_ORIGINS = ["https://desk.example.org"]
    settings.BEHIND_TLS = True
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 1
    settings.MAIL_OFFERED = True
    settings.SECRET_KEY = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOP"
    settings.CREDENTIAL_KEYS = [Fernet.generate_key().decode()]
    monkeypatch.setenv("CLAIMDESK_SECRET_KEY", "set")
    monkeypatch.setenv("CLAIMDESK_CREDENTIAL_KEYS", "set")
    answering(monkeypatch, "default", "follow")


def answering(monkeypatch: pytest.MonkeyPatch, *queues: str) -> None:
    class Inspector:
        def active_queues(self) -> dict[str, list[dict[str, str]]]:
            return {f"worker-{name}": [{"name": name}] for name in queues}

    monkeypatch.setattr(app.control, "inspect", lambda **_: Inspector())


@pytest.fixture
def north(embedded_cluster: EmbeddedCluster) -> Cluster:
    return make_cluster(
        "north", kubeconfig_path=str(embedded_cluster.kubeconfig), kubeconfig_context="portal"
    )


def test_an_installation_that_is_well_is_called_well(north: Cluster) -> None:
    told = found()
    assert {check for check, result in told.items() if result.state in (State.BAD, State.UNKNOWN)} == set()
    assert told[f"cluster {north.name}"].state == State.GOOD


def nobody_to_review(settings: Any) -> None:
    settings.CLASS_REVIEW = "second"


def weak_key(settings: Any) -> None:
    settings.SECRET_KEY = "changeme"


def broken_credential_key(settings: Any) -> None:
    settings.CREDENTIAL_KEYS = ["no key"]


def any_host(settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["*"]


def in_the_clear(settings: Any) -> None:
    settings.BEHIND_TLS = False


def forgotten_origin(settings: Any) -> None:
    settings.CSRF_TRUSTED_ORIGINS = []


def debugging(settings: Any) -> None:
    settings.DEBUG = True


@pytest.mark.parametrize(
    ("fault", "check", "cure"),
    [
        (weak_key, "secret key", "token_urlsafe"),
        (broken_credential_key, "credential keys", "CLAIMDESK_CREDENTIAL_KEYS"),
        (any_host, "addresses", "host names"),
        (in_the_clear, "TLS", "CLAIMDESK_BEHIND_TLS=true"),
        (forgotten_origin, "origins", "CLAIMDESK_TRUSTED_ORIGINS"),
        (debugging, "debug", "CLAIMDESK_DEBUG"),
        (nobody_to_review, "review of device classes", "CLAIMDESK_CLASS_REVIEW"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_faulty_setting_is_named_with_its_cure(
    settings: Any, fault: Callable[[Any], None], check: str, cure: str
) -> None:
    assert check not in found() or found()[check].state != State.BAD
    fault(settings)
    result = found()[check]
    assert result.state == State.BAD
    assert cure in result.cure


def test_without_the_database_what_hangs_on_it_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object, **__: object) -> None:
        raise OperationalError("refused")

    monkeypatch.setattr(connection, "cursor", gone)
    told = found()
    assert told["database"].state == State.BAD
    assert "DATABASE_URL" in told["database"].cure
    assert told["schema"].state == told["clusters"].state == State.UNKNOWN


def test_an_older_schema_is_to_be_migrated() -> None:
    recorder = MigrationRecorder(connection)
    recorder.record_unapplied("sessions", "0001_initial")
    result = found()["schema"]
    assert result.state == State.BAD
    assert "manage.py migrate" in result.cure


def test_without_the_broker_workers_are_unknown(settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    told = found()
    assert told["broker"].state == State.BAD
    assert "REDIS_URL" in told["broker"].cure
    assert told["workers"].state == State.UNKNOWN


def test_a_queue_that_nobody_serves_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, "default")
    told = found()
    assert told["workers of “default”"].state == State.GOOD
    assert told["workers of “follow”"].state == State.BAD
    assert "--queues follow" in told["workers of “follow”"].cure


def test_a_cluster_that_refuses_us_wants_another_token(north: Cluster, tmp_path: Path) -> None:
    config = yaml.safe_load(Path(north.kubeconfig_path).read_text())
    for user in config["users"]:
        user["user"] = {"token": "forged"}
    refused = tmp_path / "refused"
    refused.write_text(yaml.safe_dump(config))
    Cluster.objects.update(kubeconfig_path=str(refused))
    result = found()["cluster north"]
    assert result.state == State.BAD
    assert "refuses our credentials" in result.said
    assert "new token" in result.cure


def test_a_cluster_that_does_not_answer_is_away(north: Cluster, embedded_cluster: EmbeddedCluster) -> None:
    embedded_cluster.stop()
    result = found()["cluster north"]
    assert result.state == State.BAD
    assert "network" in result.cure
    assert north.name in result.check


def test_rights_that_are_missing_are_listed(
    north: Cluster, embedded_cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert embedded_cluster.kubeconfig.exists()
    monkeypatch.setattr("inventory.clusters._missing", lambda *_: ["list pods", "create resourceclaims"])
    result = found()[f"cluster {north.name}"]
    assert result.state == State.BAD
    assert "list pods, create resourceclaims" in result.said
    assert "deploy/cluster" in result.cure


def test_a_kubeconfig_whose_key_is_lost_is_told_as_that(north: Cluster, settings: Any) -> None:
    north.credentials = Cluster.Credentials.STORED
    north.kubeconfig_encrypted = sealing.seal(Path(north.kubeconfig_path).read_text())
    north.save()
    assert found()["cluster north"].state == State.GOOD
    settings.CREDENTIAL_KEYS = [Fernet.generate_key().decode()]
    result = found()["cluster north"]
    assert result.state == State.BAD
    assert "CLAIMDESK_CREDENTIAL_KEYS" in result.cure


def test_a_clock_that_is_wrong_is_told(north: Cluster) -> None:
    Cluster.objects.update(clock_skew_us=-90_000_000)
    result = found()["clock of north"]
    assert result.state == State.BAD
    assert "90 s behind" in result.said
    assert north.name in result.check


@pytest.mark.postgresql
@pytest.mark.parametrize(("apart", "state"), [(3600, State.BAD), (-3600, State.BAD), (0, State.GOOD)])
def test_a_machine_whose_clock_is_not_that_of_the_database_is_told(apart: int, state: State) -> None:
    now = timezone.now() + timedelta(seconds=apart)
    (result,) = (one for one in examine(now=now) if one.check == "clock")
    assert result.state == state
    if apart:
        assert " s apart" in result.said
        assert "time server" in result.cure


def test_a_cluster_that_nobody_follows_is_told(north: Cluster) -> None:
    Cluster.objects.update(
        contacted_at=timezone.now() - timedelta(hours=1),
        lease_expires_at=timezone.now() - timedelta(hours=1),
    )
    result = found()[f"mirror of {north.name}"]
    assert result.state == State.BAD
    assert "follow" in result.cure


def test_the_command_prints_cures_and_fails_when_something_is_wrong(settings: Any) -> None:
    settings.SECRET_KEY = "changeme"
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("doctor", "--quiet", stdout=out)
    assert ended.value.code == 1
    lines = out.getvalue().splitlines()
    assert any(line.startswith("WRONG    secret key:") for line in lines)
    assert any(line.strip().startswith("→ Set it to what python3") for line in lines)
    assert not any(line.startswith("ok") for line in lines)
    assert "changeme" not in out.getvalue()
