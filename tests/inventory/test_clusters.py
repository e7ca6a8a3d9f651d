"""Adding a cluster: it answers first, or the message says at which field the fault is."""

from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from inventory import bindings, clusters, sealing
from inventory.models import Cluster, Node
from portal.accounts.models import AuditEntry, Project
from portal.kube import errors
from tests.inventory.conftest import NOW
from tests.inventory.mini import Mini, mini_cluster
from tests.inventory.objects import node
from tests.kube.scripted import Reply, ScriptedServer, status

pytestmark = pytest.mark.django_db


@pytest.fixture
def there() -> Iterator[tuple[Mini, ScriptedServer]]:
    with mini_cluster() as found:
        yield found


def kubeconfig(server: ScriptedServer, tmp_path: Path) -> str:
    path = tmp_path / "kubeconfig"
    path.write_text(server.kubeconfig())
    return str(path)


def refused(*, name: str = "alpha", **arguments: Any) -> tuple[str, str]:
    with pytest.raises(clusters.UnableToAddCluster) as caught:
        clusters.add(name=name, now=NOW, **arguments)
    assert Cluster.objects.count() == 0
    return caught.value.field, caught.value.message


def test_a_cluster_tells_what_it_is_when_it_is_added(
    there: tuple[Mini, ScriptedServer], tmp_path: Path
) -> None:
    _, server = there
    path = kubeconfig(server, tmp_path)
    cluster = clusters.add(name="alpha", kubeconfig_path=path, region="north", now=NOW)
    assert (cluster.api_url, cluster.server_version, cluster.region) == (server.url, "v1.36.2", "north")
    assert cluster.served["resourceslices"] == "resource.k8s.io/v1"
    assert cluster.missing_permissions == []


def test_a_cluster_is_not_followed_twice(
    there: tuple[Mini, ScriptedServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = kubeconfig(there[1], tmp_path)
    monkeypatch.setattr(clusters, "_uid", lambda _client: "one-and-the-same")
    clusters.add(name="alpha", kubeconfig_path=path, now=NOW)
    with pytest.raises(clusters.UnableToAddCluster, match="followed already, as “alpha”"):
        clusters.add(name="beta", kubeconfig_path=path, now=NOW)
    assert [cluster.name for cluster in Cluster.objects.all()] == ["alpha"]


def test_a_stored_kubeconfig_is_encrypted_and_works(there: tuple[Mini, ScriptedServer]) -> None:
    _, server = there
    text = server.kubeconfig(token="very-secret")
    cluster = clusters.add(name="alpha", kubeconfig_text=text, now=NOW)
    stored = bytes(Cluster.objects.get().kubeconfig_encrypted or b"")
    assert b"very-secret" not in stored
    assert sealing.unseal(stored) == text
    with clusters.client_for(cluster) as client:
        assert client.version() == {"gitVersion": "v1.36.2"}


def test_keys_can_be_rotated(settings: Settings) -> None:
    from cryptography.fernet import Fernet

    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    settings.CREDENTIAL_KEYS = [old]
    sealed = sealing.seal("text")
    settings.CREDENTIAL_KEYS = [new, old]
    assert sealing.unseal(sealed) == "text"
    settings.CREDENTIAL_KEYS = [new]
    with pytest.raises(errors.BadCredentials, match="cannot be decrypted"):
        sealing.unseal(sealed)


@pytest.mark.parametrize("name", ["", "Alpha", "-a", "a-", "a b", "a" * 64, "ä", "a\n"])
def test_a_name_must_be_one(name: str) -> None:
    assert refused(name=name)[0] == "name"


def test_what_cannot_be_reached_is_not_added(tmp_path: Path) -> None:
    with mini_cluster() as (_, server):
        path = kubeconfig(server, tmp_path)
    field, message = refused(kubeconfig_path=path)
    assert field == "kubeconfig_path"
    assert "refused" in message


def test_a_refused_token_is_said_at_the_kubeconfig(
    there: tuple[Mini, ScriptedServer], tmp_path: Path
) -> None:
    mini, server = there
    mini.everything = Reply(status=401, body=status(401, "Unauthorized", "Unauthorized"))
    field, message = refused(kubeconfig_text=server.kubeconfig())
    assert field == "kubeconfig_text"
    assert "refuses the credentials" in message


def test_an_unknown_context_is_said_at_the_context(
    there: tuple[Mini, ScriptedServer], tmp_path: Path
) -> None:
    field, message = refused(kubeconfig_path=kubeconfig(there[1], tmp_path), context="nowhere")
    assert field == "context"
    assert "main" in message


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"kubeconfig_text": "a: [", "context": ""}, "kubeconfig_text"),
        ({"kubeconfig_path": "/nowhere/at-all"}, "kubeconfig_path"),
        ({"kubeconfig_path": "/x", "kubeconfig_text": "y"}, "kubeconfig_text"),
        ({"kubeconfig_path": "x" * 2000}, "kubeconfig_path"),
        ({"region": "r" * 64}, "region"),
        ({}, ""),
    ],
)
def test_bad_input_is_said_at_its_field(arguments: dict[str, str], field: str) -> None:
    assert refused(**arguments)[0] == field


