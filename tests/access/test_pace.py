"""A token that calls too often is told when to come back, and nobody else notices."""

from typing import Any

import pytest
import time_machine
from django.test import Client
from django.urls import reverse

from portal.accounts.models import ApiToken
from portal.rest_pace import Counts
from tests.cast import Cast, cast, cheap_passwords

__all__ = ["cast", "cheap_passwords"]

pytestmark = pytest.mark.django_db


def token(cast: Cast, name: str) -> str:
    _row, secret = ApiToken.objects.create(user=cast.member, name=name, scopes=[ApiToken.Scope.INVENTORY])
    return str(secret)


def ask(secret: str) -> Any:
    return Client().get(reverse("api-cluster-list"), headers={"authorization": f"Bearer {secret}"})


def test_a_token_that_calls_too_often_waits_and_others_do_not(cast: Cast, settings: Any) -> None:
    settings.API_PER_MINUTE = 3
    busy, calm = token(cast, "busy"), token(cast, "calm")
    with time_machine.travel("2026-11-30T09:00:20Z", tick=False) as clock:
        assert [ask(busy).status_code for _ in range(5)] == [200, 200, 200, 429, 429]
        refused = ask(busy)
        assert refused["Content-Type"] == "application/problem+json"
        assert refused.json()["code"] == "throttled"
        assert 40 <= int(refused["Retry-After"]) <= 41
        assert ask(calm).status_code == 200
        clock.shift(int(refused["Retry-After"]))
        assert ask(busy).status_code == 200


def test_people_in_a_browser_are_not_counted_with_programs(cast: Cast, settings: Any) -> None:
    settings.API_PER_MINUTE = 1
    browser = Client()
    browser.force_login(cast.member)
    assert {browser.get(reverse("api-cluster-list")).status_code for _ in range(4)} == {200}


def test_it_can_be_switched_off(cast: Cast, settings: Any) -> None:
    settings.API_PER_MINUTE = 0
    secret = token(cast, "busy")
    assert {ask(secret).status_code for _ in range(4)} == {200}


@pytest.mark.nodatabase
def test_what_is_counted_is_of_one_minute_and_takes_no_more_room_with_time() -> None:
    counts = Counts()
    for minute in range(100):
        assert counts.take(f"token-{minute}", minute=minute, most=1)
        assert not counts.take(f"token-{minute}", minute=minute, most=1)
    assert len(counts._calls) == 1
