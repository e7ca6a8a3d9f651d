"""What finance's programs are told of statements: signed, once, with ids that stay, and only who may know."""

import uuid
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest

from claims.models import Adjustment, Charge, Dispute, PriceBook, Statement, StatementHook
from claims.money import adjusting, announcing, closing
from claims.money.months import Month
from claims.money.rating import content_of
from portal.accounts.models import AuditEntry, Delivery, User, Webhook
from portal.accounts.notifications import outbox, webhooks
from tests.accounts.notifications.receiver import listening
from tests.cast import Cast, make_cast
from tests.claims.money import JANUARY, make_money

FEBRUARY = datetime(2026, 2, 3, tzinfo=UTC)
PERMITTED = frozenset({"127.0.0.1"})


@pytest.fixture
def cast(db: None) -> Cast:
    cast = make_cast()
    make_money(
        cast,
        PriceBook.objects.create(name="2026", currency="EUR", valid_from=datetime(2025, 1, 1, tzinfo=UTC)),
    )
    Dispute.objects.update(state=Dispute.State.WITHDRAWN)
    return cast


def hooked(user: User, url: str = "https://erp.example.org/in") -> Webhook:
    hook, _secret = webhooks.add_webhook(url=url, actor=user, now=FEBRUARY, permitted=PERMITTED)
    announcing.switch(hook=hook, on=True, actor=user, now=FEBRUARY)
    return hook


def close(cast: Cast) -> Statement:
    Adjustment.objects.all().delete()
    return closing.close(
        project=cast.project, month=JANUARY, zone=UTC, actor=cast.finance, now=FEBRUARY, rated=True
    )


def told(kind: str) -> list[dict[str, Any]]:
    return [row.payload or {} for row in Delivery.objects.filter(kind=kind).order_by("pk")]


def corrected(cast: Cast, fixed: str) -> None:
    """A correction of January, billed in February, as rating writes it."""
    Charge.objects.filter(kind="correction").delete()
    first = Charge.objects.filter(kind="usage").order_by("pk").first()
    assert first is not None
    charge = Charge(
        kind=Charge.Kind.CORRECTION, source=first.source, month="2026-02", started_us=first.started_us,
        ended_us=first.ended_us, project=cast.project, currency="EUR", quantity=Fraction(1),  # type: ignore[misc] # the field takes fractions
        fixed=Fraction(fixed), origin=first, note="2026-01",
    )  # fmt: skip
    charge.content = content_of(charge)
    charge.save()


def test_a_closed_statement_reaches_finances_program_signed_and_again_until_it_arrives(cast: Cast) -> None:
    with listening() as receiver:
        hook = hooked(cast.finance, receiver.url)
        row = close(cast)
        delivery = Delivery.objects.get(kind="statement.closed")
        assert delivery.message_id == uuid.uuid5(hook.key, f"statement.closed:{row.pk}")
        receiver.status = 503
        for now in (FEBRUARY, FEBRUARY + outbox.PAUSES[0]):
            taken = outbox.take(delivery.pk, now=now + timedelta(seconds=1))
            assert taken is not None
            webhooks.deliver(taken, now=now + timedelta(seconds=1), permitted=PERMITTED)
            receiver.status = 200
        ids = [headers["webhook-id"] for _path, headers, _body in receiver.requests]
        assert ids == [str(delivery.message_id)] * 2
        assert all("webhook-signature" in headers for _path, headers, _body in receiver.requests)
    delivery.refresh_from_db()
    assert delivery.state == "sent"
    (payload,) = told("statement.closed")
    data = payload["data"]
    assert (payload["type"], data["project"], data["month"], data["digest"]) == (
        "statement.closed", "tides", "2026-01", row.digest,
    )  # fmt: skip
    total = sum(line.minor or 0 for line in row.lines.all())
    assert Fraction(data["totals"][0]["amount"]) == Fraction(total, 100)
    assert data["url"].endswith("/statements/2026-01/of/tides/")


def test_only_whom_all_statements_may_be_told_is_told(cast: Cast) -> None:
    hooked(cast.finance, "https://a.example.org/")
    hooked(cast.member, "https://b.example.org/")
    gone = hooked(cast.auditor, "https://c.example.org/")
    Webhook.objects.filter(pk=gone.pk).update(disabled_at=FEBRUARY)
    close(cast)
    assert [row.webhook.url for row in Delivery.objects.filter(kind="statement.closed")] == [  # type: ignore[union-attr] # each has one
        "https://a.example.org/"
    ]


def test_corrections_of_a_closed_month_are_told_once_each_time_they_change(cast: Cast) -> None:
    hooked(cast.finance)
    close(cast)

    def tell() -> int:
        return announcing.corrections(month=JANUARY, now=FEBRUARY)

    assert tell() == 0
    corrected(cast, "-10/3")
    assert (tell(), tell()) == (1, 0)
    corrected(cast, "5/2")
    assert (tell(), tell()) == (1, 0)
    corrected(cast, "-10/3")
    assert (tell(), tell()) == (1, 0)
    Charge.objects.filter(kind="correction").delete()
    assert (tell(), tell()) == (1, 0)
    amounts = [
        [(row["billed"], row["amount"], row["exact_numerator"]) for row in payload["data"]["corrections"]]
        for payload in told("statement.corrected")
    ]
    assert amounts == [
        [("2026-02", "-3.33", "-10")], [("2026-02", "2.50", "5")], [("2026-02", "-3.33", "-10")], [],
    ]  # fmt: skip
    assert announcing.corrections(month=Month(2025, 12), now=FEBRUARY) == 0


def test_a_credit_note_is_told_when_it_is_agreed_to(cast: Cast) -> None:
    hooked(cast.finance)
    credit = Adjustment.objects.get()
    adjusting.decide(adjustment=credit, approve=True, actor=cast.finance, now=FEBRUARY)
    more = adjusting.propose(
        project=cast.project, month=JANUARY, minor=500, currency="EUR", reason="x", actor=cast.finance,
        now=FEBRUARY,
    )  # fmt: skip
    adjusting.decide(adjustment=more, approve=True, actor=cast.administrator, now=FEBRUARY)
    refused = adjusting.propose(
        project=cast.project, month=JANUARY, minor=-1, currency="EUR", reason="x", actor=cast.finance,
        now=FEBRUARY,
    )  # fmt: skip
    adjusting.decide(adjustment=refused, approve=False, actor=cast.administrator, now=FEBRUARY)
    (payload,) = told("credit-note.agreed")
    assert (payload["data"]["amount"], payload["data"]["adjustment"]) == ("-12.50", credit.pk)
    assert [row["data"]["amount"] for row in told("adjustment.agreed")] == ["5.00"]


def test_nothing_is_told_of_what_was_undone(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    hooked(cast.finance)
    monkeypatch.setattr(closing, "_tell_closed", lambda *_told, **_options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        close(cast)
    assert told("statement.closed") == []


def test_switching_is_recorded_and_twice_is_once(cast: Cast) -> None:
    hook = hooked(cast.finance)
    for on in (True, False, False):
        announcing.switch(hook=hook, on=on, actor=cast.finance, now=FEBRUARY)
    assert not StatementHook.objects.exists()
    actions = AuditEntry.objects.filter(action__startswith="webhook.").order_by("pk")
    assert [entry.action for entry in actions][1:] == ["webhook.statements", "webhook.no-statements"]
