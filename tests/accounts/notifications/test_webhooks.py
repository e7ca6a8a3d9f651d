"""Webhooks against a real receiver: signed, never followed, tried again, and switched off in the end."""

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from portal.accounts.models import AuditEntry, Delivery, Notification, Webhook
from portal.accounts.notifications import outbox, signing, webhooks
from portal.accounts.notifications.kinds import Kind
from portal.accounts.notifications.telling import tell
from portal.accounts.notifications.texts import as_written
from tests.accounts.notifications.receiver import Receiver, listening
from tests.cast import NOW, Cast

PERMITTED = frozenset({"127.0.0.1"})


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with listening() as found:
        yield found


def make_hook(cast: Cast, url: str) -> tuple[Webhook, str]:
    return webhooks.add_webhook(url=url, actor=cast.member, now=NOW, permitted=PERMITTED)


def say_to_all(cast: Cast, key: str = "k", now: datetime = NOW) -> None:
    tell(people=[cast.member], kind=Kind.FREE, subject=as_written("free"), url="/x/", now=now, key=key)


def say(cast: Cast, key: str = "k", now: datetime = NOW) -> Delivery:
    say_to_all(cast, key, now)
    return Delivery.objects.get(key=key)


def attempt(delivery: Delivery, *, now: datetime = NOW, seconds: float = 15) -> Delivery:
    taken = outbox.take(delivery.pk, now=now)
    assert taken is not None, "it is not due"
    webhooks.deliver(taken, now=now, permitted=PERMITTED, whole_seconds=seconds)
    return Delivery.objects.select_related("webhook").get(pk=delivery.pk)


def test_what_arrives_is_signed_as_standard_webhooks_has_it(cast: Cast, receiver: Receiver) -> None:
    _hook, secret = make_hook(cast, f"{receiver.url}/in?room=7")
    done = attempt(say(cast))
    path, headers, body = receiver.requests[0]
    signed = b".".join([headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body])
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()

    assert headers["webhook-signature"] == f"v1,{expected}"
    assert headers["webhook-id"] == str(done.message_id)
    assert int(headers["webhook-timestamp"]) == int(NOW.timestamp())
    assert (path, json.loads(body)["data"]["subject"]) == ("/in?room=7", "free")
    assert (done.state, done.status_code, done.attempts) == ("sent", 204, 1)


def test_the_secret_is_kept_encrypted_and_in_no_audit_entry(cast: Cast) -> None:
    hook, secret = make_hook(cast, "https://hooks.example.org/private-path")
    assert secret.encode() not in bytes(hook.secret)
    assert signing.unseal(hook.secret) == secret
    entry = AuditEntry.objects.get(action="webhook.create")
    assert "private-path" not in f"{entry.target_name} {entry.after}"


@pytest.mark.parametrize("status", [301, 302, 307, 400, 404, 500, 503])
def test_what_is_no_success_is_tried_again_later_with_the_same_id(
    cast: Cast, receiver: Receiver, status: int
) -> None:
    make_hook(cast, receiver.url)
    receiver.status, receiver.headers = status, {"Location": f"{receiver.url}/elsewhere"}
    failed = attempt(say(cast))
    assert (failed.state, failed.status_code, failed.due_at) == ("pending", status, NOW + outbox.PAUSES[0])
    assert str(status) in failed.error_text

    receiver.status = 200
    done = attempt(failed, now=NOW + outbox.PAUSES[0])
    assert done.state == "sent"
    assert Webhook.objects.get().failures == 0
    # Nowhere else, and the same message.
    assert [path for path, _h, _b in receiver.requests] == ["/", "/"]
    assert len({headers["webhook-id"] for _p, headers, _b in receiver.requests}) == 1


def test_who_answers_nothing_is_not_waited_for(cast: Cast, receiver: Receiver) -> None:
    make_hook(cast, receiver.url)
    receiver.silent = True
    failed = attempt(say(cast), seconds=0.2)
    assert (failed.state, failed.error_text) == ("pending", "It did not answer in time.")


