"""Every rule of FOCUS catches what breaks it, and names the row and the column."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.core.management import CommandError, call_command

from claims.focus import files, rules
from claims.focus.columns import VERSIONS, arrow_schema, columns
from claims.focus.rules import Unreadable, check, check_file
from claims.focus.terms import Violation
from tests.claims.focus_world import World, make_world

# One row of each kind, as CSV has it: what the violations are seeded in.
_Fields = dict[str, str | None]
_USAGE: _Fields = {
    "BilledCost": "5.0", "BillingAccountId": "Example", "BillingAccountName": "Example",
    "BillingAccountType": "Organisation", "BillingCurrency": "EUR",
    "BillingPeriodEnd": "2026-04-01T00:00:00Z", "BillingPeriodStart": "2026-03-01T00:00:00Z",
    "ChargeCategory": "Usage", "ChargeDescription": "A device", "ChargeFrequency": "Usage-Based",
    "ChargePeriodEnd": "2026-03-02T02:00:00Z", "ChargePeriodStart": "2026-03-02T00:00:00Z",
    "ConsumedQuantity": "2.0", "ConsumedUnit": "Device-Hours", "ContractedCost": "5.0",
    "ContractedUnitPrice": "2.5", "EffectiveCost": "5.0", "HostProviderName": "Example",
    "InvoiceDetailId": "1", "InvoiceId": "2026-03-tides-EUR", "InvoiceIssuerName": "Example",
    "ListCost": "6.0", "ListUnitPrice": "3.0", "PricingCategory": "Standard", "PricingQuantity": "2.0",
    "PricingUnit": "Device-Hours", "ProviderName": "Example", "PublisherName": "Example",
    "RegionId": "north", "RegionName": "north", "ResourceId": "north/gpu-1", "ResourceName": "gpu-1",
    "ResourceType": "GPU", "ServiceCategory": "Compute", "ServiceName": "Kubernetes Devices",
    "ServiceProviderName": "Example", "ServiceSubcategory": "Other (Compute)", "SkuId": "held|GPU",
    "SkuMeter": "Held device time", "SkuPriceId": "held|GPU|device|", "SubAccountId": "tides",
    "SubAccountName": "Tides", "SubAccountType": "Project", "Tags": '{"cost_centre":"GEO"}',
    "x_ChargeId": "1", "x_ChargeKind": "usage", "x_ChargeUrl": "/charges/1/", "x_ExactCostDenominator": "1",
    "x_ExactCostNumerator": "5", "x_ExactPeriodEnd": "2026-03-02T02:00:00.000000Z",
    "x_ExactPeriodStart": "2026-03-02T00:00:00.000000Z", "x_PriceVersionId": "1", "x_Provisional": "false",
    "x_StatementState": "closed", "x_Unpriced": "false",
}  # fmt: skip
_NO_PRICE: _Fields = dict.fromkeys(
    (
        "ConsumedQuantity", "ConsumedUnit", "ContractedUnitPrice", "ListUnitPrice", "PricingCategory",
        "PricingQuantity", "PricingUnit", "SkuId", "SkuMeter", "SkuPriceId",
    )
)  # fmt: skip
_CREDIT = _USAGE | _NO_PRICE | {"ChargeCategory": "Credit", "ContractedCost": "5.0", "ListCost": "5.0"}
_CORRECTION = _USAGE | _NO_PRICE | {
    "ChargeClass": "Correction", "ChargePeriodStart": "2026-02-02T00:00:00Z",
    "ChargePeriodEnd": "2026-02-02T02:00:00Z", "x_CorrectsInvoiceId": "2026-02-tides-EUR",
}  # fmt: skip
_SHARED = _CREDIT | {"ChargeCategory": "Adjustment", "x_ChargeKind": "shared", "AllocatedMethodId": "by-use"}
_PART = _SHARED | {"AllocatedResourceId": "tides", "AllocatedResourceName": "Tides"}
_RELIEF = _SHARED | {
    "BilledCost": "-5.0", "EffectiveCost": "-5.0", "ContractedCost": "-5.0", "ListCost": "-5.0",
    "InvoiceId": "2026-03-unattributed-EUR", "SubAccountId": None, "SubAccountName": None,
    "SubAccountType": None, "x_ExactCostNumerator": "-5",
}  # fmt: skip
GOOD = [_USAGE, _CREDIT, _CORRECTION, _PART, _RELIEF]

# What breaks a rule, by its code: changes of good rows, and the row and column that are named.
_Seed = tuple[list[_Fields], int, str]
SEEDS: dict[str, _Seed] = {
    "not-null": ([_USAGE | {"BilledCost": None}], 1, "BilledCost"),
    "empty-text": ([_USAGE, _USAGE | {"ServiceName": "  "}], 2, "ServiceName"),
    "not-ascii": ([_USAGE | {"SubAccountName": "蛋白质"}], 1, "SubAccountName"),
    "number-format": ([_USAGE | {"ListCost": "+6.0"}], 1, "ListCost"),
    "time-format": ([_USAGE | {"ChargePeriodEnd": "2026-03-02 02:00"}], 1, "ChargePeriodEnd"),
    "json-format": ([_USAGE | {"Tags": '{"a":{}}'}], 1, "Tags"),
    "value-not-allowed": ([_USAGE | {"PricingCategory": "Cheap"}], 1, "PricingCategory"),
    "currency-format": ([_USAGE | {"BillingCurrency": "eur"}], 1, "BillingCurrency"),
    "unit-format": ([_USAGE | {"PricingUnit": "device hours"}], 1, "PricingUnit"),
    "type": ([_USAGE | {"x_Provisional": "no"}], 1, "x_Provisional"),
    "billing-period": ([_USAGE | {"BillingPeriodEnd": "2026-03-01T00:00:00Z"}], 1, "BillingPeriodEnd"),
    "charge-period": ([_USAGE | {"ChargePeriodEnd": "2026-03-02T00:00:00Z"}], 1, "ChargePeriodEnd"),
    "charge-in-billing-period": (
        [_USAGE | {"ChargePeriodStart": "2026-02-28T23:59:59Z"}], 1, "ChargePeriodStart",
    ),
    "correction-of-before": (
        [_CORRECTION | {"ChargePeriodEnd": "2026-03-02T00:00:00Z"}], 1, "ChargePeriodEnd",
    ),
    "correction-on-another-invoice": (
        [_CORRECTION | {"x_CorrectsInvoiceId": "2026-03-tides-EUR"}], 1, "InvoiceId",
    ),
    "list-cost": ([_USAGE | {"ListCost": "6.0000000001"}], 1, "ListCost"),
    "contracted-cost": ([_USAGE | {"PricingQuantity": "2.5", "ListCost": "7.5"}], 1, "ContractedCost"),
    "effective-cost": ([_USAGE | {"EffectiveCost": "4.0"}], 1, "EffectiveCost"),
    "credit-cost": ([_CREDIT | {"ListCost": "6.0"}], 1, "ListCost"),
    "billed-cost": ([_USAGE | {"x_ExactCostNumerator": "4"}], 1, "BilledCost"),
    "price-not-negative": (
        [_USAGE | {"ListUnitPrice": "-3.0", "ListCost": "-6.0"}], 1, "ListUnitPrice",
    ),
    "price-missing": ([_USAGE | {"PricingCategory": None}], 1, "PricingCategory"),
    "price-without-sku-price": ([_CREDIT | {"ListUnitPrice": "1.0"}], 1, "ListUnitPrice"),
    "tax-has-no-price": ([_CREDIT | {"ChargeCategory": "Tax", "SkuId": "x"}], 1, "SkuId"),
    "pricing-unit": ([_USAGE | {"PricingUnit": None}], 1, "PricingUnit"),
    "consumed-unit": ([_USAGE | {"ConsumedUnit": None}], 1, "ConsumedUnit"),
    "consumed-quantity": ([_USAGE | {"ConsumedQuantity": None}], 1, "ConsumedQuantity"),
    "frequency-of-purchases": ([_USAGE | {"ChargeCategory": "Purchase"}], 1, "ChargeFrequency"),
    "commitment-status": ([_USAGE | {"CommitmentDiscountStatus": "Used"}], 1, "CommitmentDiscountStatus"),
    "sku-missing": ([_USAGE | {"SkuId": None}], 1, "SkuId"),
    "resource": ([_USAGE | {"ResourceType": None}], 1, "ResourceType"),
    "sub-account": ([_USAGE | {"SubAccountId": None}], 1, "SubAccountName"),
    "region": ([_USAGE | {"RegionId": None}], 1, "RegionName"),
    "service-subcategory": ([_USAGE | {"ServiceSubcategory": "Bots"}], 1, "ServiceSubcategory"),
    "invoice-detail": ([_USAGE | {"InvoiceDetailId": None}], 1, "InvoiceDetailId"),
    "provisional": ([_USAGE | {"x_Provisional": "true"}], 1, "x_Provisional"),
    "allocation": ([_PART | {"AllocatedMethodId": None}], 1, "AllocatedResourceId"),
    "invoice-total": ([_CREDIT, _CREDIT | {"BilledCost": "5.0000000001"}], 0, "BilledCost"),
    "split-sum": ([_PART | {"x_ExactCostNumerator": "6"}, _RELIEF], 0, "x_ExactCostNumerator"),
    "sku-parent": ([_USAGE, _USAGE | {"SkuId": "idle|GPU"}], 2, "SkuId"),
    "sku-price": ([_USAGE, _USAGE | {"ListUnitPrice": "4.0", "ListCost": "8.0"}], 2, "ListUnitPrice"),
    "invoice-scope": ([_USAGE, _USAGE | {"BillingCurrency": "USD"}], 2, "BillingCurrency"),
}  # fmt: skip
# About files as a whole: further down, each for itself.
OF_FILES = {
    "column-missing", "column-unknown", "column-name", "column-order", "column-twice", "row-width",
    "checksum",
}  # fmt: skip


def found(rows: list[_Fields], version: str, **options: Any) -> list[Violation]:
    names = [column.name for column in columns(version)]
    values = [[row.get(name) for name in names] for row in rows]
    return list(check(values, names, version=version, written=True, **options))


def in_header(version: str, change: Callable[[list[str]], list[str]]) -> Iterator[tuple[str, int, str]]:
    names = change([column.name for column in columns(version)])
    for violation in check([], names, version=version, written=True):
        yield violation.rule.code, violation.row, violation.column


@pytest.mark.parametrize("version", VERSIONS)
def test_good_rows_keep_all_rules(version: str) -> None:
    assert found(GOOD, version) == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("code", SEEDS)
def test_a_rule_names_the_row_and_the_column_that_break_it(code: str, version: str) -> None:
    rows, row, column = SEEDS[code]
    told = {(violation.rule.code, violation.row, violation.column) for violation in found(rows, version)}
    rule = next(rule for rule in rules.RULES if rule.code == code)
    assert ((code, row, column) in told) == (version in rule.versions)


def test_every_rule_has_a_violation_here() -> None:
    assert {rule.code for rule in rules.RULES} == {*SEEDS, *OF_FILES}
    assert len({rule.code for rule in rules.RULES}) == len(rules.RULES)


@pytest.mark.parametrize("version", VERSIONS)
def test_headers_are_checked(version: str) -> None:
    name = "ServiceProviderName" if version == "1.4" else "ProviderName"
    told = in_header(version, lambda names: [n for n in names if n != name])
    assert list(told) == [("column-missing", 0, name)]
    assert ("column-unknown", 0, "Colour") in in_header(version, lambda names: ["Colour", *names])
    assert ("column-name", 0, "x_my column") in in_header(version, lambda names: [*names, "x_my column"])
    assert ("column-twice", 0, "x_Use") in in_header(version, lambda names: [*names, "x_Use"])
    assert ("column-order", 0, "x_Use") in in_header(version, lambda names: ["x_Use", *names[:-1]])
    assert list(in_header(version, list)) == []


@pytest.mark.parametrize(
    "text",
    ["1", "1,000.0", "1e3", "1.0E+2", "+1.0", "1.", ".5", "1/2", "€1.0", "NaN", "Infinity", "01.0", "١.٠"],
)
def test_numbers_of_other_forms_are_refused(text: str) -> None:
    told = found([_USAGE | {"PricingQuantity": text}], "1.4")
    assert ("number-format", "PricingQuantity") in {(v.rule.code, v.column) for v in told}


@pytest.mark.parametrize(
    "text",
    ["2026-03-02T00:00:00+00:00", "2026-03-02T24:00:00Z", "2026-02-30T00:00:00Z", "2026-03-02T00:00:00.5Z"],
)
def test_times_of_other_forms_are_refused(text: str) -> None:
    told = found([_USAGE | {"ChargePeriodStart": text}], "1.4")
    assert ("time-format", "ChargePeriodStart") in {(v.rule.code, v.column) for v in told}


@pytest.mark.parametrize("text", ["[]", "x", '{"a":1,"a":2}', '{"a":[1]}', "[" * 2000])
def test_tags_are_flat_objects(text: str) -> None:
    assert [v.rule.code for v in found([_USAGE | {"Tags": text}], "1.4")] == ["json-format"]


def test_invoices_are_compared_with_what_they_are_known_to_come_to() -> None:
    from decimal import Decimal

    totals = {"2026-03-tides-EUR": Decimal("5.00")}
    assert found([_USAGE], "1.4", totals=totals) == []
    (wrong,) = found([_USAGE], "1.4", totals={"2026-03-tides-EUR": Decimal("5.01")})
    assert "comes to 5.0, and not to 5.01" in wrong.detail
    assert len(found([_USAGE], "1.4", totals={})) == 1
    assert len(found([_USAGE], "1.4", totals=totals | {"2026-03-soils-EUR": Decimal(1)})) == 1


# --- files --------------------------------------------------------------------------------------


@pytest.fixture
def world(db: None) -> World:
    return make_world(2, charges=12)


def csv_file(path: Path, rows: list[_Fields]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, [column.name for column in columns("1.4")], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_a_row_that_is_too_long_is_named(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "x.csv", [_USAGE, _USAGE])
    path.write_text(path.read_text(encoding="utf-8").rstrip() + ",more\r\n", encoding="utf-8")
    assert [(v.rule.code, v.row) for v in check_file(path)] == [("row-width", 2)]


def test_parquet_of_other_types_is_named(world: World, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(b"".join(files.written(world.dataset("1.4").rows(), version="1.4", form="parquet")))
    assert list(check_file(path)) == []
    table = pq.read_table(path)
    place = arrow_schema("1.4").names.index("ConsumedQuantity")
    other = table.set_column(place, "ConsumedQuantity", table.column(place).cast(pa.float64()))
    pq.write_table(other, path)
    assert {(v.rule.code, v.row, v.column) for v in check_file(path)} == {("type", 0, "ConsumedQuantity")}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b""), ("a.csv", b"\xff\xfe"), ("a.csv", b"Colour\r\nred\r\n"), ("a.parquet", b"PAR1"),
        ("b.csv", None),
    ],
)  # fmt: skip
def test_what_is_no_such_file_is_refused(tmp_path: Path, name: str, content: bytes | None) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(Unreadable):
        list(check_file(path))


# --- the command --------------------------------------------------------------------------------


def run(*words: str) -> str:
    out = io.StringIO()
    call_command("focus", *words, stdout=out)
    return out.getvalue()


@pytest.mark.parametrize("form", files.FORMATS)
def test_the_command_writes_a_file_that_it_finds_right(world: World, tmp_path: Path, form: str) -> None:
    asked = ["--version", "1.2", "--format", form, "--period", "2026-03"]
    told = run("export", str(tmp_path), *asked)
    path = tmp_path / f"focus-1.2-2026-03.{form}"
    beside = json.loads((tmp_path / f"{path.name}.metadata.json").read_text(encoding="utf-8"))
    assert beside["x_File"]["Bytes"] == path.stat().st_size
    assert beside["x_File"]["Sha256"] in told
    assert sorted(file.name for file in tmp_path.iterdir()) == [path.name, f"{path.name}.metadata.json"]
    assert "keeps all rules" in run("check", str(path))
    first = path.read_bytes()
    run("export", str(tmp_path), *asked)
    if not any(v["BilledCost"] for v in beside["x_Provisional"]):
        assert path.read_bytes() == first


def test_the_command_names_what_is_wrong(world: World, tmp_path: Path) -> None:
    run("export", str(tmp_path), "--format", "csv", "--period", "2026-03")
    path = tmp_path / "focus-1.4-2026-03.csv"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(",Usage,", ",Use,", 1), encoding="utf-8")
    out = io.StringIO()
    with pytest.raises(CommandError, match=r"\d+ violations: .*checksum 1"):
        call_command("focus", "check", str(path), stdout=out)
    assert "ChargeCategory: value-not-allowed: 'Use' is none of Usage" in out.getvalue()


@pytest.mark.parametrize(
    "words",
    [
        ("export", "{dir}", "--period", "2026-13"),
        ("export", "{dir}", "--period", "2026-03", "--through", "2026-02"),
        ("export", "{dir}", "--project", "nobody"), ("export", "{dir}/not-there"), ("check", "{dir}/x.csv"),
    ],
)  # fmt: skip
def test_the_command_says_what_it_cannot_do(world: World, tmp_path: Path, words: tuple[str, ...]) -> None:
    with pytest.raises(CommandError):
        run(*(word.format(dir=tmp_path) for word in words))
    assert not list(tmp_path.iterdir())


def test_the_command_lists_the_rules() -> None:
    assert "list-cost: ListCost is ListUnitPrice × PricingQuantity" in run("rules")
    assert "invoice-detail" not in run("rules", "--version", "1.2")
