"""Moments in forms: drawn to the minute where the reader is, and not moved by who did not touch them."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from django import forms
from django.utils import timezone

from portal.moments import MomentField, UnreadableMoment, drawn, placed
from portal.templatetags import ui

BERLIN = ZoneInfo("Europe/Berlin")
STORED = datetime(2026, 6, 1, 10, 30, 15, 123456, tzinfo=UTC)
# Half past two comes twice that night; this is the second.
SECOND = datetime(2026, 10, 25, 1, 30, 7, tzinfo=UTC)


class Form(forms.Form):
    at = MomentField(required=False)


def sent(text: str, stored: datetime | None) -> Form:
    return Form({"at": text}, initial={"at": stored})


def test_it_is_drawn_to_the_minute_with_the_readers_zone() -> None:
    with timezone.override(BERLIN):
        told = ui.form_field(Form(initial={"at": STORED})["at"])
    assert 'type="datetime-local"' in told["control"]
    assert 'value="2026-06-01T12:30"' in told["control"]
    assert told["help"] == "In your time zone, Europe/Berlin."


@pytest.mark.parametrize("stored", [STORED, SECOND])
def test_what_was_not_touched_stays_to_the_microsecond(stored: datetime) -> None:
    with timezone.override(BERLIN):
        form = sent(drawn(stored), stored)
        assert form.is_valid()
        assert form.cleaned_data["at"] == stored


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2026-06-01T12:31", datetime(2026, 6, 1, 10, 31, tzinfo=UTC)),
        # What a browser does not send is meant as it is written.
        ("2026-06-01T12:30:00", datetime(2026, 6, 1, 10, 30, tzinfo=UTC)),
        ("", None),
    ],
)
def test_what_was_typed_is_in_the_readers_zone(text: str, meant: datetime | None) -> None:
    with timezone.override(BERLIN):
        form = sent(text, STORED)
        assert form.is_valid()
        assert form.cleaned_data["at"] == meant


@pytest.mark.parametrize("text", ["0001-01-01T00:00", "9999-12-31T23:59", "2026-03-29T02:30", "soon", "\x00"])
def test_what_no_calendar_has_is_refused(text: str) -> None:
    with timezone.override(BERLIN):
        assert "at" in sent(text, STORED).errors


def test_of_a_time_that_comes_twice_the_first_is_meant_and_none_that_is_left_out() -> None:
    assert placed(datetime.fromisoformat("2026-10-25T02:30"), BERLIN) == datetime(
        2026, 10, 25, 0, 30, tzinfo=UTC
    )
    with pytest.raises(UnreadableMoment, match="does not exist"):
        placed(datetime.fromisoformat("2026-03-29T02:30"), BERLIN)
