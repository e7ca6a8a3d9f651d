"""The page of costs over many projects: a line for each, and whatever it tells is what its lines come to."""

import re
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from claims.models import Allocation, CostCentre, Price, PriceBook, PriceRule
from claims.money.books import CAPACITY, COUNTERS, DEVICE
from claims.money.charges import charges
from claims.money.pricing import Line, Statement
from claims.views import cost
from inventory.models import Cluster
from portal.accounts.models import Project, User
from portal.money import MICROSECONDS_PER_HOUR
from portal.pages.usage import _spent
from tests.claims.test_history_views import table

MARCH = datetime(2026, 3, 1, tzinfo=UTC)
PERIOD = {"from": "2026-03-01", "to": "2026-03-31"}
PRODUCTS = ("H100", "L4", "A100")


@pytest.fixture
def finance(db: None) -> User:
    return User.objects.create(username="finance", is_finance=True)


@pytest.fixture
def month(db: None, cluster: Cluster) -> list[Project]:
    """Thirty projects and nobody, with uneven lengths of three products, of which one has no price."""
    book = PriceBook.objects.create(name="2026", currency="EUR", valid_from=MARCH - timedelta(days=300))
    Price.objects.create(book=book, product="H100", per_hour="2.333333")
    Price.objects.create(book=book, product="L4", per_hour="0.71")
    return grown(cluster, 30)


def grown(cluster: Cluster, projects: int) -> list[Project]:
    made = [
        Project.objects.create(slug=f"project-{number:03}", name=f"Project {number:03}", created_at=MARCH)
        for number in range(Project.objects.filter(slug__startswith="project-").count(), projects)
    ]
    Allocation.objects.bulk_create(
        [
            Allocation(
                cluster=cluster, namespace="n", claim_name="c", claim_uid=f"uid-{project}-{product}", epoch=1,
                driver="gpu.nvidia.com", pool_name="pool", device_name=f"{project}-{product}",
                request_name="gpu", device_class="gpu.nvidia.com", product=product, project=project,
                started_at=MARCH + timedelta(hours=5), start_source="observed",
                ended_at=MARCH + timedelta(hours=6, microseconds=7_919_000_017 * (number + 1)),
            )
            for number, project in enumerate([*made, None])
            for product in PRODUCTS
        ]
    )  # fmt: skip
    return made


def shown(user: User, **query: Any) -> Any:
    client = Client()
    client.force_login(user)
    response = client.get(reverse("cost"), {**PERIOD, **query})
    assert response.status_code == 200
    return response


