"""The account that ``deploy/cluster`` makes: put on a cluster in order, used, and taken off again."""

import json
from pathlib import Path
from typing import Any, cast

import yaml

from portal.kube.client import Answer, Client, Request
from portal.kube.config import Credentials
from portal.kube.errors import NotFound
from portal.kube.resources import NAMESPACES, NODES, Resource
from tests.contract.room import Room
from tests.contract.shipped import shipped_account
from tests.smoke import is_allowed, refused


class Remembering:
    """A client that stores what it is given, as far as an account needs it."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def get(self, resource: Resource, name: str, *, namespace: str = "") -> dict[str, Any]:
        try:
            return self.objects[resource.plural, namespace, name]
        except KeyError:
            raise NotFound("not found", status=404) from None

    def apply(
        self, resource: Resource, name: str, body: dict[str, Any], *, namespace: str = "", **_more: Any
    ) -> dict[str, Any]:
        assert resource.namespaced == bool(namespace)
        assert (
            not namespace
            or namespace in ("room", "kube-system")
            or ("namespaces", "", namespace) in self.objects
        )
        assert body["apiVersion"] == resource.api_version
        self.objects[resource.plural, namespace, name] = body
        return body

    def delete(self, resource: Resource, name: str, *, namespace: str = "") -> None:
        del self.objects[resource.plural, namespace, name]

    def send(self, request: Request) -> Answer:
        self.asked.append((request.path, json.loads(request.body or b"")))
        return Answer(status=201, body=json.dumps({"status": {"token": "t0ken"}}).encode(), date=None)


def test_the_account_is_made_with_its_rights_and_removed(tmp_path: Path) -> None:
    client = Remembering()
    admin = tmp_path / "admin.yaml"
    cluster = {"server": "https://127.0.0.1:1", "certificate-authority": "pki/ca.crt"}
    admin.write_text(
        yaml.safe_dump(
            {
                "current-context": "all",
                "contexts": [{"name": "all", "context": {"cluster": "c", "user": "root"}}],
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "root", "user": {"token": "secret"}}],
            }
        )
    )
    there = {"kind": "ClusterRole", "metadata": {"name": "claimdesk-read"}}
    client.objects["clusterroles", "", "claimdesk-read"] = there
    with shipped_account(
        cast("Client", client),
        kubeconfig=admin,
        namespace="room",
        directory=tmp_path,
    ) as kubeconfig:
        assert ("rolebindings", "room", "claimdesk-write") in client.objects
        assert ("validatingadmissionpolicybindings", "", "claimdesk-own-objects") in client.objects
        ((path, body),) = client.asked
        assert path == "/api/v1/namespaces/claimdesk/serviceaccounts/portal/token"
        assert body["kind"] == "TokenRequest"
        text = kubeconfig.read_text()
        assert "t0ken" in text
        assert "secret" not in text
        assert yaml.safe_load(text)["clusters"][0]["cluster"] == {
            "server": "https://127.0.0.1:1",
            "certificate-authority": str(tmp_path / "pki" / "ca.crt"),
        }
    assert list(client.objects) == [("clusterroles", "", "claimdesk-read")], "what was there before stays"


def test_the_account_reads_everything_and_writes_in_its_room_only(
    client: Client, kubeconfig: Path, room: Room, is_real: bool, tmp_path: Path
) -> None:
    def try_it(desk: Client) -> None:
        desk.list_all(NODES)
        if is_allowed(desk, "create", NODES):
            return
        assert refused(lambda: desk.create(NODES, {"metadata": {"name": room.name("x")}}))
        assert refused(lambda: desk.delete(NAMESPACES, room.namespace, dry_run=True))

    if not is_real:
        with Client(Credentials.from_kubeconfig(kubeconfig, context="portal")) as desk:
            try_it(desk)
            assert not is_allowed(desk, "create", NODES)
        return
    with (
        shipped_account(client, kubeconfig=kubeconfig, namespace=room.namespace, directory=tmp_path) as own,
        Client(Credentials.from_kubeconfig(own)) as desk,
    ):
        try_it(desk)
