"""Pages of how the accounts are kept: which bound is billed, and whose programs hear of statements."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from claims.models import LedgerPolicy, StatementHook
from portal.accounts.models import AuditEntry, User, Webhook
from portal.accounts.notifications.webhooks import add_webhook
from tests.cast import Cast, make_cast

POLICY, HOOKS = "/history/ledger/policy/", "/statements/webhooks/"


@pytest.fixture
def cast(db: None) -> Cast:
    return make_cast()


def call(user: User, path: str, data: Any = None) -> Any:
    client = Client()
    client.force_login(user)
    return client.get(path) if data is None else client.post(path, data)


def test_without_a_policy_what_is_not_certain_is_billed_in_favour_of_who_pays(cast: Cast) -> None:
    page = call(cast.administrator, POLICY).content.decode()
    assert "Now it is in favour of who pays." in page
    assert "checked" in page.split('value="tenant"')[1].split(">")[0]


def test_an_administrator_sets_the_bound_from_a_day_that_is_to_come(cast: Cast, settings: Any) -> None:
    settings.ORGANISATION_ZONE = "Europe/Paris"
    answer = call(cast.administrator, POLICY, {"bound": "operator", "valid_from": "2999-01-01"})
    assert answer.status_code == 303
    policy = LedgerPolicy.objects.get()
    assert (policy.bound, policy.valid_from) == ("operator", datetime(2998, 12, 31, 23, tzinfo=UTC))
    assert AuditEntry.objects.get(action="ledger.policy").actor == cast.administrator
    assert "in favour of who operates" in call(cast.auditor, POLICY).content.decode()


def test_empty_is_from_now_on(cast: Cast) -> None:
    before = timezone.now()
    call(cast.administrator, POLICY, {"bound": "operator", "valid_from": ""})
    assert before <= LedgerPolicy.objects.get().valid_from <= timezone.now()


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"bound": "operator", "valid_from": "2020-01-01"}, "valid_from"),
        ({"bound": "operator", "valid_from": "0001-01-01"}, "valid_from"),
        ({"bound": "operator", "valid_from": "9999-12-31"}, "valid_from"),
        ({"bound": "operator", "valid_from": "2026-13-40"}, "valid_from"),
        ({"bound": "x"}, "bound"), ({}, "bound"),
    ],
)  # fmt: skip
def test_a_policy_that_cannot_be_is_told_beside_its_field(cast: Cast, sent: Any, field: str) -> None:
    answer = call(cast.administrator, POLICY, sent)
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == [field]
    assert not LedgerPolicy.objects.exists()


def test_only_administrators_set_it(cast: Cast) -> None:
    assert call(cast.auditor, POLICY, {"bound": "operator"}).status_code == 403
    assert call(cast.finance, POLICY).status_code == 403
    assert not LedgerPolicy.objects.exists()


def test_finance_chooses_which_webhook_hears_of_statements(cast: Cast) -> None:
    hook, _secret = add_webhook(
        url="https://erp.example.org/in",
        actor=cast.finance,
        now=timezone.now() - timedelta(days=1),
        permitted=(),
    )
    assert "not told" in call(cast.finance, HOOKS).content.decode()
    assert call(cast.finance, HOOKS, {"hook": hook.pk, "on": "1"}).status_code == 303
    assert StatementHook.objects.get().webhook == hook
    assert "Tell it no more" in call(cast.finance, HOOKS).content.decode()
    call(cast.finance, HOOKS, {"hook": hook.pk, "on": "0"})
    assert not StatementHook.objects.exists()


@pytest.mark.parametrize("key", ["", "x", "²", "9" * 30, "-1", "\x00"])
def test_a_webhook_that_is_none_of_theirs_is_none(cast: Cast, key: str) -> None:
    other, _secret = add_webhook(
        url="https://a.example.org/", actor=cast.administrator, now=timezone.now(), permitted=()
    )
    assert call(cast.finance, HOOKS, {"hook": key, "on": "1"}).status_code in (303, 404)
    assert call(cast.finance, HOOKS, {"hook": other.pk, "on": "1"}).status_code == 404
    assert not StatementHook.objects.exists()
    assert Webhook.objects.count() == 1
