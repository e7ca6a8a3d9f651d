"""The official Kubernetes client takes the embedded cluster for a real one."""

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client, watch

from tests.demo.api import PODS, TOKENS, Api, claim, pod, serving


@pytest.fixture
def connected() -> Iterator[tuple[Api, Any]]:
    with serving() as api:
        configuration = client.Configuration(host=api.url)
        configuration.api_key = {"authorization": TOKENS["admin"]}
        configuration.api_key_prefix = {"authorization": "Bearer"}
        with client.ApiClient(configuration) as api_client:
            yield api, api_client


def test_list_create_and_delete(connected: tuple[Api, Any]) -> None:
    _, api_client = connected
    resources: Any = client.ResourceV1Api(api_client)
    made = resources.create_namespaced_resource_claim("lab", claim())
    assert made.spec.devices.requests[0].exactly.count == 1
    listed = resources.list_namespaced_resource_claim("lab", limit=1)
    assert [item.metadata.name for item in listed.items] == ["one"]
    resources.delete_namespaced_resource_claim("one", "lab")
    assert resources.list_resource_claim_for_all_namespaces().items == []


def test_a_watch_with_the_client(connected: tuple[Api, Any]) -> None:
    api, api_client = connected
    core: Any = client.CoreV1Api(api_client)
    start = core.list_namespaced_pod("lab").metadata.resource_version
    api.ok("POST", PODS, pod("two"))
    stream = watch.Watch().stream(core.list_namespaced_pod, "lab", resource_version=start, timeout_seconds=5)
    event = next(iter(stream))
    stream.close()
    assert (event["type"], event["object"].metadata.name) == ("ADDED", "two")


def test_errors_come_as_the_client_expects_them(connected: tuple[Api, Any]) -> None:
    _, api_client = connected
    with pytest.raises(client.ApiException) as refusal:
        client.CoreV1Api(api_client).read_namespaced_pod("none", "lab")
    assert (refusal.value.status, refusal.value.reason) == (404, "Not Found")


def test_typed_lists_of_what_every_cluster_has(connected: tuple[Api, Any]) -> None:
    _, api_client = connected
    core: Any = client.CoreV1Api(api_client)
    assert "lab" in {item.metadata.name for item in core.list_namespace().items}
    accounts = core.list_namespaced_service_account("lab")
    assert [item.metadata.name for item in accounts.items] == ["default"]
    assert client.VersionApi(api_client).get_code().minor == "36"
