"""The device list as people see it."""

import csv
import io
import re
from datetime import timedelta
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

from inventory.models import Cluster, Device
from tests.inventory_pages.conftest import INSIDERS, OUTSIDERS, Cast, Fleet
from tests.inventory_pages.factories import (
    bind,
    hold,
    make_cluster,
    make_device,
    make_fleet,
    make_profile,
    make_project,
)

URL = "/devices/"
AMD = 'device.driver.startsWith("gpu.amd")'


def page(client: Client, query: str = "") -> str:
    response = client.get(f"{URL}?{query}")
    assert response.status_code == 200
    return response.content.decode()


def test_nobody_sees_it_without_signing_in(cast: Cast) -> None:
    response = cast.client("anonymous").get(URL)
    assert response.status_code == 302
    assert response["Location"].startswith(reverse("account_login"))


@pytest.mark.parametrize("role", [*INSIDERS, *OUTSIDERS])
def test_everybody_sees_what_is_free_and_which_project_holds_what(
    role: str, cast: Cast, fleet: Fleet
) -> None:
    html = page(cast.client(role))
    assert "NVIDIA H100 80GB HBM3" in html
    assert "its node is cordoned" in html
    assert "Protein folding" in html
    assert f"{fleet.held_since:%Y-%m-%d %H:%M}" in html


@pytest.mark.parametrize("role", [*INSIDERS, *OUTSIDERS])
def test_the_list_never_names_claims_or_pods(role: str, cast: Cast, fleet: Fleet) -> None:
    assert "secret" not in page(cast.client(role))


def test_the_address_narrows_the_list(cast: Cast, fleet: Fleet) -> None:
    html = page(cast.client("stranger"), "vendor=AMD&state=unavailable")
    assert f'href="/devices/{fleet.cordoned.pk}/"' in html
    assert f'href="/devices/{fleet.free.pk}/"' not in html
    assert len(re.findall(r'name="(?:vendor|state)" value="[^"]*" checked', html)) == 2


def test_htmx_gets_the_part_that_changes_and_a_clean_address(cast: Cast, fleet: Fleet) -> None:
    response = cast.client("owner").get(f"{URL}?q=&state=free&sort=", headers={"HX-Request": "true"})
    html = response.content.decode()
    assert html.lstrip().startswith('<div id="browser"')
    assert "<html" not in html
    assert response["HX-Push-Url"] == "/devices/?state=free"
    assert "HX-Request" in response["Vary"]


@pytest.mark.parametrize(
    "query",
    [
        "page=abc", "page=999999", "page=0", "page=-1", "page=1e9", "page=%00", "page=" + "9" * 400,
        "sort=%27;drop", "q=%00", "q=%25%25%25", "q=" + "x" * 3000, "state=nonsense", "node=%F0%9F%92%A3",
        "cluster=&class=&driver=", "q=\\", "q=%27%22%3E%3Cscript%3E", "page=2&page=3",
    ],
)  # fmt: skip
def test_odd_addresses_are_answered(query: str, cast: Cast, fleet: Fleet) -> None:
    html = page(cast.client("stranger"), query)
    assert "<script>" not in html.replace("<script src", "")


def test_nothing_found_says_so_and_shows_the_way_back(cast: Cast, fleet: Fleet) -> None:
    html = page(cast.client("owner"), "q=no-such-thing")
    assert "No device matches" in html
    assert "Show all devices" in html


def test_without_a_cluster_the_page_says_what_is_missing(cast: Cast) -> None:
    assert "No cluster is followed yet" in page(cast.client("owner"))


def test_a_cluster_out_of_step_is_shown_as_the_past(cast: Cast, fleet: Fleet) -> None:
    last = timezone.now() - timedelta(hours=3)
    fleet.cluster.streams.update(heard_at=last, listed_at=last)
    Cluster.objects.update(state=Cluster.State.UNREACHABLE)
    html = page(cast.client("owner"))
    assert f"{last:%Y-%m-%d %H:%M}" in html
    assert "cannot be reached" in html
    assert "was free" in html
    assert "cd-state-good" not in html
    assert "No device matches" in page(cast.client("owner"), "state=free")
    assert "was held" in page(cast.client("owner"), "state=unknown")


