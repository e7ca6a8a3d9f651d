"""What administrators tell everybody on the first page."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from portal.accounts.announcements import (
    UnableToAnnounce,
    announce,
    change_announcement,
    dismiss,
    end_announcement,
)
from portal.accounts.models import Announcement, AuditEntry, User
from tests.cast import NOW, Cast

VALUES = {
    "level": Announcement.Level.WARNING,
    "text": "Lakeside is down on Friday",
    "text_zh_hans": "周五 Lakeside 停机",
    "starts_at": NOW,
    "ends_at": NOW + timedelta(days=2),
    "dismissible": True,
}


def told(cast: Cast, **values: object) -> Announcement:
    return announce(values=VALUES | values, actor=cast.administrator, now=NOW, source_ip="192.0.2.7")


def seen_by(user: User, hours: float = 1) -> list[str]:
    rows = Announcement.objects.for_reader(user, now=NOW + timedelta(hours=hours))
    return [row.text for row in rows]


def test_it_is_shown_from_its_beginning_until_before_its_end(cast: Cast) -> None:
    told(cast)
    assert [seen_by(cast.stranger, hours) for hours in (-0.1, 0, 47.9, 48)] == [
        [], ["Lakeside is down on Friday"], ["Lakeside is down on Friday"], [],
    ]  # fmt: skip


def test_the_gravest_comes_first(cast: Cast) -> None:
    told(cast, text="hint", level=Announcement.Level.INFO)
    told(cast, text="outage", level=Announcement.Level.OUTAGE)
    told(cast, text="soon")
    assert seen_by(cast.member) == ["outage", "soon", "hint"]


def test_who_puts_it_away_sees_it_no_more_until_its_words_change(cast: Cast) -> None:
    announcement = told(cast)
    dismiss(announcement=announcement, user=cast.member)
    dismiss(announcement=announcement, user=cast.member)
    assert (seen_by(cast.member), len(seen_by(cast.teammate))) == ([], 1)
    later = VALUES | {"ends_at": NOW + timedelta(days=3)}
    change_announcement(announcement=announcement, values=later, actor=cast.administrator, now=NOW)
    assert seen_by(cast.member) == []
    announcement.refresh_from_db()
    other = later | {"text": "Lakeside is down on Saturday"}
    change_announcement(announcement=announcement, values=other, actor=cast.administrator, now=NOW)
    assert seen_by(cast.member) == ["Lakeside is down on Saturday"]


def test_what_must_be_read_cannot_be_put_away(cast: Cast) -> None:
    announcement = told(cast, dismissible=False)
    dismiss(announcement=announcement, user=cast.member)
    assert len(seen_by(cast.member)) == 1


def test_every_change_is_in_the_audit_trail(cast: Cast) -> None:
    announcement = told(cast)
    change_announcement(
        announcement=announcement, values=VALUES | {"level": 3}, actor=cast.administrator, now=NOW
    )
    change_announcement(
        announcement=Announcement.objects.get(), values=VALUES | {"level": 3}, actor=cast.administrator,
        now=NOW,
    )  # fmt: skip
    end_announcement(announcement=announcement, actor=cast.administrator, now=NOW + timedelta(hours=1))
    end_announcement(announcement=announcement, actor=cast.administrator, now=NOW + timedelta(hours=2))
    entries = AuditEntry.objects.filter(action__startswith="announcement.").order_by("pk")
    assert [(entry.action, entry.actor) for entry in entries] == [
        (f"announcement.{verb}", cast.administrator) for verb in ("create", "change", "end")
    ]
    assert (entries[1].before, entries[1].after) == ({"level": 2}, {"level": 3})
    assert entries[0].source_ip == "192.0.2.7"


def test_one_that_has_not_begun_is_called_off_and_goes(cast: Cast) -> None:
    announcement = told(cast, starts_at=NOW + timedelta(days=1))
    end_announcement(announcement=announcement, actor=cast.administrator, now=NOW)
    assert not Announcement.objects.exists()


def test_it_does_not_end_before_it_begins(cast: Cast) -> None:
    with pytest.raises(UnableToAnnounce) as refused:
        told(cast, ends_at=NOW)
    assert refused.value.field == "ends_at"


# --- pages ------------------------------------------------------------------------------------------


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.mark.parametrize(("language", "text"), [("en", "down on Friday"), ("zh-hans", "周五")])
def test_the_first_page_has_it_in_the_readers_language(cast: Cast, language: str, text: str) -> None:
    told(cast, starts_at=timezone.now() - timedelta(minutes=1), ends_at=None)
    cast.member.language = language
    cast.member.save()
    assert text in signed_in(cast.member).get("/").content.decode()


def test_an_administrator_writes_changes_and_ends_one(cast: Cast) -> None:
    client = signed_in(cast.administrator)
    sent = {"level": "1", "text": "New devices", "dismissible": "on", "starts_at": "", "ends_at": ""}
    assert client.post("/create-announcement/", sent).status_code == 303
    made = Announcement.objects.get()
    assert made.created_by == cast.administrator
    assert "New devices" in client.get("/announcements/").content.decode()

    assert client.post(f"/announcements/{made.pk}/", sent | {"text": "More devices"}).status_code == 303
    made.refresh_from_db()
    assert (made.text, made.ends_at) == ("More devices", None)

    client.post(f"/announcements/{made.pk}/end/")
    made.refresh_from_db()
    assert made.ends_at is not None


@pytest.mark.parametrize(
    "wrong",
    [
        {"text": ""}, {"level": "9"}, {"text": "x" * 501}, {"ends_at": "tomorrow"},
        {"starts_at": "9999-12-31T23:59"}, {"starts_at": "2026-03-02T00:00", "ends_at": "2026-03-01T00:00"},
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_said_and_nothing_typed_is_lost(cast: Cast, wrong: dict[str, str]) -> None:
    sent = {"level": "1", "text": "New devices", "text_zh_hans": "新设备", "starts_at": "", "ends_at": ""}
    response = signed_in(cast.administrator).post("/create-announcement/", sent | wrong)
    assert response.status_code == 422
    assert "新设备" in response.content.decode()
    assert not Announcement.objects.exists()


def test_a_reader_puts_it_away_with_a_button(cast: Cast) -> None:
    announcement = told(cast, starts_at=timezone.now(), ends_at=None)
    client = signed_in(cast.stranger)
    assert f"/announcements/{announcement.pk}/dismiss/" in client.get("/").content.decode()
    client.post(f"/announcements/{announcement.pk}/dismiss/")
    assert "Lakeside" not in client.get("/").content.decode()


def test_auditors_read_along_and_write_nothing(cast: Cast) -> None:
    client = signed_in(cast.auditor)
    assert client.get("/announcements/").status_code == 200
    assert client.get("/create-announcement/").status_code == 403
    assert signed_in(cast.member).get("/announcements/").status_code == 403
