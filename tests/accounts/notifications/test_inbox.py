"""The list in the portal, the bell, the choices, and the same by REST."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from portal.accounts.models import Delivery, Notification, NotificationChoice, User, Webhook
from portal.accounts.notifications import inbox
from portal.accounts.notifications.kinds import Kind
from portal.accounts.notifications.telling import tell
from portal.accounts.notifications.texts import as_written
from tests.browser.sessions import signed_in
from tests.cast import NOW, Cast


def say(person: User, key: str, *, kind: Kind = Kind.QUOTA, hours: int = 0) -> Notification:
    tell(
        people=[person], kind=kind, subject=as_written(f"note {key}"), url="/projects/", key=key,
        now=NOW + timedelta(hours=hours),
    )  # fmt: skip
    return Notification.objects.get(person=person, key=key)


def page(client: Client, **query: str) -> str:
    return client.get(reverse("notification-list"), query).content.decode()


def test_unread_comes_first_then_the_newest(cast: Cast) -> None:
    for number in range(4):
        say(cast.member, str(number), hours=number)
    inbox.read(person=cast.member, now=NOW, pk=Notification.objects.get(key="3").pk)
    assert [row.key for row in inbox.inbox(cast.member)] == ["2", "1", "0", "3"]


def test_opening_one_reads_it_and_leads_to_what_it_is_about(cast: Cast) -> None:
    row, client = say(cast.member, "a"), signed_in(cast.member)
    assert "note a" in page(client)
    answer = client.post(reverse("notification-open", args=[row.pk]))
    assert (answer.status_code, answer["Location"]) == (303, "/projects/")
    assert inbox.unread_count(cast.member) == 0


def test_nobody_sees_or_reads_what_another_is_told(cast: Cast) -> None:
    row, other = say(cast.member, "a"), signed_in(cast.administrator)
    assert "note a" not in page(other)
    assert other.post(reverse("notification-open", args=[row.pk])).status_code == 404
    other.post(reverse("notification-read"), {"pk": row.pk})
    other.post(reverse("notification-read"))
    assert inbox.unread_count(cast.member) == 1


def test_all_of_a_kind_are_read_and_the_list_is_narrowed_by_kind(cast: Cast) -> None:
    say(cast.member, "a")
    say(cast.member, "b", kind=Kind.EXPIRY)
    client = signed_in(cast.member)
    assert "note b" not in page(client, kind="quota")
    assert "note b" in page(client, kind="no-such-kind")
    client.post(reverse("notification-read"), {"kind": "quota"})
    assert inbox.unread_count(cast.member) == 1
    client.post(reverse("notification-read"), {"pk": "9" * 30})
    client.post(reverse("notification-read"))
    assert inbox.unread_count(cast.member) == 0


@pytest.mark.parametrize(("count", "told"), [(0, ""), (1, "1"), (99, "99"), (120, "99+")])
def test_the_bell_counts_up_to_a_point_with_one_query(cast: Cast, count: int, told: str) -> None:
    Notification.objects.bulk_create(
        Notification(
            person=cast.member, kind="quota", key=str(n), subject=as_written("x").as_json(), created_at=NOW
        )
        for n in range(count)
    )
    client = signed_in(cast.member)
    with CaptureQueriesContext(connection) as queries:
        answer = client.get(reverse("profile")).content.decode()
    assert sum("accounts_notification" in query["sql"] for query in queries) == 1
    assert ('class="cd-bell-count"' in answer) == bool(told)
    assert f">{told}</span></a>" in answer or not told


def test_what_is_old_goes_read_or_not(cast: Cast) -> None:
    say(cast.member, "old")
    say(cast.member, "new", hours=24)
    Webhook.objects.create(
        url="https://a.test/", secret=b"", person=cast.member, created_by=cast.member, created_at=NOW
    )
    say(cast.member, "with-delivery")
    assert inbox.prune(now=NOW + inbox.KEPT_FOR + timedelta(hours=1)) == 2
    assert [row.key for row in Notification.objects.all()] == ["new"]
    assert not Delivery.objects.exists()


def test_choices_are_kept_and_recorded_and_what_is_fixed_stays(cast: Cast, settings: Any) -> None:
    settings.MAIL_OFFERED = True
    client = signed_in(cast.member)
    client.post(reverse("notification-choices"), {"request-mail": "on", "quota-portal": "on"})
    chosen = {(row.kind, row.channel): row.wanted for row in NotificationChoice.objects.all()}
    assert chosen["request", "mail"] is True
    assert chosen["request", "portal"] is False
    assert ("desk", "portal") not in chosen
    assert ("quota", "portal") not in chosen, "that is the default"
    say(cast.member, "a", kind=Kind.DESK)
    assert inbox.unread_count(cast.member) == 1


def test_findings_are_offered_to_administrators_and_mail_where_there_is_mail(cast: Cast) -> None:
    member = signed_in(cast.member).get(reverse("notification-choices")).content.decode()
    administrator = signed_in(cast.administrator).get(reverse("notification-choices")).content.decode()
    assert "finding-portal" not in member
    assert "finding-portal" in administrator
    assert "request-mail" not in administrator


def test_the_same_by_rest(cast: Cast) -> None:
    row, client = say(cast.member, "a"), signed_in(cast.member)
    say(cast.stranger, "b")
    listed = client.get(reverse("api-notification-list"), {"unread": "true"}).json()["results"]
    assert [(one["id"], one["subject"], one["kind"]) for one in listed] == [(row.pk, "note a", "quota")]
    assert client.get(reverse("api-notification-list"), {"kind": "x"}).status_code == 400
    other = Notification.objects.get(key="b").pk
    send: Any = {"content_type": "application/json"}
    assert client.post(reverse("api-notification-read"), {"id": other}, **send).status_code == 404
    assert client.post(reverse("api-notification-read"), {"id": row.pk}, **send).json() == {"read": 1}
    assert client.get(reverse("api-notification-list"), {"unread": "true"}).json()["results"] == []


def test_choices_by_rest(cast: Cast) -> None:
    client, url = signed_in(cast.member), reverse("api-notification-choices")
    wish = {"kind": "request", "channel": "webhook", "wanted": False}
    told = client.put(url, [wish], content_type="application/json").json()
    assert wish in told
    refused = client.put(
        url, [{"kind": "finding", "channel": "portal", "wanted": True}], content_type="application/json"
    )
    assert refused.status_code == 400
    assert "finding/portal" in refused.json()["detail"]