def test_claims_with_admin_access_do_not_count_as_holders(cast: Cast, fleet: Fleet) -> None:
    other = make_project("monitoring")
    bind(fleet.cluster, "monitoring", other)
    hold(fleet.free, namespace="monitoring", claim="watcher", admin_access=True)
    Device.objects.filter(pk=fleet.free.pk).update(state=Device.State.FREE)
    assert "Monitoring" not in page(cast.client("administrator"))


def test_what_drivers_publish_is_shown_as_text(cast: Cast, cluster: Cluster) -> None:
    evil = "<script>alert(1)</script>\"'{{ 7*7 }}"
    make_device(
        cluster, "gpu-0", hardware_id="=1+1", profile=make_profile(evil, vendor=evil, kind="<b>gpu</b>")
    )
    html = page(cast.client("owner"))
    assert "<script>alert" not in html
    assert "<b>gpu" not in html
    assert "&lt;script&gt;alert(1)" in html
    assert "{{ 7*7 }}" in html


def test_the_number_of_queries_does_not_grow(cast: Cast) -> None:
    client = cast.client("stranger")

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            page(client, "sort=-product")
        return len(captured)

    cluster = make_cluster("berlin")
    make_fleet(cluster, nodes=30, per_node=2, kinds=20)
    for device in Device.objects.filter(state="held")[:3]:
        hold(device, namespace="a", claim=f"claim-{device.pk}")
    small = queries()
    make_fleet(make_cluster("oslo"), nodes=90, per_node=8, kinds=24)
    for device in Device.objects.filter(cluster__name="oslo", state="held")[:40]:
        hold(device, namespace="b", claim=f"claim-{device.pk}")
    assert queries() <= small
    assert small <= 23


# --- expression, products, columns -------------------------------------------------------------------


def cel(expression: str) -> str:
    return urlencode({"cel": expression})


def test_an_expression_narrows_the_list_and_says_what_it_matches(cast: Cast, fleet: Fleet) -> None:
    expression = 'device.driver == "gpu.nvidia.com"'
    html = page(cast.client("stranger"), f"{cel(expression)}&state=free")
    assert "matches 3 devices, 1 free" in html
    assert f'href="/devices/{fleet.free.pk}/"' in html
    assert f'href="/devices/{fleet.held.pk}/"' not in html
    assert f'href="/devices/{fleet.cordoned.pk}/"' not in html


def test_an_expression_may_name_one_piece(cast: Cast, fleet: Fleet) -> None:
    expression = f'device.attributes["gpu.nvidia.com"].uuid == "{fleet.free.hardware_id}"'
    html = page(cast.client("stranger"), cel(expression))
    assert "matches 1 device, 1 free" in html
    # The devices of the other driver have no such attribute.
    assert "For some devices it fails" in html
    assert f'href="/devices/{fleet.free.pk}/"' in html


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("device.driver ==", "Line 1, column"),
        ("device.driver", "must"),
        ("x" * 2001, "at most 2000 characters"),
        ("</textarea><script>", "Line 1, column"),
    ],
)
def test_an_expression_that_cannot_be_read_is_kept_and_finds_nothing(
    expression: str, said: str, cast: Cast, fleet: Fleet
) -> None:
    html = page(cast.client("stranger"), cel(expression))
    assert "The expression cannot be read" in html
    assert said in html
    assert f">{escape(expression)}</textarea>" in html
    assert f'href="/devices/{fleet.free.pk}/"' not in html
    assert rows(cast.client("stranger"), cel(expression)) == []


