"""The export of charges keeps every rule of FOCUS, in both versions and formats, and loses nothing."""

import csv
import io
import random
from collections import defaultdict
from datetime import UTC, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.http import Http404

from claims.focus import files, rules
from claims.focus.columns import VERSIONS, columns
from claims.focus.metadata import metadata
from claims.focus.spreading import spread
from claims.focus.values import number, unit_of
from claims.models import Charge
from claims.money.statements import told_of
from portal.accounts.models import Membership, User
from tests.claims.focus_world import MARCH, World, make_world

SEEDS = range(4)


@pytest.fixture
def world(db: None) -> World:
    return make_world(1)


def totals_of(told: dict[str, Any]) -> dict[str, Decimal]:
    return {one["InvoiceId"]: Decimal(one["BilledCost"]) for one in told["x_Invoices"]}


def csv_rows(world: World, version: str, **asked: Any) -> list[dict[str, str]]:
    parts = files.written(world.dataset(version, **asked).rows(), version=version, form="csv")
    return list(csv.DictReader(io.StringIO(b"".join(parts).decode(), newline="")))


@pytest.mark.parametrize("seed", [*SEEDS, *(pytest.param(n, marks=pytest.mark.long) for n in range(4, 60))])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("form", files.FORMATS)
def test_random_months_keep_every_rule(db: None, tmp_path: Path, seed: int, version: str, form: str) -> None:
    world = make_world(seed)
    path = tmp_path / f"file.{form}"
    path.write_bytes(b"".join(files.written(world.dataset(version).rows(), version=version, form=form)))
    told = metadata(world.dataset(version))
    found = list(rules.check_file(path, totals=totals_of(told)))
    assert found == []
    assert told["x_Rows"] == Charge.objects.filter(started_us__lt=int(world.now.timestamp() * 10**6)).count()


def test_rows_add_up_to_their_statements_closed_or_open(world: World) -> None:
    sums: dict[Any, Decimal] = defaultdict(Decimal)
    for row in world.dataset("1.4").rows():
        sums[row["SubAccountId"], row["BillingPeriodStart"], row["BillingCurrency"]] += row["BilledCost"]
    for project in (*world.projects, None):
        for month in (MARCH, MARCH.next()):
            bounds = month.bounds(world.zone)
            statement = told_of(project=project, month=month, bounds=bounds, now=world.now)
            for currency, total in statement.totals.items():
                assert sums.pop((project.slug if project else None, bounds[0], currency)) == total
    assert not any(sums.values())


