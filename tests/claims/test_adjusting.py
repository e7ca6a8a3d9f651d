"""Credit notes and adjustments: which month they are of, and how files tell them."""

import csv
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from django.urls import reverse

from claims.models import Adjustment, Charge
from claims.money import adjusting
from claims.money.adjusting import UnableToAdjust
from claims.money.months import Month
from tests.cast import Cast, make_cast

MARCH = Month(2026, 3)
NOW = datetime(2026, 4, 2, tzinfo=UTC)
pytestmark = pytest.mark.django_db


@pytest.fixture
def cast(db: None) -> Cast:
    return make_cast()


def agreed(cast: Cast, **changed: Any) -> Adjustment:
    who: dict[str, Any] = {"now": NOW, "zone": UTC} | changed
    made = adjusting.propose(
        project=cast.project, month=MARCH, minor=-1250, currency="EUR", reason="A broken node",
        actor=cast.finance, **who,
    )  # fmt: skip
    adjusting.decide(adjustment=made, approve=True, actor=cast.administrator, **who)
    return made


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata", "Pacific/Auckland", "UTC"])
def test_it_counts_from_the_first_instant_of_its_month_wherever_the_organisation_is(
    cast: Cast, settings: Any, zone: str
) -> None:
    settings.ORGANISATION_ZONE = zone
    agreed(cast, zone=ZoneInfo(zone))
    assert Charge.objects.get().start == MARCH.start(ZoneInfo(zone))
    client = Client()
    client.force_login(cast.finance)
    told = client.get("/api/v1/usage/?from=2026-03-01&to=2026-03-31&group_by=day").json()
    (row,) = told["results"]
    assert (row["day"], row["amount"]) == ("2026-03-01", "-12.50")


def test_a_month_that_has_not_begun_is_refused_where_it_is_typed(cast: Cast) -> None:
    start = MARCH.start(ZoneInfo("America/New_York"))
    with pytest.raises(UnableToAdjust, match="not begun") as refused:
        agreed(cast, now=start - timedelta(seconds=1), zone=ZoneInfo("America/New_York"))
    assert refused.value.field == "month"
    agreed(cast, now=start, zone=ZoneInfo("America/New_York"))


def test_a_credit_is_a_number_in_the_statements_file(cast: Cast) -> None:
    agreed(cast)
    client = Client()
    client.force_login(cast.finance)
    answer = client.get(reverse("statement-export", args=["2026-03", cast.project.slug]))
    text = b"".join(answer.streaming_content).decode("utf-8-sig")  # type: ignore[attr-defined]
    (row,) = csv.DictReader(StringIO(text))
    assert (row["amount"], row["exact_numerator"], row["exact_denominator"]) == ("-12.50", "-25", "2")


@pytest.mark.parametrize("sent", [{}, {"decision": "aprove"}, {"decision": "approve", "note": "a\0b"}])
def test_what_is_no_decision_decides_nothing(cast: Cast, sent: dict[str, str]) -> None:
    made = adjusting.propose(
        project=cast.project, month=MARCH, minor=-1250, currency="EUR", reason="A broken node",
        actor=cast.finance, now=NOW,
    )  # fmt: skip
    client = Client()
    client.force_login(cast.administrator)
    assert client.post(reverse("adjustment-decide", args=[made.pk]), sent).status_code == 303
    made.refresh_from_db()
    assert made.state == Adjustment.State.PROPOSED