def test_of_an_endless_answer_a_little_is_read(cast: Cast, receiver: Receiver) -> None:
    make_hook(cast, receiver.url)
    receiver.endless, receiver.status = True, 500
    assert len(attempt(say(cast)).error_text) < 400
    assert receiver.over.wait(30), "the desk hangs up"


def test_what_an_answer_says_is_shown_without_control_characters(cast: Cast, receiver: Receiver) -> None:
    make_hook(cast, receiver.url)
    receiver.status, receiver.body = 400, b"no\x00\x1b[31m room\xff\n"
    assert attempt(say(cast)).error_text == "It answered 400: no  [31m room�"


def test_nobody_listens(cast: Cast) -> None:
    with listening() as gone:
        make_hook(cast, gone.url)
    assert "refused" in attempt(say(cast)).error_text


def test_an_address_that_has_become_private_is_not_called(cast: Cast, receiver: Receiver) -> None:
    make_hook(cast, receiver.url)
    taken = outbox.take(say(cast).pk, now=NOW)
    assert taken is not None
    webhooks.deliver(taken, now=NOW, permitted=())
    assert receiver.requests == []
    assert "https" in Delivery.objects.get().error_text


def give_up(delivery: Delivery) -> datetime:
    now = NOW
    for pause in (*outbox.PAUSES, timedelta()):
        delivery = attempt(delivery, now=now)
        now += pause
    assert delivery.state == "dead"
    return now


def test_after_the_last_attempt_it_is_given_up_and_the_webhook_switched_off_and_its_owner_told(
    cast: Cast, receiver: Receiver
) -> None:
    make_hook(cast, receiver.url)
    receiver.status = 500
    delivery = say(cast)
    give_up(delivery)
    assert len(receiver.requests) == outbox.ATTEMPTS
    assert Webhook.objects.get().disabled_at is not None
    told = Notification.objects.of(cast.member).get(kind=Kind.DESK)
    assert "switched off" in str(told)
    assert "500" in told.body_text
    assert AuditEntry.objects.filter(action="webhook.give-up", actor=None).exists()


def test_one_message_that_is_refused_does_not_switch_off_what_others_reach(
    cast: Cast, receiver: Receiver
) -> None:
    make_hook(cast, receiver.url)
    refused = say(cast, "refused")
    receiver.status = 500
    attempt(refused)
    receiver.status = 200
    attempt(say(cast, "fine", now=NOW + timedelta(hours=20)), now=NOW + timedelta(hours=20))
    Delivery.objects.filter(pk=refused.pk).update(attempts=outbox.ATTEMPTS - 1)
    receiver.status = 500
    assert attempt(refused, now=NOW + timedelta(hours=21)).state == "dead"
    assert Webhook.objects.get().disabled_at is None


def test_who_says_that_it_is_gone_is_believed(cast: Cast, receiver: Receiver) -> None:
    make_hook(cast, receiver.url)
    receiver.status = 410
    assert attempt(say(cast)).state == "dead"
    assert Webhook.objects.get().disabled_at is not None


def test_a_webhook_that_is_off_hears_nothing_but_tests(cast: Cast, receiver: Receiver) -> None:
    hook, _secret = make_hook(cast, receiver.url)
    waiting = say(cast)
    webhooks.switch(hook=hook, on=False, actor=cast.member, now=NOW)
    assert attempt(waiting).state == "skipped"
    tell(people=[cast.member], kind=Kind.FREE, subject=as_written("x"), url="/", now=NOW, key="later")
    assert not Delivery.objects.filter(key="later").exists()
    test = webhooks.try_out(hook=hook, actor=cast.member, now=NOW)
    assert attempt(test).state == "sent"


def test_a_test_that_fails_is_not_repeated_and_does_not_switch_off(cast: Cast, receiver: Receiver) -> None:
    hook, _secret = make_hook(cast, receiver.url)
    receiver.status = 500
    assert attempt(webhooks.try_out(hook=hook, actor=cast.member, now=NOW)).state == "dead"
    assert Webhook.objects.get().disabled_at is None


