"""The embedded cluster's table of what is accepted and refused, replayed on the cluster under test.

Everything is sent as a dry-run; only the objects that a change is tried on are made, and deleted again.
"""

import re
from collections.abc import Iterator
from copy import deepcopy

import msgspec
import pytest

from portal.kube.client import Client, Request
from portal.kube.errors import ApiStatusError, Invalid
from portal.kube.resources import Resource
from tests.contract.gates import is_on
from tests.contract.objects import Object
from tests.contract.room import Room
from tests.demo.validation_cases import CASES, Case

PLACEHOLDER = "validation-case"
CLUSTER_WIDE = {"deviceclasses", "resourceslices", "namespaces"}
# These are on wherever v1 is served, and cannot be seen by a dry-run of a new object.
SETTLED_GATES = {"DRAResourceClaimDeviceStatus"}


@pytest.fixture
def case(request: pytest.FixtureRequest, client: Client, is_real: bool) -> Case:
    """The case, unless it hangs on a gate that a real cluster has off."""
    found: Case = request.param
    if is_real and found.gate and found.gate not in SETTLED_GATES and not is_on(client, found.gate):
        pytest.skip(f"the cluster's API server has {found.gate} off")
    return found


def settled(case: Case, obj: Object, room: Room) -> Object:
    """The object under a name that is ours, and out of reach of other people's nodes."""
    body = deepcopy(obj)
    if case.resource in CLUSTER_WIDE and body["metadata"].get("name") == PLACEHOLDER:
        body["metadata"]["name"] = room.name("case")
    if case.resource == "pods" and isinstance(body.get("spec"), dict):
        body["spec"]["nodeSelector"] = dict(room.label)
    return body


@pytest.fixture
def before(case: Case, shared_room: Room) -> Iterator[Object | None]:
    """The object that is to be changed, for as long as the case lasts."""
    if case.before is None:
        yield None
        return
    body = settled(case, case.before, shared_room)
    resource = Resource(body["apiVersion"], case.resource, namespaced=case.resource not in CLUSTER_WIDE)
    made = shared_room.create(resource, body)
    yield made
    shared_room.client.delete(
        resource, made["metadata"]["name"], namespace=shared_room.namespace, grace_period_seconds=0
    )
    shared_room.until_gone(resource, made["metadata"]["name"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.resource}: {case.name}", indirect=True)
def test_the_table_holds(case: Case, before: Object | None, shared_room: Room, is_real: bool) -> None:
    body = settled(case, case.obj, shared_room)
    collection = case.collection(shared_room.namespace)
    method, path = {
        "create": ("POST", collection),
        "update": ("PUT", f"{collection}/{body['metadata'].get('name')}"),
        "update_status": ("PUT", f"{collection}/{body['metadata'].get('name')}/status"),
    }[case.verb]
    request = Request(method, path, {"dryRun": "All"}, msgspec.json.encode(body))
    if case.code < 400:
        assert shared_room.client.send(request).status == case.code
        return
    with pytest.raises(ApiStatusError) as refused:
        shared_room.client.send(request)
    assert refused.value.status == case.code, refused.value.message
    if case.fields is not None:
        assert isinstance(refused.value, Invalid)
        named = {cause.field for cause in refused.value.causes}
        if is_real:
            missed = {field for field in case.fields if not any(points_at(said, field) for said in named)}
            assert not missed, f"{refused.value.message}; named: {named}"
        else:
            assert named == case.fields, refused.value.message


def points_at(said: str, field: str) -> bool:
    """Whether a cause leads people to the field. Releases differ in how near they come (a wrong key of a map
    is reported at the key or at the map), and in what else they say of the same object."""
    around = re.sub(r"(\.[^.\[\]]+|\[[^\[\]]*\])$", "", field)
    return said in (field, around) or said.startswith((f"{field}.", f"{field}["))
