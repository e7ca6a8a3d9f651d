"""Clusters: what people see of them, and what administrators do to them."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from inventory import clusters
from inventory.models import Cluster, Node, Pod, Stream, SyncProblem
from portal.accounts.models import AuditEntry
from portal.kube import errors
from tests.embedded import EmbeddedCluster
from tests.inventory_pages.conftest import INSIDERS, OUTSIDERS, Cast, Fleet
from tests.inventory_pages.factories import make_cluster, make_device, make_fleet, make_node, make_pool

ADD = "/add-cluster/"
ACTIONS = ("check", "switch", "sync")


def post(client: Client, path: str, fields: dict[str, Any] | None = None) -> str:
    """Sends a form and reads the page that it leads to."""
    response = client.post(path, fields or {})
    assert response.status_code == 303
    return client.get(response["Location"]).content.decode()


def page(cast: Cast, role: str, path: str = "/clusters/berlin/") -> str:
    response = cast.client(role).get(path)
    assert response.status_code == 200
    return response.content.decode()


@pytest.mark.parametrize("role", [*INSIDERS, *OUTSIDERS])
def test_everybody_sees_whether_a_cluster_is_in_step(role: str, cast: Cast, fleet: Fleet) -> None:
    assert "in step" in page(cast, role, "/clusters/")
    html = page(cast, role)
    assert "resourceslices" in html
    assert "v1.36.2" in html


@pytest.mark.parametrize("role", [*INSIDERS, *OUTSIDERS])
def test_only_those_who_run_it_see_where_it_is(role: str, cast: Cast, fleet: Fleet) -> None:
    shown = "https://berlin.example.org:6443" in page(cast, role)
    assert shown == (role in {"administrator", "auditor"})


@pytest.mark.parametrize("role", [*INSIDERS, *OUTSIDERS])
def test_a_problem_with_a_projects_object_keeps_its_name_from_others(
    role: str, cast: Cast, fleet: Fleet
) -> None:
    problem = {"cluster": fleet.cluster, "seen_at": timezone.now()}
    SyncProblem.objects.create(
        **problem, resource="resourceclaims", namespace="ns", name="secret", path="spec", reason="secret text"
    )
    SyncProblem.objects.create(**problem, resource="resourceslices", name="slice-1", reason="bad quantity")
    html = page(cast, role)
    assert "slice-1" in html
    assert ("secret" in html) == (role in {"administrator", "auditor"})


def test_an_unreachable_cluster_says_why_and_as_of_when(cast: Cast) -> None:
    last = timezone.now() - timedelta(hours=2)
    make_cluster(state=Cluster.State.UNREACHABLE, message="connection refused", heard_at=last)
    for path in ("/clusters/", "/clusters/berlin/"):
        html = page(cast, "stranger", path)
        assert "cannot be reached" in html
        assert f"{last:%Y-%m-%d %H:%M}" in html
    assert "connection refused" in page(cast, "administrator")
    # The reason may name addresses inside the organisation.
    assert "connection refused" not in page(cast, "stranger")


def test_a_message_of_the_cluster_is_shown_as_text(cast: Cast) -> None:
    make_cluster(state=Cluster.State.UNREACHABLE, message="<script>alert(1)</script>")
    assert "<script>alert" not in page(cast, "administrator")


def test_unfit_pools_and_missing_rights_are_listed(cast: Cast) -> None:
    cluster = make_cluster(missing_permissions=["list pods"])
    make_pool(cluster, "half", slices_expected=3, complete=False)
    make_pool(cluster, "twice", problem="two devices are called gpu-0")
    html = page(cast, "auditor")
    for text in ("half", "1 of 3", "two devices are called gpu-0", "list pods"):
        assert text in html


def test_counted_units_are_told_with_their_use_and_both_ways_flagged(cast: Cast, fleet: Fleet) -> None:
    units = {"nvidia.com/gpu": "4", "amd.com/gpu": "0", "example.com/x": "two"}
    Node.objects.filter(name="gpu-01").update(capacity=units, allocatable={"nvidia.com/gpu": "3"})
    make_node(fleet.cluster, "old-01", capacity={"nvidia.com/gpu": "8"}, allocatable={"nvidia.com/gpu": "8"})
    for number, phase in enumerate(["Running", "Succeeded", "Pending"]):
        Pod.objects.create(
            cluster=fleet.cluster, namespace="a", name=f"p{number}", uid=f"p{number}", resource_version="1",
            phase=phase, node_name="old-01", extended_resources={"nvidia.com/gpu": "2"},
        )  # fmt: skip
    html = page(cast, "stranger")
    assert html.count("nvidia.com/gpu") == 2
    assert "amd.com/gpu" not in html
    assert html.count("both ways") == 1
    row = html[html.index("old-01") :]
    numbers = [part.split("</td>")[0] for part in row.split('<td class="cd-number">')[1:4]]
    assert numbers == ["8", "8", "4"]


def test_use_is_unknown_where_pods_are_not_seen(cast: Cast, fleet: Fleet) -> None:
    Node.objects.filter(name="gpu-01").update(capacity={"x.example/y": "4"}, allocatable={"x.example/y": "4"})
    fleet.cluster.streams.filter(resource="pods").update(state=Stream.State.NOT_PERMITTED)
    assert "4, use unknown" in page(cast, "stranger", "/nodes/")
    assert "0 of 4 used" not in page(cast, "stranger", "/nodes/")
    found = cast.client("owner").get("/api/v1/nodes/berlin/gpu-01/").json()
    assert found["counted_resources"][0]["used"] is None


@pytest.mark.parametrize("query", ["page=abc", "page=99999", "page=-1"])
def test_odd_pages_are_answered(query: str, cast: Cast, fleet: Fleet) -> None:
    page(cast, "owner", f"/clusters/berlin/?{query}")
    assert cast.client("owner").get("/clusters/nowhere/").status_code == 404


def test_the_number_of_queries_does_not_grow(cast: Cast, fleet: Fleet) -> None:
    client = cast.client("owner")

    def queries(path: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert client.get(path).status_code == 200
        return len(captured)

    # With a second cluster there is a choice of clusters.
    make_cluster("bern")
    small = {path: queries(path) for path in ("/clusters/", "/clusters/berlin/", "/nodes/")}
    for name in ("oslo", "rome", "york"):
        make_fleet(make_cluster(name), nodes=30, per_node=2)
    make_fleet(fleet.cluster, nodes=20)
    Node.objects.filter(cluster=fleet.cluster).update(capacity={"nvidia.com/gpu": "1"})
    # Where nodes advertise units: their Pods and drivers, and the page of those nodes; once, not per node.
    more = {path: queries(path) - count for path, count in small.items()}
    assert more == {"/clusters/": 0, "/clusters/berlin/": 4, "/nodes/": 3}


# --- actions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("role", sorted({*INSIDERS, *OUTSIDERS} - {"administrator"}))
def test_only_administrators_act(role: str, action: str, cast: Cast, cluster: Cluster) -> None:
    assert cast.client(role).post(f"/clusters/berlin/{action}/").status_code == 403


@pytest.mark.parametrize("action", ACTIONS)
def test_nothing_happens_by_get(action: str, cast: Cast, cluster: Cluster) -> None:
    assert cast.client("administrator").get(f"/clusters/berlin/{action}/").status_code == 405


def test_a_cluster_is_paused_and_followed_again(cast: Cast, cluster: Cluster) -> None:
    client = cast.client("administrator")
    for enabled in ("no", "no", "yes"):
        assert client.post("/clusters/berlin/switch/", {"enabled": enabled}).status_code == 303
        cluster.refresh_from_db()
        assert cluster.enabled == (enabled == "yes")
    actions = list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))
    assert actions == ["cluster.disable", "cluster.enable"]


def test_a_sync_is_asked_for_and_recorded(cast: Cast, cluster: Cluster) -> None:
    cast.client("administrator").post("/clusters/berlin/sync/")
    cluster.refresh_from_db()
    assert cluster.relist_requested_at is not None
    assert AuditEntry.objects.get().action == "cluster.sync"


def test_a_check_says_why_a_cluster_cannot_be_reached(
    cast: Cast, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(**_: Any) -> None:
        raise errors.Unreachable("Nobody answers at this address.")

    monkeypatch.setattr(clusters, "connect", unreachable)
    html = post(cast.client("administrator"), "/clusters/berlin/check/")
    assert "Nobody answers at this address." in html
    cluster.refresh_from_db()
    assert cluster.state == Cluster.State.UNREACHABLE


# --- adding -----------------------------------------------------------------------------------------

KUBECONFIG = "apiVersion: v1\nkind: Config\nclusters: []\nsecret: do-not-show\n"


def asked(**fields: Any) -> dict[str, Any]:
    return {
        "name": "oslo", "region": "north", "credentials": "stored", "kubeconfig_text": KUBECONFIG,
        "kubeconfig_path": "", "context": "admin", **fields,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "Oslo!"}, "A name has up to 63"),
        ({"name": ""}, "This field is required"),
        ({"kubeconfig_text": ""}, "Paste the kubeconfig"),
        ({"kubeconfig_text": "{{{"}, ""),
        ({"credentials": "kubeconfig", "kubeconfig_path": ""}, "Give the path"),
        ({"credentials": "kubeconfig", "kubeconfig_path": "/no/such/file"}, ""),
        ({"credentials": "magic"}, "not one of the available choices"),
        ({"kubeconfig_file": SimpleUploadedFile("k", b"\xff\xfe\x00")}, "This file is not text."),
        ({"kubeconfig_file": SimpleUploadedFile("k", b"a: b")}, "not both"),
        ({"kubeconfig_file": SimpleUploadedFile("k", b"x" * 300_000)}, "too large"),
    ],
)
def test_what_is_wrong_is_said_next_to_the_field_and_the_rest_stays(
    fields: dict[str, Any], message: str, cast: Cast
) -> None:
    response = cast.client("administrator").post(ADD, asked(**fields))
    html = response.content.decode()
    assert response.status_code == 422
    assert message in html
    assert "cd-field-error" in html
    assert 'value="north"' in html
    assert "do-not-show" not in html
    assert not Cluster.objects.exists()


def test_an_unreachable_api_server_is_said_and_nothing_is_stored(
    cast: Cast, tmp_path: Path, embedded_cluster: EmbeddedCluster
) -> None:
    embedded_cluster.stop()
    typed = asked(credentials="kubeconfig", kubeconfig_path=str(embedded_cluster.kubeconfig))
    response = cast.client("administrator").post(ADD, typed)
    assert response.status_code == 422
    assert str(embedded_cluster.kubeconfig) in response.content.decode()
    assert not Cluster.objects.exists()


@pytest.mark.parametrize("way", ["path", "text", "file"])
def test_a_cluster_that_answers_is_added(way: str, cast: Cast, embedded_cluster: EmbeddedCluster) -> None:
    text = Path(embedded_cluster.kubeconfig).read_text()
    ways: dict[str, dict[str, Any]] = {
        "path": {"credentials": "kubeconfig", "kubeconfig_path": str(embedded_cluster.kubeconfig)},
        "text": {"kubeconfig_text": text},
        "file": {"kubeconfig_text": "", "kubeconfig_file": SimpleUploadedFile("k.yaml", text.encode())},
    }
    html = post(cast.client("administrator"), ADD, asked(**ways[way]))
    assert "oslo answers. Its first lists are running." in html
    added = Cluster.objects.get()
    assert (added.name, added.state) == ("oslo", Cluster.State.SYNCING)
    entry = AuditEntry.objects.get(action="cluster.add")
    assert "token" not in str(entry.after)


def test_checking_a_paused_cluster_leaves_it_paused(cast: Cast, embedded_cluster: EmbeddedCluster) -> None:
    cluster = make_cluster(
        enabled=False, state=Cluster.State.DISABLED, kubeconfig_path=str(embedded_cluster.kubeconfig),
        kubeconfig_context="admin",
    )  # fmt: skip
    html = post(cast.client("administrator"), "/clusters/berlin/check/")
    assert "It answers" in html
    cluster.refresh_from_db()
    assert cluster.state == Cluster.State.DISABLED


# --- nodes ------------------------------------------------------------------------------------------


def test_nodes_tell_their_condition_and_devices(cast: Cast, fleet: Fleet) -> None:
    html = page(cast, "stranger", "/nodes/")
    assert "cordoned" in html
    assert "ready" in html
    only = page(cast, "stranger", "/nodes/?condition=cordoned")
    assert "/nodes/berlin/gpu-02/" in only
    assert "/nodes/berlin/gpu-01/" not in only


@pytest.mark.parametrize(
    "query", ["q=%00", "page=abc", "condition=x", "cluster=nowhere", "q=%25", "page=9999&q=gpu"]
)
def test_odd_node_lists_are_answered(query: str, cast: Cast, fleet: Fleet) -> None:
    page(cast, "owner", f"/nodes/?{query}")


@pytest.mark.parametrize("role", [*INSIDERS, *OUTSIDERS])
def test_a_nodes_pods_are_shown_to_members(role: str, cast: Cast, fleet: Fleet) -> None:
    html = page(cast, role, "/nodes/berlin/gpu-01/")
    assert "gpu-0" in html
    assert ("secret-pod" in html) == (role in INSIDERS)
    assert ("1 Pod of a project that you do not belong to" in html) == (role in OUTSIDERS)


def test_a_silent_watch_makes_a_nodes_condition_unknown(cast: Cast, fleet: Fleet) -> None:
    Stream.objects.update(state=Stream.State.FAILED)
    html = page(cast, "owner", "/nodes/berlin/gpu-02/")
    assert "unknown" in html
    assert "cd-state-good" not in html


def test_a_node_that_is_gone_is_not_found(cast: Cast, fleet: Fleet) -> None:
    make_device(fleet.cluster, "gpu-9", node="gone")
    assert cast.client("owner").get("/nodes/berlin/gone/").status_code == 404
