"""Texts have one form, and nothing in them that cannot be seen or turns what follows."""

import unicodedata

import pytest
from django import forms
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from portal import texts
from portal.accounts.models import Project
from tests.cast import Cast


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("  Tides ", "Tides"),
        ("Zu\u0308rich", "Zürich"),
        ("one\r\ntwo", "one\ntwo"),
        ("潮汐模型", "潮汐模型"),
        ("👩‍🔬 lab", "👩‍🔬 lab"),
        ("", ""),
    ],
)
def test_a_text_is_brought_into_its_form(typed: str, kept: str) -> None:
    assert texts.plain(typed) == kept


@pytest.mark.parametrize(
    "wrong", ["a\x00b", "a\x1b[31m", "a\x7f", "a\x85b", "a\ud800", "abc\u202egnp.exe", "\u2066x"]
)
def test_what_cannot_be_seen_for_what_it_is_is_refused(wrong: str) -> None:
    with pytest.raises(texts.UncleanText):
        texts.plain(wrong)


@pytest.mark.parametrize(
    "wrong",
    ["\u200b\u200b", "\u00ad", "Ti\u200bdes", "\u3164", "\u2800", "\ufeffTides", "\u0301", "a\u2060b"],
)
def test_a_name_has_something_to_be_seen_and_nothing_that_is_not(wrong: str) -> None:
    with pytest.raises(texts.UncleanText):
        texts.name(wrong)


@pytest.mark.parametrize(
    ("typed", "kept"), [("Tidal \n  models", "Tidal models"), ("می‌خواهم", "می‌خواهم"), ("  ", "")]
)
def test_a_name_is_one_line(typed: str, kept: str) -> None:
    assert texts.name(typed) == kept


@given(st.text())
def test_the_form_of_a_form_is_itself(typed: str) -> None:
    try:
        once = texts.plain(typed)
    except texts.UncleanText:
        return
    assert texts.plain(once) == once
    assert unicodedata.is_normalized("NFC", once)


@given(st.text(), st.integers(1, 40))
def test_what_is_looked_for_can_be_kept(typed: str, limit: int) -> None:
    found = texts.searched(typed, limit=limit)

    assert len(found) <= limit
    assert "\x00" not in found
    found.encode()


def test_every_text_field_of_every_form_refuses_control_characters() -> None:
    class Ask(forms.Form):
        purpose = forms.CharField()
        kind = forms.RegexField(regex="^.*$")

    form = Ask({"purpose": "a\x1bb", "kind": "a\u202eb"})

    assert not form.is_valid()
    assert form.errors["purpose"] == form.errors["kind"] == ["This contains a control character."]


@pytest.mark.django_db
@pytest.mark.parametrize("invisible", ["\u200b", "\u3164", "\u2060\u2060"])
def test_no_project_has_a_name_that_cannot_be_seen(client: Client, cast: Cast, invisible: str) -> None:
    client.force_login(cast.administrator)

    page = client.post("/create-project/", {"name": invisible, "slug": "ghost"}).content.decode()

    assert "invisible" in page or "no visible character" in page
    assert not Project.objects.filter(slug="ghost").exists()


@pytest.mark.django_db
def test_names_that_look_the_same_are_the_same(client: Client, cast: Cast) -> None:
    client.force_login(cast.administrator)
    client.post("/create-project/", {"name": "Zürich", "slug": "one"})

    page = client.post("/create-project/", {"name": "Zu\u0308rich", "slug": "two"}).content.decode()

    assert "Another project has this already" in page
    assert client.get("/projects/?q=Zu\u0308rich").content.decode().count("Zürich") >= 1
