"""Watches and messages as people meet them on pages."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from claims.models import Allocation, HolderMessage, Mute, Request, Watch
from inventory.models import Device
from portal.accounts.models import Notification
from tests.browser.sessions import signed_in
from tests.browser.world import World, make_world
from tests.cast import cheap_passwords, make_cast

__all__ = ["cheap_passwords"]

HTMX = {"HX-Request": "true"}


@pytest.fixture
def world(db: None, cheap_passwords: None) -> World:
    """Where nobody waits for anything, or has said anything, yet."""
    made = make_world(make_cast())
    for model in (Watch, HolderMessage, Mute):
        model.objects.all().delete()
    return made


def test_a_watch_is_made_listed_and_cancelled(world: World) -> None:
    client = signed_in(world.cast.stranger)
    page = client.get(reverse("watch-create"), {"flavor": "h100"})
    assert page.status_code == 200
    client.post(reverse("watch-create"), {"flavor": "h100", "count": "2", "days": "5"})
    row = Watch.objects.get()
    assert (row.person, row.count) == (world.cast.stranger, 2)
    listed = client.get(reverse("notification-list")).content.decode()
    assert "2 × H100" in listed
    assert signed_in(world.cast.member).post(reverse("watch-cancel", args=[row.pk])).status_code == 404
    client.post(reverse("watch-cancel", args=[row.pk]))
    assert not Watch.objects.exists()


def test_what_is_wrong_stands_next_to_the_field_and_what_was_typed_stays(world: World) -> None:
    answer = signed_in(world.cast.member).post(
        reverse("watch-create"),
        {"cluster": "berlin", "device_class": "gpu.nvidia.com", "count": "900", "days": "7"},
    )
    assert answer.status_code == 422
    assert 'value="900"' in answer.content.decode()
    assert "id_count_error" in answer.content.decode()


def test_from_the_request_form_the_button_becomes_a_word(world: World) -> None:
    answer = signed_in(world.cast.member).post(
        reverse("watch-create"),
        {"flavor": "", "cluster": "berlin", "device_class": "gpu.nvidia.com", "count": ""},
        headers=HTMX,
    )
    assert "You will be told" in answer.content.decode()
    assert Watch.objects.get().count == 1


@pytest.mark.parametrize(
    "query", [{}, {"flavor": "no-such"}, {"cluster": "berlin", "device_class": "no-such"}]
)
def test_what_there_is_not_is_not_waited_for(world: World, query: dict[str, str]) -> None:
    assert signed_in(world.cast.member).get(reverse("watch-create"), query).status_code == 404


def asked(world: World, text: str = "When will it be free?") -> HolderMessage:
    """A message of the stranger's to who holds the device."""
    device = Device.objects.select_related("pool").get(pk=world.things["held"])
    allocation = Allocation.objects.filter(device_name=device.name, pool_name=device.pool.name).first()
    request = Request.objects.get(key=world.things["request-in-use"])
    if allocation is None or allocation.request is None or allocation.ended_at is not None:
        Allocation.objects.create(
            cluster=device.cluster, namespace="tides", claim_name="x", claim_uid="x-uid", epoch=1,
            driver=device.pool.driver, pool_name=device.pool.name, device_name=device.name,
            node_name=device.node_name, request_name="gpu", product="", device_class="gpu.nvidia.com",
            started_at=timezone.now() - timedelta(hours=1), start_source="observed", request=request,
            project=request.project,
        )  # fmt: skip
    client = signed_in(world.cast.stranger)
    answer = client.post(reverse("device-ask", args=[device.pk]), {"text": text})
    assert answer.status_code == 303, answer.content.decode()
    return HolderMessage.objects.get(thread=None)


def test_strangers_talk_through_the_desk_without_names(world: World) -> None:
    message = asked(world)
    told = Notification.objects.of(world.cast.member).get(kind="message")
    assert str(told).startswith("Somebody of Glacier flow asks about")
    holders = signed_in(world.cast.member)
    page = holders.get(reverse("message-thread", args=[message.key])).content.decode()
    assert "Stig" not in page
    holders.post(reverse("message-thread", args=[message.key]), {"text": "On Friday."})
    answered = Notification.objects.of(world.cast.stranger).get(kind="message")
    assert str(answered).startswith("Somebody of Tidal models answers")
    assert answered.body_text == "On Friday."
    page = signed_in(world.cast.stranger).get(answered.url).content.decode()
    assert "On Friday." in page
    assert "Mina" not in page


def test_only_who_takes_part_reads_it(world: World) -> None:
    url = reverse("message-thread", args=[asked(world).key])
    seen = {"member": 200, "lead": 200, "stranger": 200, "administrator": 200, "auditor": 200}
    roles = (*seen, "teammate", "finance")
    status = {role: signed_in(getattr(world.cast, role)).get(url).status_code for role in roles}
    assert status == {**seen, "teammate": 404, "finance": 404}
    assert signed_in(world.cast.auditor).post(url, {"text": "x"}).status_code == 403


def test_who_is_muted_is_heard_no_more_until_that_is_ended(world: World) -> None:
    message = asked(world)
    holders = signed_in(world.cast.member)
    holders.post(reverse("message-mute", args=[message.key]))
    Notification.objects.filter(kind="message").delete()
    signed_in(world.cast.stranger).post(reverse("message-thread", args=[message.key]), {"text": "Please?"})
    assert not Notification.objects.of(world.cast.member).filter(kind="message").exists()
    assert Notification.objects.of(world.cast.lead).filter(kind="message").exists()
    row = Mute.objects.get()
    assert "Somebody of Glacier flow" in holders.get(reverse("notification-list")).content.decode()
    holders.post(reverse("mute-end", args=[row.pk]))
    assert not Mute.objects.exists()


def test_many_messages_are_too_many(world: World) -> None:
    message = asked(world)
    client, url = signed_in(world.cast.stranger), reverse("message-thread", args=[message.key])
    answers = [client.post(url, {"text": f"Hello {number}?"}).status_code for number in range(5)]
    assert answers == [303, 303, 303, 303, 422]


@pytest.mark.parametrize("text", ["", "   ", "x" * 1001, "a\x00b", "\u202eabc"])
def test_what_is_no_message_is_told_next_to_the_field(world: World, text: str) -> None:
    message = asked(world)
    url = reverse("message-thread", args=[message.key])
    answer = signed_in(world.cast.stranger).post(url, {"text": text})
    assert answer.status_code == 422
    assert "id_text_error" in answer.content.decode()


def test_nobody_to_ask_is_said(world: World) -> None:
    page = signed_in(world.cast.stranger).get(reverse("device-ask", args=[world.things["free"]]))
    assert "Nobody to ask" in page.content.decode()
