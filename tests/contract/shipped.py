"""The account that ``deploy/cluster`` gives the desk on a real cluster: made for a run, and removed after it.

Only a real API server has service accounts, roles and admission policies; the embedded cluster has an account
with the same rights instead (its kubeconfig's context ``portal``).
"""

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from portal.env import BASE_DIR
from portal.kube.client import Client, Request
from portal.kube.errors import Conflict, NotFound
from portal.kube.resources import NAMESPACES, Resource

MANIFESTS = BASE_DIR / "deploy" / "cluster"
MANAGER = "claimdesk-contract"
TOKEN_SECONDS = 7200
GONE_SECONDS = 90.0
RBAC, ADMISSION = "rbac.authorization.k8s.io/v1", "admissionregistration.k8s.io/v1"
KINDS = {
    resource.kind: resource
    for resource in (
        NAMESPACES,
        Resource("v1", "serviceaccounts", namespaced=True, kind="ServiceAccount"),
        Resource(RBAC, "clusterroles", namespaced=False, kind="ClusterRole"),
        Resource(RBAC, "clusterrolebindings", namespaced=False, kind="ClusterRoleBinding"),
        Resource(RBAC, "roles", namespaced=True, kind="Role"),
        Resource(RBAC, "rolebindings", namespaced=True, kind="RoleBinding"),
        Resource(
            ADMISSION, "validatingadmissionpolicies", namespaced=False, kind="ValidatingAdmissionPolicy"
        ),
        Resource(
            ADMISSION,
            "validatingadmissionpolicybindings",
            namespaced=False,
            kind="ValidatingAdmissionPolicyBinding",
        ),
    )
}


def documents(name: str) -> list[dict[str, Any]]:
    """The objects of one of the kustomizations in ``deploy/cluster``, in the order of its resources."""
    directory = MANIFESTS / name
    listed = yaml.safe_load((directory / "kustomization.yaml").read_text())["resources"]
    return [found for file in listed for found in yaml.safe_load_all((directory / file).read_text())]


@contextlib.contextmanager
def shipped_account(client: Client, *, kubeconfig: Path, namespace: str, directory: Path) -> Iterator[Path]:
    """A kubeconfig (in ``directory``) of the desk's account, with the right to write in ``namespace``.

    ``client`` and the current context of ``kubeconfig`` may do everything. What was there before stays.
    """
    made: list[tuple[Resource, str, str]] = []
    try:
        for document, into in (
            *((document, "") for document in documents("base")),
            *((document, namespace) for document in documents("namespace")),
        ):
            resource = KINDS[document["kind"]]
            name = document["metadata"]["name"]
            space = (into or document["metadata"].get("namespace", "")) if resource.namespaced else ""
            there = _present(client, resource, name, space)
            if not there:
                made.append((resource, name, space))
            client.apply(resource, name, document, namespace=space, field_manager=MANAGER, force=True)
        account = next(d["metadata"] for d in documents("base") if d["kind"] == "ServiceAccount")
        yield _kubeconfig_of(account, client=client, kubeconfig=kubeconfig, directory=directory)
    finally:
        for resource, name, space in reversed(made):
            with contextlib.suppress(NotFound, Conflict):
                client.delete(resource, name, namespace=space)
        for resource, name, space in made:
            deadline = time.monotonic() + GONE_SECONDS
            while resource is NAMESPACES and _present(client, resource, name, space):
                if time.monotonic() > deadline:
                    raise AssertionError(f"namespace {name} is still there after {GONE_SECONDS:.0f} s")
                time.sleep(0.2)


def _present(client: Client, resource: Resource, name: str, namespace: str) -> bool:
    """Whether an object is there to stay; one that is going is waited for."""
    deadline = time.monotonic() + GONE_SECONDS
    while True:
        try:
            found = client.get(resource, name, namespace=namespace)
        except NotFound:
            return False
        if not found["metadata"].get("deletionTimestamp") or time.monotonic() > deadline:
            return True
        time.sleep(0.2)


def _kubeconfig_of(account: Mapping[str, str], *, client: Client, kubeconfig: Path, directory: Path) -> Path:
    name, namespace = account["name"], account["namespace"]
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    }
    path = KINDS["ServiceAccount"].path(namespace=namespace, name=name, subresource="token")
    answer = client.send(Request("POST", path, body=json.dumps(body).encode())).json()
    given = yaml.safe_load(kubeconfig.read_text())
    contexts = {entry["name"]: entry["context"] for entry in given["contexts"]}
    wanted = contexts[given["current-context"]]["cluster"]
    cluster = next(dict(entry["cluster"]) for entry in given["clusters"] if entry["name"] == wanted)
    if authority := cluster.get("certificate-authority"):
        cluster["certificate-authority"] = str((kubeconfig.parent / authority).resolve())
    written = directory / "shipped-account.yaml"
    written.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "cluster", "cluster": cluster}],
                "users": [{"name": name, "user": {"token": answer["status"]["token"]}}],
                "contexts": [{"name": name, "context": {"cluster": "cluster", "user": name}}],
                "current-context": name,
            }
        )
    )
    written.chmod(0o600)
    return written