def test_what_was_given_up_is_sent_again_by_hand(cast: Cast, receiver: Receiver) -> None:
    make_hook(cast, receiver.url)
    delivery = say(cast)
    outbox.failed([delivery], now=NOW, why=as_written("no"), final=True)
    delivery = Delivery.objects.get()
    assert webhooks.try_again(delivery=delivery, actor=cast.member, now=NOW)
    assert attempt(delivery).state == "sent"
    assert not webhooks.try_again(delivery=Delivery.objects.get(), actor=cast.member, now=NOW)


def test_of_two_workers_one_calls_and_one_that_died_is_followed_by_another(cast: Cast) -> None:
    make_hook(cast, "https://hooks.example.org/")
    pk = say(cast).pk
    assert outbox.due(now=NOW) == [pk]
    assert outbox.take(pk, now=NOW) is not None
    assert outbox.take(pk, now=NOW) is None
    assert outbox.due(now=NOW) == []
    assert outbox.take(pk, now=NOW + outbox.LEASE) is not None


# --- many that do not get through -------------------------------------------------------------------


def test_of_an_address_that_fails_only_the_oldest_message_is_tried_after_each_rest(
    cast: Cast, receiver: Receiver
) -> None:
    make_hook(cast, receiver.url)
    receiver.status = 500
    backlog = [say(cast, f"k{number}", now=NOW + timedelta(seconds=number)) for number in range(30)]
    now = NOW + timedelta(minutes=1)
    assert outbox.due(now=now) == [backlog[0].pk, backlog[1].pk], "two at once while it works"
    attempt(backlog[0], now=now)
    assert outbox.due(now=now) == []
    assert outbox.take(backlog[5].pk, now=now) is None, "one that was handed out before waits as well"
    for pause in outbox.PAUSES:
        now += pause
        assert outbox.due(now=now) == [backlog[0].pk]
        attempt(backlog[0], now=now)
    assert len(receiver.requests) == outbox.ATTEMPTS, "thirty messages cost as many calls as one"
    assert Webhook.objects.get().disabled_at == now
    assert Notification.objects.of(cast.member).filter(kind=Kind.DESK).count() == 1

    for pk in outbox.due(now=now):
        attempt(Delivery.objects.get(pk=pk), now=now)
    assert len(receiver.requests) == outbox.ATTEMPTS


def test_what_waited_goes_out_as_soon_as_one_gets_through(cast: Cast, receiver: Receiver) -> None:
    make_hook(cast, receiver.url)
    receiver.status = 503
    backlog = [say(cast, f"k{number}", now=NOW + timedelta(seconds=number)) for number in range(4)]
    attempt(backlog[0])
    receiver.status = 200
    now = NOW + outbox.PAUSES[0]
    attempt(backlog[0], now=now)
    assert outbox.due(now=now) == [backlog[1].pk, backlog[2].pk]


def test_where_nothing_answers_everything_at_the_host_rests_and_others_do_not(cast: Cast) -> None:
    with listening() as gone:
        make_hook(cast, f"{gone.url}/one")
    make_hook(cast, f"{gone.url}/two?room=7")
    make_hook(cast, f"{gone.url[:-1]}/")
    make_hook(cast, "https://hooks.example.org/")
    say_to_all(cast)
    one, two, other, elsewhere = Delivery.objects.order_by("webhook")
    attempt(one)
    assert set(outbox.due(now=NOW)) == {other.pk, elsewhere.pk}
    later = set(outbox.due(now=NOW + outbox.PAUSES[0]))
    assert later >= {other.pk, elsewhere.pk}
    assert len(later & {one.pk, two.pk}) == 1, "one call tells whether the host answers again"
    assert two.pk not in outbox.due(now=NOW)


