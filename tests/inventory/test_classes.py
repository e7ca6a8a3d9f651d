"""DeviceClasses: what an expression matches, and changes that are rehearsed first."""

from typing import Any

import pytest

from inventory import classes, clusters
from inventory.models import Cluster
from portal.accounts.models import AuditEntry, User
from portal.kube.resources import DEVICE_CLASSES
from tests.embedded import EmbeddedCluster
from tests.inventory.conftest import NOW, Mirror
from tests.inventory.objects import allocation, claim, gpu, node, resource_slice, result
from tests.kube.scripted import Received, Reply, scripted

IS_GPU = "device.driver == 'gpu.nvidia.com'"


def test_an_expression_counts_what_it_matches_and_what_is_free(mirror: Mirror) -> None:
    mirror.see(node())
    mirror.see(resource_slice("s1", [gpu(0), gpu(1), gpu(2)]))
    mirror.see(claim(allocated=allocation(result("gpu-0"))))

    def check(expression: str) -> tuple[int, int]:
        found = classes.check_expression(cluster=mirror.cluster, expression=expression)
        assert (found.problem, found.evaluation_error) == ("", "")
        return found.matched, found.free

    assert check(IS_GPU) == (3, 2)
    assert check("device.attributes['gpu.nvidia.com'].uuid == 'GPU-n1-1'") == (1, 1)
    assert check("device.attributes['gpu.nvidia.com'].uuid == 'GPU-n1-0'") == (1, 0)
    assert check("device.driver == 'none'") == (0, 0)


def test_a_mistake_is_said_with_its_place(cluster: Cluster) -> None:
    found = classes.check_expression(cluster=cluster, expression="device.driver ==")
    assert found.problem != ""
    assert found.line == 1


def test_an_expression_that_fails_on_a_device_says_so(mirror: Mirror) -> None:
    mirror.see(resource_slice("s1", [gpu(0)]))
    found = classes.check_expression(
        cluster=mirror.cluster, expression="device.attributes['gpu.nvidia.com'].nosuch == 'x'"
    )
    assert found.evaluation_error != ""


@pytest.fixture
def ada(db: None) -> User:
    return User.objects.create(username="ada", is_administrator=True)


@pytest.mark.django_db
def test_classes_are_created_changed_and_deleted_on_the_cluster(
    embedded_cluster: EmbeddedCluster, ada: User
) -> None:
    cluster = clusters.add(
        name="demo", kubeconfig_path=str(embedded_cluster.kubeconfig), context="admin", now=NOW
    )

    def spec() -> dict[str, Any]:
        with clusters.client_for(cluster) as client:
            found: dict[str, Any] = client.get(DEVICE_CLASSES, "mine.example")["spec"]
            return found

    wanted = classes.Wanted(expressions=[IS_GPU], extended_resource_name="example.com/gpu")
    arguments: dict[str, Any] = {"cluster": cluster, "name": "mine.example", "actor": ada, "now": NOW}
    classes.create_class(**arguments, wanted=wanted, rehearse_only=True)
    about_classes = AuditEntry.objects.filter(action__startswith="device_class.")
    assert about_classes.count() == 0
    classes.create_class(**arguments, wanted=wanted)
    assert spec() == wanted.spec()
    with pytest.raises(classes.UnableToChangeClass) as caught:
        classes.create_class(**arguments, wanted=wanted)
    assert caught.value.field == "name"

    with clusters.client_for(cluster) as client:
        version = client.get(DEVICE_CLASSES, "mine.example")["metadata"]["resourceVersion"]
    narrower = classes.Wanted(expressions=[IS_GPU, "device.allowMultipleAllocations"])
    classes.update_class(**arguments, wanted=narrower, seen_version=version)
    assert spec() == narrower.spec()
    with pytest.raises(classes.UnableToChangeClass, match="Somebody changed"):
        classes.update_class(**arguments, wanted=wanted, seen_version=version)

    classes.delete_class(**arguments)
    with pytest.raises(classes.UnableToChangeClass, match="no class"):
        classes.delete_class(**arguments)
    assert [entry.action for entry in about_classes.order_by("id")] == [
        "device_class.create",
        "device_class.update",
        "device_class.delete",
    ]


@pytest.mark.parametrize(
    ("name", "wanted", "field"),
    [
        ("Bad Name", classes.Wanted([IS_GPU]), "name"),
        ("good", classes.Wanted(["device.driver =="]), "expressions"),
        ("good", classes.Wanted(["x" * 11_000]), "expressions"),
        ("good", classes.Wanted([IS_GPU] * 33), "expressions"),
        ("good", classes.Wanted([IS_GPU], extended_resource_name="no domain"), "extended_resource_name"),
    ],
)
@pytest.mark.django_db
def test_what_the_cluster_would_refuse_is_said_at_its_field(
    embedded_cluster: EmbeddedCluster, ada: User, name: str, wanted: classes.Wanted, field: str
) -> None:
    cluster = clusters.add(
        name="demo", kubeconfig_path=str(embedded_cluster.kubeconfig), context="admin", now=NOW
    )
    with pytest.raises(classes.UnableToChangeClass) as caught:
        classes.create_class(cluster=cluster, name=name, wanted=wanted, actor=ada, now=NOW)
    assert caught.value.field == field


@pytest.mark.django_db
def test_a_field_that_the_cluster_drops_is_an_error_that_names_the_gate(ada: User, cluster: Cluster) -> None:
    created: list[Received] = []

    def script(request: Received) -> Reply:
        if request.method == "POST":
            created.append(request)
            body = request.json()
            body["spec"].pop("extendedResourceName")
            return Reply(status=201, body=body)
        if request.path.count("/") == 2:
            return Reply(body={"versions": [{"groupVersion": "resource.k8s.io/v1"}]})
        return Reply(body={"resources": [{"name": "deviceclasses", "kind": "DeviceClass"}]})

    with scripted(script) as server:
        from inventory import sealing

        cluster.credentials = Cluster.Credentials.STORED
        cluster.kubeconfig_encrypted = sealing.seal(server.kubeconfig())
        wanted = classes.Wanted([IS_GPU], extended_resource_name="example.com/gpu")
        with pytest.raises(classes.UnableToChangeClass, match="DRAExtendedResource") as caught:
            classes.create_class(cluster=cluster, name="mine", wanted=wanted, actor=ada, now=NOW)
    assert caught.value.field == "extended_resource_name"
    assert [request.query for request in created] == [{"dryRun": "All"}], "only rehearsed"
