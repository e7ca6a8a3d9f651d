"""Tables of pages that have several: columns of each are chosen, kept and shared; each has its CSV."""

from django.http import HttpResponseBase
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from inventory.models import ClusterQueue, Pool, ResourceQuota, Stream, SyncProblem
from tests.browser.sessions import signed_in
from tests.cast import Cast
from tests.inventory_pages.factories import bind, make_cluster, make_node


def lines(answer: HttpResponseBase) -> list[str]:
    return b"".join(answer.streaming_content).decode().splitlines()  # type: ignore[attr-defined] # a streaming answer


def test_columns_are_named_in_the_address_and_shown_so(cast: Cast) -> None:
    make_cluster()
    path = reverse("cluster-detail", args=["berlin"])
    client = signed_in(cast.member)
    whole = client.get(path).content.decode()
    less = client.get(path, {"cluster-streams-columns": "state"}).content.decode()

    assert ">Last heard</th" in whole
    assert ">Last heard</th" not in less
    # What a table cannot do without is there whatever an address says.
    assert ">Resource</th" in less
    assert (
        client.get(path, {"cluster-streams-columns": "x" * 300}).content.decode().count(">Last heard</th")
        == 1
    )


def test_a_choice_is_kept_by_the_browser_and_taken_back(cast: Cast) -> None:
    make_cluster()
    path = reverse("cluster-detail", args=["berlin"])
    client = signed_in(cast.member)
    chosen = client.get(
        path, {"remember": "cluster-streams", "cluster-streams-columns": ["resource", "state"]}
    )

    assert chosen.status_code == 303
    assert chosen["Location"] == f"{path}?cluster-streams-columns=resource%2Cstate"
    assert ">Last heard</th" not in client.get(path).content.decode()
    back = client.get(path, {"remember": "cluster-streams"})
    assert back["Location"] == path
    assert ">Last heard</th" in client.get(path).content.decode()


def test_each_table_of_a_cluster_is_there_as_csv(cast: Cast) -> None:
    cluster = make_cluster()
    Stream.objects.filter(cluster=cluster, resource="nodes").update(message="=secret address")
    SyncProblem.objects.create(
        cluster=cluster, resource="pods", namespace="tides", name="odd", path="spec", reason="odd",
        seen_at=timezone.now(),
    )  # fmt: skip
    Pool.objects.create(
        cluster=cluster, driver="gpu.nvidia.com", name="half", generation=1, slices_expected=2, slices_seen=1,
        complete=False,
    )  # fmt: skip
    make_node(cluster, "old", capacity={"nvidia.com/gpu": "4"}, allocatable={"nvidia.com/gpu": "4"})
    path = reverse("cluster-detail", args=["berlin"])

    def table(client: Client, name: str) -> list[str]:
        return lines(client.get(path, {"format": "csv", "table": f"cluster-{name}"}))

    member, administrator = signed_in(cast.member), signed_in(cast.administrator)
    assert any(line.startswith("nodes,") for line in table(member, "streams"))
    # Where the cluster is, and what is whose, is for those who run it; and no cell is a formula.
    assert "secret address" not in "".join(table(member, "streams"))
    assert "'=secret address" in "".join(table(administrator, "streams"))
    assert table(member, "problems")[1].startswith("pods,,,,")
    assert table(administrator, "problems")[1].startswith("pods,tides/odd,spec,odd,")
    assert table(member, "pools")[1:] == ["gpu.nvidia.com,half,1,1,2,,"]
    assert len(table(member, "taints")) == 1
    assert table(member, "units")[1].startswith("old,nvidia.com/gpu,4,4,")
    assert member.get(path, {"format": "csv", "table": "secrets"}).status_code == 404


def test_the_tables_of_queues_are_csv_of_what_one_may_see(cast: Cast) -> None:
    cluster = make_cluster()
    bind(cluster, "tides", cast.project)
    quota = {
        "flavor": "h100",
        "resource": "nvidia.com/gpu",
        "nominal": "8",
        "borrowing": None,
        "lending": None,
    }
    common = {"cluster": cluster, "resource_version": "1"}
    ClusterQueue.objects.create(**common, name="science", uid="q", active=True, quotas=[quota])
    ClusterQueue.objects.create(**common, name="empty", uid="e", active=True)
    ResourceQuota.objects.create(
        **common, name="gpus", uid="r", namespace="tides", hard={"requests.nvidia.com/gpu": "4"}, used={},
    )  # fmt: skip
    path = reverse("queue-list")
    member, stranger = signed_in(cast.member), signed_in(cast.stranger)

    queues = lines(member.get(path, {"format": "csv", "table": "queues-queues"}))
    assert [line.split(",")[1] for line in queues[1:]] == ["empty", "science"]
    assert ",h100,nvidia.com/gpu,8,0,0,0," in queues[2]
    query = {"format": "csv", "table": "queues-quotas"}
    assert [line.split(",")[:4] for line in lines(member.get(path, query))[1:]] == [
        ["berlin", "tides", "gpus", "requests.nvidia.com/gpu"]
    ]
    assert len(lines(stranger.get(path, query))) == 1
    assert len(lines(member.get(path, query | {"table": "queues-workloads"}))) == 1
    less = member.get(path, {"queues-queues-columns": "quota"}).content.decode()
    assert ">Set aside</th" not in less
