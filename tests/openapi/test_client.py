"""A Python client that a generator makes from the OpenAPI document, used against a desk that runs: every page
of allocations, charges and statements arrives as values, and they come to the same."""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import pytest
from drf_spectacular.generators import SchemaGenerator
from pytest_django.live_server_helper import LiveServer

from claims.models import Allocation, Charge, PriceBook
from portal.accounts.models import ApiToken, User
from portal.accounts.tokens import issue_token
from tests.cast import NOW, Cast, cheap_passwords, make_cast
from tests.claims.money import make_money
from tests.inventory_pages.factories import LONG_AGO, make_cluster

__all__ = ["cheap_passwords"]

pytestmark = pytest.mark.django_db(transaction=True)

PACKAGE = "desk_client"
JANUARY = {"from_": "2026-01-01", "to": "2026-01-31"}


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The client's package, ready to be imported."""
    folder = tmp_path_factory.mktemp("generated")
    document = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call] # has no types
    (folder / "schema.json").write_text(json.dumps(document, default=str))
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none"]
    command += ["--path", str(folder / "schema.json"), "--output-path", str(folder / PACKAGE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    # The generator knows no YAML: of the manifests of a request. All else it understands.
    told = [line for line in done.stdout.splitlines() if line.startswith(("WARNING", "ERROR"))]
    assert [line for line in told if "/files/{slug}/" not in line] == []
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


@pytest.fixture
def cast(transactional_db: None) -> Cast:
    """A month of money, and five intervals of the ledger."""
    cast = make_cast()
    make_money(cast, PriceBook.objects.create(name="2026", currency="EUR", valid_from=LONG_AGO))
    cluster = make_cluster()
    for number in range(5):
        Allocation.objects.create(
            cluster=cluster, namespace="tides", claim_name=f"c{number}", claim_uid=f"c{number}", epoch=1,
            driver="gpu.example.com", pool_name="node-1", device_name=f"gpu-{number}", request_name="gpu",
            node_name="node-1", product="Accelerator", device_class="gpu", project=cast.project,
            started_at=NOW, start_source="observed", ended_at=NOW + timedelta(hours=number + 1),
            end_source="observed",
        )  # fmt: skip
    return cast


class Desk:
    """What a program of finance's would do: calls of the generated client, with a token."""

    def __init__(self, server: LiveServer, user: User, *scopes: str) -> None:
        _row, secret = issue_token(
            user=user, name="program", scopes=list(scopes), lifetime=timedelta(days=1), now=NOW
        )
        ApiToken.objects.update(expiry=None)
        client = importlib.import_module(f"{PACKAGE}.client")
        self.client = client.AuthenticatedClient(base_url=server.url, token=secret, timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.client.get_httpx_client().close()

    def __call__(self, name: str, *arguments: Any, **options: Any) -> Any:
        call = importlib.import_module(f"{PACKAGE}.api.{name}")
        return call.sync(*arguments, client=self.client, **options)

    def pages(self, name: str, **options: Any) -> list[Any]:
        """The rows of all pages."""
        found: list[Any] = []
        while True:
            page = self(name, **options)
            found += page.results
            if not page.next_:
                return found
            options["cursor"] = parse_qs(urlsplit(page.next_).query)["cursor"][0]


def test_a_generated_client_reads_the_whole_of_chargeback(
    generated: Path, cast: Cast, live_server: LiveServer
) -> None:
    with Desk(live_server, cast.finance, "chargeback") as desk:
        used = desk("chargeback.usage_retrieve", **JANUARY, group_by="project")
        assert [row.project for row in used.results] == ["tides"]
        charged = desk.pages("chargeback.charges_retrieve", **JANUARY, limit=2)
        assert len(charged) == Charge.objects.count() == 6
        by_day = desk.pages("chargeback.charges_retrieve", **JANUARY, limit=1, group_by="day,product")
        assert _exact(used.totals) == _exact(charged) == _exact(by_day) > 0

        statement = desk("chargeback.statements_of_retrieve", "2026-01", "tides")
        assert (statement.state.value, statement.totals[0].amount) == ("review", used.totals[0].amount)
        months = desk("chargeback.statements_retrieve", month="2026-01")
        assert {row.project for row in months.results} == {"tides", "glaciers", None}

        held = desk.pages("chargeback.allocations_list", limit=2, project="tides")
        assert [row.device for row in held] == [f"gpu-{number}" for number in range(4, -1, -1)]
        assert {row.started_at for row in held} == {NOW}
        together = desk("chargeback.allocations_list", **JANUARY, group_by="project")
        assert (together.allocations, [row.project for row in together.results]) == (6, ["tides"])
        assert [row.to_dict() for row in together.quantities] == [row.to_dict() for row in used.quantities]


def test_it_tells_what_cannot_be_and_changes_what_may_be(
    generated: Path, cast: Cast, live_server: LiveServer
) -> None:
    with Desk(live_server, cast.lead, "chargeback", "administration") as desk:
        missing = desk("chargeback.statements_of_retrieve", "2026-01", "glaciers")
        assert (missing.status, missing.code) == (404, "not_found")
        wrong = desk("chargeback.usage_retrieve", from_="yesterday")
        assert (wrong.status, wrong.errors[0].to_dict()["field"]) == (400, "from")

        models = importlib.import_module(f"{PACKAGE}.models")
        budget = models.BudgetIn(amount="750.00", thresholds=[80], blocks=True)
        told = desk("chargeback.budgets_update", "tides", "EUR", body=budget)
        assert [(row.amount, row.thresholds, row.blocks) for row in told.budgets] == [("750.00", [80], True)]
        assert desk("chargeback.budgets_retrieve", "tides").to_dict()["budgets"] == told.to_dict()["budgets"]


def _exact(rows: Any) -> Fraction:
    parts = (Fraction(int(row.exact_numerator), int(row.exact_denominator)) for row in rows)
    return sum(parts, start=Fraction(0))
