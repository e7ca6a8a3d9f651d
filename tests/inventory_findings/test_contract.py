"""Platform contracts: ranges, what is observed against them, how observed versions change over time."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from inventory import contract
from inventory.contract import InvalidRange, Terms, UnableToSaveContract, parse
from inventory.models import CdiNode, Cluster, Device, Node, PlatformChange, PlatformContract
from portal.accounts.models import AuditEntry
from tests.cast import Cast
from tests.inventory_findings.conftest import MINUTE, look
from tests.inventory_findings.test_pages import signed_in
from tests.inventory_pages.factories import make_cluster, make_device, make_fleet, make_profile

pytestmark = pytest.mark.django_db

# --- ranges ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "version", "admitted"),
    [
        ("1.36", "v1.36.2", True),
        ("1.36", "v1.37.0", False),
        ("1.36", "v1.360.0", False),
        ("1.36.x", "v1.36.9", True),
        ("1.36.*", "v1.35.9", False),
        ("=1.36.2", "v1.36.2+k3s1", True),
        ("1.36.2", "v1.36.3", False),
        (">=1.35 <1.37", "v1.36.2-gke.1200", True),
        (">=1.35 <1.37", "v1.37.0", False),
        (">= 1.35, < 1.37", "v1.35.0", True),
        ("<=1.36", "v1.36.9", True),
        (">1.36", "v1.36.9", False),
        (">1.36", "v1.37.0", True),
        ("1.34 || 1.36", "v1.34.1", True),
        ("1.34 || 1.36", "v1.35.1", False),
        (">=580", "580.126.9", True),
        (">=580.126.10", "580.126.9", False),
        ("<590", "58.1", True),
        ("1.36", "unknown", False),
        ("1.36.0", "1.36", True),
    ],
)
def test_what_a_range_admits(text: str, version: str, admitted: bool) -> None:
    assert parse(text).admits(version) is admitted


@pytest.mark.parametrize(
    ("text", "version", "admitted"),
    [
        ("containerd >=2.0 || cri-o >=1.34", "containerd 2.1.4", True),
        ("containerd >=2.0 || cri-o >=1.34", "cri-o 1.33.0", False),
        ("containerd", "containerd 1.7.0", True),
        ("containerd", "cri-o 1.34.0", False),
        ("cri >=1", "cri-o 1.34.0", False),
        (">=2.0", "containerd 2.1.4", True),
    ],
)
def test_a_runtime_may_be_named(text: str, version: str, admitted: bool) -> None:
    assert parse(text, named=True).admits(version) is admitted


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "newest",
        "1.36 ||",
        "||",
        "~1.36",
        "1..2",
        ">=",
        "v",
        "1.36-rc.1",
        "１.36",
        "9" * 201,
        "1.2.3.4.5",
    ],
)
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(InvalidRange) as refused:
        parse(text)
    assert refused.value.message


# --- what is observed --------------------------------------------------------------------------------


def test_what_a_cluster_runs(healthy: Cluster) -> None:
    Node.objects.filter(name="gpu-01").update(
        kubelet_version="v1.36.2", container_runtime="containerd://2.1.4"
    )
    Node.objects.filter(name="gpu-02").update(kubelet_version="v1.35.0")
    typed = make_profile(
        "Versioned", driver="gpu.amd.com", attributes={"gpu.amd.com/driverVersion": {"version": "6.12.12"}}
    )
    make_device(healthy, "gpu-9", profile=typed)
    assert contract.observe(healthy) == {
        "kubernetes": {"v1.36.2": 1},
        "kubelet": {"v1.36.2": 1, "v1.35.0": 1},
        "runtime": {"containerd 2.1.4": 1},
        "driver:gpu.amd.com": {"6.12.12": 1},
    }


def test_runtimes_are_known_from_cdi_reports_too(healthy: Cluster) -> None:
    CdiNode.objects.create(
        cluster=healthy,
        name="gpu-01",
        created_at=timezone.now(),
        received_at=timezone.now(),
        runtime={"name": "cri-o", "version": "1.34.1"},
    )
    assert contract.observe(healthy)["runtime"] == {"cri-o 1.34.1": 1}


def test_it_takes_as_many_queries_for_any_fleet(db: None) -> None:
    counts = []
    for name, nodes in (("small", 2), ("large", 50)):
        cluster = make_cluster(name)
        make_fleet(cluster, nodes=nodes)
        with CaptureQueriesContext(connection) as captured:
            contract.observe(cluster)
        counts.append(len(captured))
    assert counts[0] == counts[1] <= 6


def test_changes_are_appended(healthy: Cluster) -> None:
    nodes = Node.objects.filter(cluster=healthy)
    for minute, versions in enumerate((("v1.35.1",) * 2, ("v1.35.1", "v1.36.2"), ("v1.36.2",) * 2)):
        for node, version in zip(nodes.order_by("name"), versions, strict=True):
            nodes.filter(pk=node.pk).update(kubelet_version=version)
        look(healthy, after=minute * MINUTE)
    steps = PlatformChange.objects.filter(part="kubelet").order_by("pk")
    assert [(step.before, step.after) for step in steps] == [
        (None, ["v1.35.1"]),
        (["v1.35.1"], ["v1.35.1", "v1.36.2"]),
        (["v1.35.1", "v1.36.2"], ["v1.36.2"]),
    ]


def test_what_is_not_observed_has_not_changed(healthy: Cluster) -> None:
    nodes = Node.objects.filter(cluster=healthy)
    nodes.update(kubelet_version="v1.35.1")
    look(healthy)
    healthy.streams.filter(resource="nodes").update(state="not-permitted")
    nodes.update(kubelet_version="v1.36.2")
    look(healthy, after=MINUTE)
    nodes.update(kubelet_version="")
    healthy.streams.filter(resource="nodes").update(state="watching")
    look(healthy, after=2 * MINUTE)
    assert PlatformChange.objects.filter(part="kubelet").count() == 1


def test_a_driver_that_comes_later_is_a_change(healthy: Cluster) -> None:
    look(healthy)
    typed = make_profile("New", attributes={"gpu.nvidia.com/driverVersion": {"version": "580.1.0"}})
    Device.objects.filter(node_name="gpu-01").update(profile=typed)
    look(healthy, after=MINUTE)
    change = PlatformChange.objects.get(part="driver:gpu.nvidia.com")
    assert (change.before, change.after) == ([], ["580.1.0"])


# --- writing it --------------------------------------------------------------------------------------


def save(cluster: Cluster, cast: Cast, **terms: object) -> PlatformContract:
    return contract.save(
        cluster=cluster,
        terms=Terms(**terms),  # type: ignore[arg-type] # as a form gives them
        actor=cast.administrator,
        now=timezone.now(),
    )


def test_a_contract_is_audited_and_saying_the_same_again_changes_nothing(
    healthy: Cluster, cast: Cast
) -> None:
    save(healthy, cast, kubernetes="1.36", drivers={"gpu.nvidia.com": ">=580"})
    save(healthy, cast, kubernetes="1.36", drivers={"gpu.nvidia.com": ">=580"})
    save(healthy, cast, kubernetes="1.37", drivers={"gpu.nvidia.com": ">=580"})
    first, second = AuditEntry.objects.filter(action="contract.change").order_by("pk")
    assert first.after is not None
    assert first.after["drivers"] == {"gpu.nvidia.com": ">=580"}
    assert (second.before, second.after) == ({"kubernetes": "1.36"}, {"kubernetes": "1.37"})


@pytest.mark.parametrize(
    ("terms", "field"),
    [
        ({"kubernetes": "newest"}, "kubernetes"),
        ({"kubelet": "containerd 2"}, "kubelet"),
        ({"runtime": "||"}, "runtime"),
        ({"group": "Ä"}, "group"),
        ({"drivers": {"gpu nvidia": "1"}}, "drivers"),
        ({"drivers": {"gpu.nvidia.com": "~1"}}, "drivers"),
        ({"drivers": {f"d{n}.example.org": "1" for n in range(51)}}, "drivers"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_refused_names_the_field(
    terms: dict[str, object], field: str, healthy: Cluster, cast: Cast
) -> None:
    with pytest.raises(UnableToSaveContract) as refused:
        save(healthy, cast, **terms)
    assert refused.value.field == field
    assert not PlatformContract.objects.exists()


# --- the pages ---------------------------------------------------------------------------------------


def test_the_form_writes_a_contract(healthy: Cluster, cast: Cast) -> None:
    client = signed_in(cast.administrator)
    url = "/clusters/berlin/contract/"
    text = client.get(f"{url}edit/").content.decode()
    assert "v1.36.2" in text  # what it runs is beside the form
    data = {"group": "europe", "kubernetes": ">=1.37", "drivers": "gpu.nvidia.com: >=580 <590\n\n"}
    assert client.post(f"{url}edit/", data).status_code == 303
    text = client.get(url).content.decode()
    assert all(word in text for word in ("&gt;=1.37", "not as expected", "not observed", "anouk", "europe"))
    assert "gpu.nvidia.com: &gt;=580 &lt;590" in client.get(f"{url}edit/").content.decode()
    look(healthy)
    assert "not as expected" in client.get("/contracts/").content.decode()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"kubernetes": "newest"}, "is no bound"),
        ({"drivers": "gpu.nvidia.com"}, "Line 1"),
        ({"drivers": "a.b: 1\na.b: 2"}, "there twice"),
        ({"drivers": "a.b: ~2"}, "a.b: "),
        ({"group": "Ä"}, "Lower-case"),
    ],
)
def test_the_form_says_what_is_wrong_and_keeps_what_was_typed(
    data: dict[str, str], said: str, healthy: Cluster, cast: Cast
) -> None:
    response = signed_in(cast.administrator).post(
        "/clusters/berlin/contract/edit/", {"kubelet": ">=1.30", **data}
    )
    text = response.content.decode()
    assert response.status_code == 422
    assert said in text
    assert "&gt;=1.30" in text
    assert not PlatformContract.objects.exists()


def test_a_cluster_that_is_not_seen_is_said_to_be_past(healthy: Cluster, cast: Cast) -> None:
    Cluster.objects.update(enabled=False)
    text = signed_in(cast.auditor).get("/clusters/berlin/contract/").content.decode()
    assert "What is shown of it is the past" in text