def test_few_addresses_that_failed_are_tried_at_once_and_mails_wait_for_none(cast: Cast) -> None:
    for number in range(5):
        make_hook(cast, f"https://hooks{number}.example.org/")
    Webhook.objects.update(failures=1, failing_since=NOW)
    say_to_all(cast)
    mail = Delivery.objects.filter(channel="mail").count()
    assert len(outbox.due(now=NOW)) == mail + 2
    taken = outbox.take(Delivery.objects.filter(channel="webhook").order_by("pk")[0].pk, now=NOW)
    assert taken is not None
    assert len(outbox.due(now=NOW)) == mail + 1, "what is going on counts"


def test_who_presses_the_button_does_not_wait_for_the_rest(cast: Cast, receiver: Receiver) -> None:
    hook, _secret = make_hook(cast, receiver.url)
    receiver.status = 500
    delivery = attempt(say(cast))
    assert webhooks.try_again(delivery=delivery, actor=cast.member, now=NOW)
    assert outbox.due(now=NOW) == [delivery.pk]
    attempt(delivery)
    assert attempt(webhooks.try_out(hook=hook, actor=cast.member, now=NOW)).state == "dead", "a test goes out"


def test_a_name_server_that_does_not_answer_is_not_waited_for(cast: Cast) -> None:
    never = threading.Event()

    def resolve(*_args: object, **_kwargs: object) -> list[Any]:
        never.wait(30)
        return []

    make_hook(cast, "https://hooks.example.org/")
    taken = outbox.take(say(cast).pk, now=NOW)
    assert taken is not None
    webhooks.deliver(taken, now=NOW, permitted=(), resolve=resolve, whole_seconds=0.05)
    never.set()
    assert Delivery.objects.get().error_text == "It did not answer in time."


def test_one_message_that_is_given_up_is_told_to_its_owner_once_a_day(cast: Cast, receiver: Receiver) -> None:
    make_hook(cast, receiver.url)
    attempt(say(cast, "fine"))
    receiver.status = 400
    for key in ("one", "two"):
        refused = say(cast, key, now=NOW - timedelta(hours=1))
        Delivery.objects.filter(pk=refused.pk).update(attempts=outbox.ATTEMPTS - 1)
        Webhook.objects.update(rests_until=None)
        assert attempt(refused).state == "dead"
    assert "was given up" in str(Notification.objects.of(cast.member).get(kind=Kind.DESK))
    assert Webhook.objects.get().disabled_at is None


def test_a_new_secret_signs_from_now_on(cast: Cast, receiver: Receiver) -> None:
    hook, old = make_hook(cast, receiver.url)
    new = webhooks.renew_secret(hook=hook, actor=cast.member, now=NOW)
    assert new != old
    attempt(say(cast))
    _path, headers, body = receiver.requests[0]
    again = signing.headers(secret=new, message_id=headers["webhook-id"], now=NOW, body=body)
    assert again["webhook-signature"] == headers["webhook-signature"]


def test_there_are_only_so_many_and_none_twice(cast: Cast) -> None:
    for number in range(webhooks.MOST - 1):
        make_hook(cast, f"https://hooks.example.org/{number}")
    with pytest.raises(webhooks.UnableToChangeWebhook, match="told already"):
        make_hook(cast, "https://hooks.example.org/0")
    make_hook(cast, "https://hooks.example.org/last")
    with pytest.raises(webhooks.UnableToChangeWebhook, match="remove one first"):
        make_hook(cast, "https://hooks.example.org/one-more")


def test_a_project_that_is_archived_is_told_nothing_more(cast: Cast, receiver: Receiver) -> None:
    hook, _secret = webhooks.add_webhook(
        url=receiver.url, actor=cast.lead, now=NOW, permitted=PERMITTED, project=cast.project
    )
    cast.project.archived_at = NOW
    cast.project.save()
    assert attempt(webhooks.try_out(hook=hook, actor=cast.lead, now=NOW)).state == "skipped"
    assert receiver.requests == []