def test_without_a_key_nothing_is_stored_in_the_clear(
    there: tuple[Mini, ScriptedServer], settings: Settings
) -> None:
    settings.CREDENTIAL_KEYS = []
    field, message = refused(kubeconfig_text=there[1].kubeconfig())
    assert field == "kubeconfig_text"
    assert "CLAIMDESK_CREDENTIAL_KEYS" in message


def test_rights_that_are_missing_are_listed(there: tuple[Mini, ScriptedServer], tmp_path: Path) -> None:
    mini, server = there
    usual = mini.__call__

    def without_pods(request: Any) -> Reply:
        if request.path.endswith("selfsubjectaccessreviews"):
            asked = request.json()["spec"]["resourceAttributes"]
            return Reply(status=201, body={"status": {"allowed": asked["resource"] != "pods"}})
        return usual(request)

    server.script = without_pods
    cluster = clusters.add(name="alpha", kubeconfig_path=kubeconfig(server, tmp_path), now=NOW)
    assert cluster.missing_permissions == ["list pods", "watch pods"]


def test_the_right_to_write_is_asked_for_in_the_namespaces_of_projects(
    there: tuple[Mini, ScriptedServer], tmp_path: Path
) -> None:
    mini, server = there
    usual = mini.__call__

    def bound_in_one_namespace(request: Any) -> Reply:
        if request.path.endswith("selfsubjectaccessreviews"):
            asked = request.json()["spec"]["resourceAttributes"]
            allowed = asked["verb"] in ("list", "watch") or asked.get("namespace") == "folding"
            return Reply(status=201, body={"status": {"allowed": allowed}})
        return usual(request)

    server.script = bound_in_one_namespace
    cluster = clusters.add(name="alpha", kubeconfig_path=kubeconfig(server, tmp_path), now=NOW)
    assert cluster.missing_permissions == []
    project = Project.objects.create(name="Folding", slug="folding", created_at=NOW)
    bindings.bind(cluster=cluster, namespace="folding", project=project, now=NOW)
    clusters.connect(cluster=cluster, now=NOW)
    assert cluster.missing_permissions == []
    bindings.bind(cluster=cluster, namespace="weather", project=project, now=NOW)
    clusters.connect(cluster=cluster, now=NOW)
    assert cluster.missing_permissions == [
        "create resourceclaims in weather",
        "create resourceclaimtemplates in weather",
        "create pods in weather",
    ]


