"""What goes with a file: who made it, by which schema, how far its months are, and what its invoices come to.

Named as the specification's metadata is (Data Generator, Dataset Instance, Recency, Schema); what it does not
know begins with x_. One JSON object, to be had without the file.
"""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from claims.focus.columns import LATEST, PRECISION, SCHEMA_CREATED, Type, columns, schema_id
from claims.focus.dataset import Dataset
from claims.focus.files import time_text
from claims.money.months import Month
from portal import money

GENERATOR = "Claimdesk"
# Changes when charges are told in another way, whatever the columns.
GENERATOR_VERSION = "1"


def metadata(dataset: Dataset) -> dict[str, Any]:
    """Of what is exported. Adds up every month once."""
    version = dataset.wanted.version
    instance = f"claimdesk-cost-and-usage-{version}"
    told: dict[str, Any] = {
        "DataGenerator": {"DataGenerator": dataset.organisation},
        "Schema": [_schema(version, instance)],
    }
    if version == LATEST:
        told["DatasetInstance"] = [
            {
                "DatasetInstanceId": instance,
                "DatasetInstanceName": f"Charges of {dataset.organisation}",
                "FocusDatasetId": "CostAndUsage",
            }
        ]
    sectors = [_sector(dataset, month) for month in dataset.wanted.months]
    told["Recency"] = [
        {
            "DatasetInstanceId": instance,
            "DatasetInstanceComplete": all(sector["TimeSectorComplete"] for sector in sectors),
            "DatasetInstanceLastUpdated": max(sector["TimeSectorLastUpdated"] for sector in sectors),
            "RecencyLastUpdated": _time(dataset.now),
            "TimeSectors": sectors,
        }
    ]
    return told | _sums(dataset)


def of_file(*, name: str, form: str, size: int, sha256: str) -> dict[str, Any]:
    """What is told of a file that has been written."""
    return {"x_File": {"Name": name, "Format": form, "Bytes": size, "Sha256": sha256}}


def _schema(version: str, instance: str) -> dict[str, Any]:
    return {
        "SchemaId": schema_id(version),
        "DatasetInstanceId": instance,
        "FocusVersion": version,
        "DataGeneratorVersion": f"{GENERATOR} {GENERATOR_VERSION}",
        "CreationDate": SCHEMA_CREATED,
        "ColumnDefinition": [
            {"ColumnName": column.name, "DataType": str(column.type), **_details(column.type, column.scale)}
            for column in columns(version)
        ],
    }


def _details(kind: Type, scale: int) -> Mapping[str, Any]:
    if kind is Type.DECIMAL:
        return {"NumericPrecision": PRECISION, "NumberScale": scale}
    return {"StringEncoding": "UTF-8"} if kind in (Type.STRING, Type.JSON) else {}


def _sector(dataset: Dataset, month: Month) -> dict[str, Any]:
    """A month: complete once all its statements are closed."""
    start, end = dataset.bounds(month)
    complete, last = dataset.complete(month)
    return {
        "TimeSectorStart": _time(start),
        "TimeSectorEnd": _time(end),
        "TimeSectorComplete": complete,
        "TimeSectorLastUpdated": _time(last or min(dataset.now, max(end, start))),
    }


def _sums(dataset: Dataset) -> dict[str, Any]:
    invoices, provisional, rows = [], defaultdict[str, int](int), 0
    for month in dataset.wanted.months:
        lines = dataset.lines(month)
        rows += lines.rows
        for (payer, currency), minor in sorted(lines.totals.items(), key=lambda one: str(one[0])):
            invoice = dataset.frame(payer, month).invoice(currency)
            if invoice is None:
                provisional[currency] += minor
                continue
            amount = f"{money.from_minor_units(minor, currency=currency):f}"
            invoices.append({"InvoiceId": invoice, "BillingCurrency": currency, "BilledCost": amount})
    return {
        "x_Rows": rows,
        "x_Invoices": invoices,
        "x_Provisional": [
            {
                "BillingCurrency": currency,
                "BilledCost": f"{money.from_minor_units(minor, currency=currency):f}",
            }
            for currency, minor in sorted(provisional.items())
        ],
    }


def _time(at: datetime) -> str:
    return time_text(at)
