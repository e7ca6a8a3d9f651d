"""Idempotency-Key: what was asked once is done once, whoever crashes, repeats or hurries."""

import threading
import time
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from claims.models import Flavor, Request
from claims.requests import actions as requests
from claims.requests.rehearsal import rehearse
from inventory.models import CdiToken, Cluster
from portal.idempotency import keeping, tasks
from portal.idempotency.keeping import KeyProblem, read_key
from portal.idempotency.models import KeptAnswer
from portal.kube.errors import Unreachable
from tests.claims.conftest import Cast
from tests.claims.fakes import FakeCluster
from tests.claims.test_api import client_of

JSON = "application/json"
KEY = '"0f0b4a9e-1b2c-4d5e-8f90-a1b2c3d4e5f6"'


@pytest.fixture(autouse=True)
def reachable(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(requests.submit.__kwdefaults__, "connect", lambda _cluster: fake)  # type: ignore[arg-type]


def post(client: Client, body: dict[str, Any], key: str = KEY, name: str = "api-request-list") -> Any:
    return client.post(reverse(name), body, content_type=JSON, headers={"Idempotency-Key": key})


def test_the_same_key_with_the_same_body_gets_the_same_answer_and_one_request(
    cast: Cast, values: dict[str, Any]
) -> None:
    client = client_of(cast.owner)
    first = post(client, values)
    again = post(client, dict(reversed(values.items())), KEY.strip('"'))
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert (first.has_header("Idempotency-Replayed"), again["Idempotency-Replayed"]) == (False, "true")
    assert Request.objects.count() == 1


def test_another_body_under_the_same_key_is_refused(cast: Cast, values: dict[str, Any]) -> None:
    client = client_of(cast.owner)
    post(client, values)
    other = post(client, values | {"count": 2})
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    assert Request.objects.count() == 1


def test_a_key_belongs_to_a_person_and_an_endpoint(cast: Cast, values: dict[str, Any]) -> None:
    keys = {post(client_of(user), values).json()["key"] for user in (cast.owner, cast.teammate)}
    assert len(keys) == 2
    held = client_of(cast.owner).post(
        reverse("api-request-cancel", args=[keys.pop()]), content_type=JSON, headers={"Idempotency-Key": KEY}
    )
    assert held.status_code == 200


def test_while_the_first_attempt_runs_the_second_is_told_to_wait(cast: Cast, values: dict[str, Any]) -> None:
    client = client_of(cast.owner)
    post(client, values)
    KeptAnswer.objects.update(status=None, body="")
    again = post(client, values)
    assert (again.status_code, again.json()["code"]) == (409, "idempotency_key_in_use")
    assert int(again["Retry-After"]) >= 1


@pytest.mark.django_db(transaction=True)
def test_two_identical_posts_at_once_make_one_request_and_get_the_same_answer(
    cast: Cast, values: dict[str, Any], fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is kept on its way until the second has arrived and waits for it."""
    began, waits = threading.Event(), threading.Event()
    pause = keeping.pause

    def slowly(request: Request, *, connect: Any) -> None:
        began.set()
        assert waits.wait(60), "the second one does not wait"
        rehearse(request, connect=connect)

    def waiting(span: timedelta) -> None:
        waits.set()
        pause(span)

    monkeypatch.setattr(requests, "rehearse", slowly)
    monkeypatch.setattr(keeping, "pause", waiting)
    monkeypatch.setattr(keeping, "WAIT", timedelta(seconds=60))
    clients = [client_of(cast.owner) for _number in range(2)]
    answers: dict[int, Any] = {}

    def send(number: int) -> None:
        try:
            for _attempt in range(600):
                try:
                    answers[number] = post(clients[number], values)
                except OperationalError:
                    # SQLite in memory, where the other one holds the table; a file would be waited for.
                    time.sleep(0.05)
                    continue
                return
        finally:
            connection.close()

    first = threading.Thread(target=send, args=(0,))
    second = threading.Thread(target=send, args=(1,))
    first.start()
    assert began.wait(60)
    second.start()
    for thread in (first, second):
        thread.join(timeout=90)
    assert [answers[number].status_code for number in (0, 1)] == [201, 201]
    assert answers[0].json() == answers[1].json()
    assert [answers[number].has_header("Idempotency-Replayed") for number in (0, 1)] == [False, True]
    assert Request.objects.count() == 1


def test_an_attempt_that_died_is_followed_by_another(
    cast: Cast, values: dict[str, Any], fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed before its transaction ends leaves a reservation and no effect."""
    client = client_of(cast.owner)
    with monkeypatch.context() as killed:
        killed.setattr(keeping.Attempt, "give_up", lambda _attempt: None)
        fake.fail["create"] = Unreachable("gone")
        post(client, values)
        fake.fail.clear()
    assert post(client, values).status_code == 409
    KeptAnswer.objects.update(started_at=timezone.now() - keeping.GIVEN_UP_AFTER)
    assert post(client, values).status_code == 201
    assert Request.objects.count() == 1


def test_an_attempt_that_was_overtaken_undoes_what_it_did(
    cast: Cast, values: dict[str, Any], fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given up for dead, it was only slow: the effect and its answer are in one transaction."""
    judge = fake.create

    def slow(*args: Any, **kwargs: Any) -> Any:
        KeptAnswer.objects.update(owner=uuid.uuid4())
        return judge(*args, **kwargs)

    monkeypatch.setattr(fake, "create", slow)
    answer = post(client_of(cast.owner), values)
    assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_key_in_use")
    assert not Request.objects.exists()


def test_an_answer_that_cannot_be_written_down_undoes_the_effect(
    cast: Cast, values: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_args: object) -> None:
        raise MemoryError

    monkeypatch.setattr(keeping.Attempt, "keep", crash)
    client = client_of(cast.owner)
    client.raise_request_exception = False
    assert post(client, values).status_code == 500
    assert not Request.objects.exists()
    assert not KeptAnswer.objects.exists()


def test_what_was_refused_leaves_the_key_free(cast: Cast, values: dict[str, Any]) -> None:
    client = client_of(cast.owner)
    assert post(client, values | {"purpose": ""}).status_code == 400
    assert not KeptAnswer.objects.exists()
    assert post(client, values).status_code == 201


def test_writing_to_the_database_alone_is_one_transaction_with_its_answer(cast: Cast) -> None:
    client = client_of(cast.admin)
    body = {"slug": "h100-80g", "name": "H100 80 GB", "max_count": 4}
    answers = [post(client, body, name="api-catalogue-list") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201], answers[0].json()
    assert answers[0].json() == answers[1].json()
    assert Flavor.objects.count() == 1


def test_a_secret_is_never_kept(cast: Cast, cluster: Cluster) -> None:
    client = client_of(cast.admin)
    body = {"cluster": cluster.name, "node": "node-h100", "days": 30}
    first = post(client, body, name="api-cdi-token-list")
    assert first.status_code == 201, first.json()
    again = post(client, body, name="api-cdi-token-list")
    assert (again.status_code, again.json()["code"]) == (409, "idempotency_answer_secret")
    assert KeptAnswer.objects.get().body == ""
    assert CdiToken.objects.count() == 1


def test_keys_are_forgotten_after_a_day(cast: Cast, values: dict[str, Any]) -> None:
    client = client_of(cast.owner)
    post(client, values)
    tasks.prune()
    assert KeptAnswer.objects.count() == 1
    KeptAnswer.objects.update(created_at=timezone.now() - timedelta(hours=24))
    post(client, values)
    assert Request.objects.count() == 2
    KeptAnswer.objects.update(created_at=timezone.now() - timedelta(hours=24))
    tasks.prune()
    assert not KeptAnswer.objects.exists()


@pytest.mark.parametrize(
    ("header", "key"),
    [(None, None), ('"a b"', "a b"), ('"say \\"x\\""', 'say "x"'), ("bare-1", "bare-1"), (" x ", "x")],
)
def test_keys_are_strings_of_structured_fields_or_bare(header: str | None, key: str | None) -> None:
    assert read_key(header) == key


@pytest.mark.parametrize("header", ["", '""', "two words", '"open', "schlüssel", "x" * 256, "a\x00b"])
def test_what_is_no_key_is_refused(header: str) -> None:
    with pytest.raises(KeyProblem) as refused:
        read_key(header)
    assert refused.value.status_code == 400