def test_while_it_is_typed_only_a_good_expression_moves_the_list(cast: Cast, fleet: Fleet) -> None:
    client = cast.client("stranger")
    good = client.get(f"/devices/expression/?{cel(AMD)}")
    assert "matches 2 devices, 0 free" in good.content.decode()
    assert good["HX-Trigger-After-Settle"] == "expression-good"
    wrong = client.get(f"/devices/expression/?{cel('device.driver ==')}")
    assert "^" in wrong.content.decode()
    assert "HX-Trigger-After-Settle" not in wrong
    assert client.get("/devices/expression/")["HX-Trigger-After-Settle"] == "expression-good"


def test_devices_are_told_by_product(cast: Cast, fleet: Fleet) -> None:
    html = page(cast.client("stranger"), "view=products&vendor=NVIDIA")
    assert "NVIDIA H100 80GB HBM3" in html
    assert "1 held, 1 free, 1 unavailable" in html
    assert "MI300X" not in html.replace('value="AMD Instinct MI300X OAM"', "").split("inv-products")[1]
    assert "product=NVIDIA+H100" in html


def test_columns_are_chosen_and_kept(cast: Cast, fleet: Fleet) -> None:
    client = cast.client("stranger")
    assert fleet.free.hardware_id not in page(client)
    answer = client.get(f"{URL}?vendor=NVIDIA&columns=hardware&columns=pool&remember=1")
    assert answer["Location"] == f"{URL}?vendor=NVIDIA&columns=node%2Cpool%2Chardware"
    assert fleet.free.hardware_id in page(client, "vendor=NVIDIA")
    assert "1 partition" not in page(client, "columns=product")
    assert fleet.free.hardware_id not in page(client, "columns=product")


@pytest.mark.parametrize("column", ["vendor", "driver", "health", "pool", "hardware", "cluster"])
def test_every_column_can_be_shown(column: str, cast: Cast, fleet: Fleet) -> None:
    html = page(cast.client("owner"), f"columns={column}&q=gpu-2")
    shown = {
        "vendor": "<td>NVIDIA</td>",
        "driver": "<td>gpu.nvidia.com</td>",
        "health": "no complaint",
        "pool": "/pools/berlin/gpu.nvidia.com/gpu-01/",
        "hardware": fleet.tainted.hardware_id,
        "cluster": "<td>berlin</td>",
    }
    assert shown[column] in html


# --- CSV --------------------------------------------------------------------------------------------


def rows(client: Client, query: str = "") -> list[dict[str, str]]:
    response = client.get(f"/devices/export.csv?{query}")
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    assert "attachment" in response["Content-Disposition"]
    text = b"".join(response.streaming_content).decode("utf-8-sig")  # type: ignore[attr-defined] # it streams
    return list(csv.DictReader(io.StringIO(text)))


def test_the_export_has_what_the_list_has(cast: Cast, fleet: Fleet) -> None:
    exported = rows(cast.client("stranger"), "vendor=NVIDIA")
    assert [row["device"] for row in exported] == ["gpu-0", "gpu-1", "gpu-2"]
    assert [row["state"] for row in exported] == ["held", "free", "unavailable"]
    assert exported[0]["project"] == "protein-folding"
    assert exported[2]["reason"] == "device-tainted"


@pytest.mark.parametrize(
    ("role", "claim"), [*((r, "secret-claim") for r in INSIDERS), *((r, "") for r in OUTSIDERS)]
)
def test_claims_are_exported_for_those_who_may_see_them(
    role: str, claim: str, cast: Cast, fleet: Fleet
) -> None:
    held = rows(cast.client(role), "state=held")
    assert [row["claim"] for row in held] == [claim]


def test_cells_that_a_spreadsheet_would_run_are_defused(cast: Cast, cluster: Cluster) -> None:
    make_device(cluster, "gpu-0", hardware_id='=HYPERLINK("http://x")', profile=make_profile("@evil"))
    (row,) = rows(cast.client("owner"))
    assert row["hardware_id"].startswith("'=")
    assert row["product"] == "'@evil"