def test_many_lines_are_folded_and_tie_with_the_exported_and_with_rest(
    finance: User, month: list[Project], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = shown(finance)
    assert whole.context["page"] is None
    assert len(whole.context["groups"]) == 31
    monkeypatch.setattr(cost, "MOST_LINES", 92)
    monkeypatch.setattr(cost, "PROJECTS_PER_PAGE", 12)
    pages = [shown(finance, page=number) for number in (1, 2, 3)]
    folded = [group for page in pages for group in page.context["page"].object_list]
    assert [group.project for group in folded] == month
    # Nobody's lines stay, and nothing is told twice.
    assert [group.project for group in pages[0].context["groups"]] == [None]
    by_project = {group.project: group for group in whole.context["groups"]}
    for group in (*folded, *pages[0].context["groups"]):
        assert (group.totals, group.device_hours) == (
            by_project[group.project].totals,
            by_project[group.project].device_hours,
        )

    exported: dict[str, Decimal] = defaultdict(Decimal)
    for row in table(finance, "cost-export", PERIOD):
        exported[row["project"]] += Decimal(row["amount"] or 0)
    assert {group.project.slug: group.totals["EUR"] for group in folded} == {
        slug: amount for slug, amount in exported.items() if slug != "unattributed"
    }
    client = Client()
    client.force_login(finance)
    (total,) = client.get(reverse("api-charge-lines"), PERIOD).json()["totals"]
    for page in pages:
        assert page.context["statement"].totals == {"EUR": Decimal(total["amount"])}
    assert sum(exported.values()) == Decimal(total["amount"])


def test_a_folded_project_leads_to_its_lines(
    finance: User, month: list[Project], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost, "MOST_LINES", 10)
    html = shown(finance).content.decode()
    assert "?from=2026-03-01&amp;to=2026-03-31&amp;project=project-007" in html
    assert "some without a price" in html
    one = shown(finance, project="project-007")
    assert one.context["page"] is None
    assert [group.project for group in one.context["groups"]] == [month[7]]


def test_queries_and_length_do_not_grow_with_projects(
    finance: User, month: list[Project], cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost, "MOST_LINES", 10)
    monkeypatch.setattr(cost, "PROJECTS_PER_PAGE", 5)

    def taken() -> tuple[int, int]:
        with CaptureQueriesContext(connection) as seen:
            html = shown(finance).content.decode()
        return len(seen), html.count("project=project-")

    shown(finance)
    few = taken()
    Allocation.objects.filter(project=None).delete()
    grown(cluster, 50)
    assert taken() == few


def test_only_lines_that_count_devices_add_up_to_device_hours(
    finance: User, month: list[Project], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gibibyte-hours and shares of counters are no device-hours."""

    def line(project: Project, hours: int, unit: str) -> Line:
        return Line(
            project_id=project.pk, device_class="gpu.nvidia.com", product="H100", per_hour=Decimal(1),
            currency="EUR", device_microseconds=Fraction(hours * MICROSECONDS_PER_HOUR), unit=unit,
            exact=Fraction(hours), amount=Decimal(hours), running=0, count=1,
        )  # fmt: skip

    mixed, other = month[:2]
    lines = (
        line(mixed, 3, DEVICE),
        line(mixed, 160, CAPACITY),
        line(mixed, 2, DEVICE),
        line(other, 7, COUNTERS),
    )
    made = Statement(start=MARCH, end=MARCH + timedelta(days=31), lines=lines, totals={"EUR": Decimal(172)})
    monkeypatch.setattr(cost, "charges", lambda **_wanted: made)
    monkeypatch.setattr(cost, "MOST_LINES", 3)
    response = shown(finance)
    assert [group.device_hours for group in response.context["page"].object_list] == [5, None]
    cells = re.findall(r'<td class="cd-number">([^<]*)</td>', response.content.decode())
    assert cells[:6] == ["3", "5.0000", "€165.00", "1", "–", "€7.00"]


def test_programs_and_tables_are_told_what_is_counted(finance: User, cluster: Cluster) -> None:
    """By the GiB and by the device: the hours of both stand in one column, which says of what."""
    book = PriceBook.objects.create(name="2026", currency="EUR", valid_from=MARCH)
    Price.objects.create(book=book, per_hour=1)
    PriceRule.objects.create(
        book=book, position=0, product="L4", unit=CAPACITY, capacity="memory", per="1Gi", per_hour="0.1"
    )
    (project,) = grown(cluster, 1)
    Allocation.objects.update(capacity={"gpu.nvidia.com/memory": {"value": "24Gi"}})
    client = Client()
    client.force_login(finance)
    lines = client.get(reverse("api-charge-lines"), {**PERIOD, "project": project.slug}).json()["lines"]
    told = {line["product"]: (line["unit"], line["per"], line["unit_hours"]) for line in lines}
    # An hour and 7,919.000017 seconds, of one device and of 24 GiB.
    assert (told["H100"], told["L4"]) == (("device", "", "3.199722"), ("capacity", "1Gi", "76.793333"))
    assert [line["device_hours"] for line in lines] == [line["unit_hours"] for line in lines]
    rows = {row["product"]: row for row in table(finance, "cost-export", {**PERIOD, "project": project.slug})}
    assert {product: (row["unit"], row["per"], row["unit_hours"]) for product, row in rows.items()} == told
    assert "× 1Gi" in shown(finance).content.decode()
    spent = _spent(charges(start=MARCH, end=MARCH + timedelta(days=31), now=MARCH + timedelta(days=40)))
    # Of the project's page, which tells device-hours: those of the two other products.
    assert spent[project.pk].hours == Decimal("6.4")
    Allocation.objects.exclude(product="L4").delete()
    spent = _spent(charges(start=MARCH, end=MARCH + timedelta(days=31), now=MARCH + timedelta(days=40)))
    assert spent[project.pk].hours is None


def test_a_period_is_told_with_the_cost_centres_of_then(finance: User, month: list[Project]) -> None:
    project = month[0]
    Project.objects.filter(pk=project.pk).update(cost_centre="NEW")
    for code, since, until in (("OLD", 0, 10), ("MID", 10, 40), ("NEW", 40, None)):
        CostCentre.objects.create(
            project=project, code=code, valid_from=MARCH + timedelta(days=since), recorded_at=MARCH,
            valid_until=None if until is None else MARCH + timedelta(days=until),
        )  # fmt: skip
    rows = table(finance, "cost-export", {**PERIOD, "project": project.slug})
    assert {row["cost_centre"] for row in rows} == {"OLD; MID"}
    (group,) = shown(finance, project=project.slug).context["groups"]
    assert group.cost_centres == ["OLD", "MID"]


@pytest.mark.parametrize(
    ("name", "value"), [("from", "yesterday"), ("to", "2026-13-45"), ("to", "2026-02-01")]
)
def test_no_file_of_another_period_is_made_of_one_that_cannot_be_read(
    finance: User, name: str, value: str
) -> None:
    client = Client()
    client.force_login(finance)
    response = client.get(reverse("cost-export"), {**PERIOD, name: value})
    assert response.status_code == 303
    page = client.get(response["Location"])
    assert page.context["period"].errors[name] in page.content.decode()