def test_parquet_and_csv_say_the_same(world: World, tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    path.write_bytes(b"".join(files.written(world.dataset("1.4").rows(), version="1.4", form="parquet")))
    table = pq.read_table(path).to_pylist()
    texts = csv_rows(world, "1.4")
    assert len(table) == len(texts) > 60
    for row, text in zip(table, texts, strict=True):
        for name in ("x_ExactCostNumerator", "ResourceId", "Tags"):
            assert text[name] == (row[name] or "")
        for name in ("BilledCost", "ListCost", "PricingQuantity"):
            assert text[name] == ("" if row[name] is None else number(row[name]))
        assert text["ChargePeriodStart"] == f"{row['ChargePeriodStart']:%Y-%m-%dT%H:%M:%SZ}"
        assert text["x_Provisional"] == str(row["x_Provisional"]).lower()


def test_every_kind_of_charge_has_its_place(world: World) -> None:
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in world.dataset("1.4").rows():
        rows[row["x_ChargeKind"]].append(row)
    assert {kind: {(r["ChargeCategory"], r["ChargeClass"]) for r in of} for kind, of in rows.items()} == {
        "usage": {("Usage", None)},
        "idle": {("Usage", None)},
        "shared": {("Adjustment", None)},
        "correction": {("Usage", "Correction")},
        "credit": {("Credit", None), ("Credit", "Correction")},
        "adjustment": {("Adjustment", None), ("Adjustment", "Correction")},
    }
    bounds = MARCH.bounds(world.zone)
    for row in (*rows["correction"], *(r for r in rows["credit"] if r["ChargeClass"])):
        assert row["BillingPeriodStart"] == bounds[1]
        assert bounds[0] <= row["ChargePeriodStart"] < row["ChargePeriodEnd"] <= bounds[1]
        assert row["InvoiceId"] is None
        assert row["x_CorrectsInvoiceId"] == f"2026-03-{row['SubAccountId']}-{row['BillingCurrency']}"
    (relief,) = (row for row in rows["shared"] if row["SubAccountId"] is None)
    parts = [row for row in rows["shared"] if row["SubAccountId"] is not None]
    assert relief["AllocatedResourceId"] is None
    assert {row["AllocatedResourceId"] for row in parts} <= {"tides", "eiwei", "soils"}
    exact = [Fraction(int(r["x_ExactCostNumerator"]), int(r["x_ExactCostDenominator"])) for r in parts]
    assert sum(exact) == -Fraction(int(relief["x_ExactCostNumerator"]), int(relief["x_ExactCostDenominator"]))


def test_closed_statements_are_invoices_and_what_is_open_is_provisional(world: World) -> None:
    for row in world.dataset("1.4").rows():
        closed = row["BillingPeriodStart"] == MARCH.start(world.zone) and row["SubAccountId"] != "soils"
        assert (row["InvoiceId"] is not None) == closed == (not row["x_Provisional"])
        assert (row["InvoiceDetailId"] is not None) == closed
        assert row["x_StatementState"] == ("closed" if closed else "open")


def test_what_has_no_price_is_billed_nothing_and_says_so(world: World) -> None:
    rows = [row for row in world.dataset("1.4").rows() if row["x_Unpriced"]]
    assert rows
    for row in rows:
        assert row["BilledCost"] == row["ListUnitPrice"] == row["ContractedCost"] == 0
        assert row["x_ExactCostNumerator"] is None
        assert row["BillingCurrency"] == world.books[0].currency
        assert row["PricingQuantity"] is not None
        assert row["ChargeDescription"].endswith("no price")


def test_focus_columns_are_ascii_and_own_columns_have_the_original(world: World) -> None:
    texts = csv_rows(world, "1.4", project="eiwei")
    assert {row["SubAccountName"] for row in texts} == {"eiwei"}
    assert {row["x_ProjectName"] for row in texts} == {"蛋白质折叠"}
    assert any(
        row["x_CostCentre"] == "研究" and row["Tags"] == '{"cost_centre":"\\u7814\\u7a76"}' for row in texts
    )
    assert "'=SUM(A1)" in {row["ResourceType"] for row in texts}


def test_what_still_runs_counts_up_to_now(world: World) -> None:
    rows = [row for row in world.dataset("1.4", period="2026-04").rows() if row["x_ChargeKind"] == "usage"]
    now = f"{world.now.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
    assert max(row["x_ExactPeriodEnd"] for row in rows) == now
    assert all(row["ChargePeriodEnd"] <= world.now + timedelta(seconds=1) for row in rows)


def test_the_ledger_tells_of_request_and_uncertainty(world: World) -> None:
    from claims.models import Allocation
    from claims.money.rating import COLUMNS, source_of

    charge = Charge.objects.filter(month="2026-04", kind="usage", project=world.projects[2]).first()
    assert charge is not None
    assert charge.cluster is not None
    row = Allocation.objects.create(
        cluster=charge.cluster, namespace="n", claim_name="c", claim_uid=charge.claim_uid, epoch=1,
        driver="d", pool_name="p", device_name="g", request_name="r", started_at=world.now,
        start_source="allocation", start_uncertainty_us=250_000,
    )  # fmt: skip
    natural = Allocation.objects.values(*COLUMNS).get(pk=row.pk)
    Charge.objects.filter(pk=charge.pk).update(source=source_of(natural))
    (told,) = (r for r in world.dataset("1.4").rows() if r["x_ChargeId"] == charge.pk)
    assert (told["x_StartSource"], told["x_StartUncertaintyMicroseconds"]) == ("allocation", 250_000)
    assert (told["x_EndSource"], told["x_EndUncertaintyMicroseconds"], told["x_RequestKey"]) == (None,) * 3
    assert told["x_ChargeUrl"] == f"/charges/{charge.pk}/"


def test_finance_sees_everything_and_members_their_projects(world: World) -> None:
    mina = User.objects.create(username="mina")
    Membership.objects.create(user=mina, project=world.projects[0])
    seen = {row["SubAccountId"] for row in world.dataset("1.4", viewer=mina).rows()}
    assert seen == {"tides"}
    everything = {row["SubAccountId"] for row in world.dataset("1.4", viewer=world.finance).rows()}
    assert everything == {"tides", "eiwei", "soils", None}
    with pytest.raises(Http404):
        world.dataset("1.4", viewer=mina, project="soils")
    with pytest.raises(Http404):
        world.dataset("1.4", viewer=mina, project="unattributed")


def test_a_digest_changes_with_whatever_is_exported(world: World) -> None:
    before = world.dataset("1.4", through="").digest()
    assert world.dataset("1.4", through="").digest() == before
    assert world.dataset("1.2", through="").digest() != before
    assert world.dataset("1.4", through="", project="soils").digest() != before
    soils = Charge.objects.filter(month="2026-03", project=world.projects[2]).first()
    assert soils is not None
    Charge.objects.filter(pk=soils.pk).update(content="x")
    assert world.dataset("1.4", through="").digest() != before


def test_metadata_tell_schema_recency_and_invoices(world: World) -> None:
    told = metadata(world.dataset("1.4"))
    (schema,) = told["Schema"]
    assert [one["ColumnName"] for one in schema["ColumnDefinition"]] == [c.name for c in columns("1.4")]
    assert schema["FocusVersion"] == "1.4"
    (recency,) = told["Recency"]
    assert [sector["TimeSectorComplete"] for sector in recency["TimeSectors"]] == [False, False]
    assert recency["DatasetInstanceComplete"] is False
    own = metadata(world.dataset("1.4", through="", project="tides"))
    assert own["Recency"][0]["TimeSectors"][0]["TimeSectorComplete"] is True
    assert own["x_Provisional"] == []
    statement = told_of(
        project=world.projects[0], month=MARCH, bounds=MARCH.bounds(world.zone), now=world.now
    )
    assert totals_of(own) == {f"2026-03-tides-{c}": total for c, total in statement.totals.items()}


@pytest.mark.parametrize("seed", range(40))
def test_rows_are_billed_to_the_last_digit_what_their_line_says(seed: int) -> None:
    rng = random.Random(seed)
    amounts = [
        Fraction(rng.randrange(-(10**12), 10**12), rng.choice((1, 7, 3_600_000_000, 10**22, 10**9 + 7)))
        for _row in range(rng.randrange(1, 40))
    ]
    goal = Fraction(round(sum(amounts) * 100) + rng.randrange(-1, 2), 100)
    parts = spread(amounts, goal=goal)
    assert Fraction(sum(parts), 10**10) == goal
    limit = abs(goal - sum(amounts)) + Fraction(2, 10**10)
    for part, exact in zip(parts, amounts, strict=True):
        assert abs(Fraction(part, 10**10) - exact) <= limit


@pytest.mark.parametrize(
    ("unit", "per", "told"),
    [
        ("device", "", "Device-Hours"), ("counters", "x", "Device-Hours"), ("capacity", "1Gi", "GiB-Hours"),
        ("capacity", "Gi", "GiB-Hours"), ("capacity", "40Gi", "40 GiB-Hours"), ("capacity", "1M", "MB-Hours"),
        ("capacity", "1", "Unit-Hours"), ("capacity", "", "Unit-Hours"), ("capacity", "0.5", "Unit-Hours"),
        ("capacity", "1k", "KB-Hours"),
    ],
)  # fmt: skip
def test_units_are_written_as_the_specification_wants(unit: str, per: str, told: str) -> None:
    assert unit_of(unit, per) == told


def test_the_document_names_every_column() -> None:
    text = (Path(__file__).parents[2] / "docs" / "focus.md").read_text(encoding="utf-8")
    listed = text[text.index("## Columns") : text.index("## Metadata")]
    for version in VERSIONS:
        assert [column.name for column in columns(version) if f"`{column.name}`" not in listed] == []