def test_a_cluster_with_history_stays(cluster: Cluster) -> None:
    from claims.models import Allocation

    Allocation.objects.create(
        cluster=cluster, namespace="ns", claim_name="c", claim_uid="u", epoch=1, driver="d", pool_name="p",
        device_name="x", request_name="r", started_at=NOW, start_source="observed",
    )  # fmt: skip
    with pytest.raises(clusters.UnableToRemoveCluster, match="Disable it"):
        clusters.remove(cluster=cluster, now=NOW)
    assert Cluster.objects.count() == 1


# --- the command --------------------------------------------------------------------------------------


def command(*arguments: str) -> str:
    out = StringIO()
    call_command("cluster", *arguments, stdout=out)
    return out.getvalue()


def test_the_command_adds_lists_checks_and_removes(
    there: tuple[Mini, ScriptedServer], tmp_path: Path
) -> None:
    _, server = there
    path = kubeconfig(server, tmp_path)
    assert server.url in command("add", "alpha", "--kubeconfig", path)
    assert "alpha  syncing  v1.36.2" in command("list")
    assert "v1.36.2" in command("check", "alpha")
    command("sync", "alpha")
    assert Cluster.objects.get().relist_requested_at is not None
    assert "forgotten" in command("remove", "alpha")
    assert Cluster.objects.count() == 0


def test_the_command_can_keep_the_kubeconfig_itself(
    there: tuple[Mini, ScriptedServer], tmp_path: Path
) -> None:
    command("add", "alpha", "--kubeconfig", kubeconfig(there[1], tmp_path), "--store")
    cluster = Cluster.objects.get()
    assert (cluster.credentials, cluster.kubeconfig_path) == (Cluster.Credentials.STORED, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("add", "alpha", "--kubeconfig", "/nowhere/at-all"),
        ("add", "alpha", "--kubeconfig", "/nowhere/at-all", "--store"),
        ("add", "alpha", "--store"),
        ("check", "alpha"),
        ("remove", "alpha"),
    ],
)
def test_the_command_says_what_is_wrong(arguments: tuple[str, ...]) -> None:
    with pytest.raises(
        CommandError, match=r"no kubeconfig file|cannot be read|needs --kubeconfig|no cluster alpha"
    ):
        command(*arguments)


def test_a_check_that_fails_shows_on_the_cluster(there: tuple[Mini, ScriptedServer], tmp_path: Path) -> None:
    mini, server = there
    command("add", "alpha", "--kubeconfig", kubeconfig(server, tmp_path))
    mini.everything = Reply(status=401, body=status(401, "Unauthorized", "Unauthorized"))
    with pytest.raises(CommandError, match="refuses the credentials"):
        command("check", "alpha")
    assert Cluster.objects.get().state == Cluster.State.REFUSED


def test_removing_a_cluster_removes_its_mirror(there: tuple[Mini, ScriptedServer], tmp_path: Path) -> None:
    command("add", "alpha", "--kubeconfig", kubeconfig(there[1], tmp_path))
    cluster = Cluster.objects.get()
    Node.objects.create(
        cluster=cluster,
        name=node()["metadata"]["name"],
        uid="u",
        resource_version="1",
        ready=True,
        unschedulable=False,
    )
    clusters.remove(cluster=cluster, now=NOW)
    assert Node.objects.count() == 0


def test_what_is_done_to_a_cluster_from_a_shell_is_recorded(
    there: tuple[Mini, ScriptedServer], tmp_path: Path
) -> None:
    call_command("cluster", "add", "alpha", "--kubeconfig", kubeconfig(there[1], tmp_path), stdout=StringIO())
    call_command("cluster", "sync", "alpha", stdout=StringIO())
    call_command("cluster", "remove", "alpha", stdout=StringIO())

    entries = list(AuditEntry.objects.order_by("pk"))
    assert [entry.action for entry in entries] == ["cluster.add", "cluster.sync", "cluster.remove"]
    assert {(entry.target_name, entry.actor) for entry in entries} == {("alpha", None)}
    assert "token" not in str(AuditEntry.objects.values_list("before", "after"))
