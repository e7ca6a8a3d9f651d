"""What the desk starts for people, as a cluster takes it: within the restricted level of Pod security, with
the claim, without a field dropped, and gone with its Pods when it is removed."""

import contextlib
import uuid

import pytest

from claims.launches.manifests import build
from claims.models import LaunchTemplate
from claims.requests import submission
from claims.requests.manifests import Manifest, Owner
from claims.requests.snippets import Use
from portal.kube.errors import NotFound
from portal.kube.resources import JOBS, NAMESPACES, PODS
from tests.contract import objects
from tests.contract.room import SERVICE_ACCOUNTS, Room

SHAPES = ("claim", "template", "entitlement")


def launch_template(kind: str) -> LaunchTemplate:
    return LaunchTemplate(
        slug="train", name="Train", kind=kind, image="registry.k8s.io/pause:3.10", command=["/pause"],
        args=["$(EPOCHS)"], env={"DATA": "/scratch/$(EPOCHS)", "EMPTY": ""}, cpu="100m", memory="64Mi",
        volumes=[{"path": "/scratch", "size": "1Gi"}, {"path": "/data", "claim": "some-data"}],
        port=8888 if kind == "notebook" else None, user_id=1000,
    )  # fmt: skip


def built(room: Room, kind: str, shape: str) -> Manifest:
    use = Use(
        object_name="tides-0a1b2c3d",
        namespace=room.namespace,
        shape=shape,
        key=str(uuid.uuid4()),
        resource=f"{room.driver}/unit",
        tolerations=[{"key": "gpu", "operator": "Exists"}],
    )
    owner = Owner(key=use.key, project="tides", requester="mina", purpose="tides, 潮汐")
    return build(
        launch_template(kind), use=use, owner=owner, key=str(uuid.uuid4()), parameters={"EPOCHS": "$$1"}
    )


@pytest.mark.parametrize("kind", ["job", "notebook"])
@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_taken_where_pod_security_is_enforced(room: Room, kind: str, shape: str) -> None:
    space = room.name("strict")
    labels = room.label | {"pod-security.kubernetes.io/enforce": "restricted"}
    room.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space, "labels": labels}}
    )
    manifest = built(room, kind, shape)
    manifest["metadata"]["namespace"] = space
    # Pod security judges a Job by a warning only: its Pod is what has to pass.
    pod = manifest if kind == "notebook" else _pod_of(manifest)
    room.wait_for(lambda: _account(room, space), "the ServiceAccount default")
    for resource, body in ((JOBS if kind == "job" else PODS, manifest), (PODS, pod)):
        answer = room.client.create(resource, body, namespace=space, dry_run=True)
        assert list(submission.dropped_fields(body, answer)) == []


def test_a_job_goes_with_its_pods(room: Room) -> None:
    room.claim("tides-0a1b2c3d", objects.request(room.machine("gpu-0")))
    manifest = built(room, "job", "claim")
    name = manifest["metadata"]["name"]
    room.create(JOBS, manifest)
    room.wait_for(lambda: _pods(room, name), "the Pod of the Job")
    room.client.delete(JOBS, name, namespace=room.namespace)
    room.wait_for(lambda: not _pods(room, name), "no Pod any more")
    room.wait_for(lambda: room.find(JOBS, name) is None, "no Job any more")


def _account(room: Room, namespace: str) -> bool:
    with contextlib.suppress(NotFound):
        return bool(room.client.get(SERVICE_ACCOUNTS, "default", namespace=namespace))
    return False


def _pod_of(job: Manifest) -> Manifest:
    template = job["spec"]["template"]
    metadata = template["metadata"] | {
        "name": job["metadata"]["name"],
        "namespace": job["metadata"]["namespace"],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def _pods(room: Room, job: str) -> int:
    wanted = f"batch.kubernetes.io/job-name={job}"
    pages = room.client.list_pages(PODS, namespace=room.namespace, label_selector=wanted)
    return sum(len(page.items) for page in pages)
