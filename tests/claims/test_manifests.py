"""What the desk writes to a cluster."""

import re

import pytest
import yaml

from claims.requests import manifests, snippets
from claims.requests.manifests import Owner, Wish
from portal.dra.cel import DeviceView, compile_selector
from portal.dra.quantity import Quantity


def device(driver: str, memory: str | None) -> DeviceView:
    capacities = {"memory": Quantity.parse(memory)} if memory else {}
    return DeviceView(driver=driver, attributes={}, capacities=capacities)


OWNER = Owner(
    key="7f3c9a1e-0000-4000-8000-000000000000",
    project="protein-folding",
    requester="rhea",
    cost_centre="4711",
    purpose="Fold\nproteins",
)


def test_a_claim_asks_for_an_exact_count_and_says_who_asked() -> None:
    spec = manifests.claim_spec(Wish(device_class="gpu.nvidia.com", count=2))
    assert manifests.claim(name="c", namespace="ns", owner=OWNER, spec=spec) == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": "c",
            "namespace": "ns",
            "labels": {
                "app.kubernetes.io/managed-by": "claimdesk",
                "claimdesk.io/request": OWNER.key,
                "claimdesk.io/project": "protein-folding",
            },
            "annotations": {
                "claimdesk.io/requester": "rhea",
                "claimdesk.io/cost-centre": "4711",
                "claimdesk.io/purpose": "Fold\nproteins",
            },
        },
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": "accelerator",
                        "exactly": {
                            "deviceClassName": "gpu.nvidia.com",
                            "allocationMode": "ExactCount",
                            "count": 2,
                        },
                    }
                ]
            }
        },
    }


def test_a_template_gives_its_claims_the_same_labels() -> None:
    spec = manifests.claim_spec(Wish(device_class="gpu", count=1))
    template = manifests.claim_template(name="c", namespace="ns", owner=OWNER, spec=spec)
    assert template["spec"]["metadata"]["labels"] == template["metadata"]["labels"]
    assert template["spec"]["spec"] == spec


def test_memory_is_asked_under_the_domain_of_the_devices_and_guarded() -> None:
    assert manifests.memory_expression("40Gi", ["gpu.nvidia.com"]) == (
        '"memory" in device.capacity["gpu.nvidia.com"] && '
        'device.capacity["gpu.nvidia.com"]["memory"].compareTo(quantity("40Gi")) >= 0'
    )


def test_memory_of_several_drivers_is_an_alternative_per_domain() -> None:
    expression = manifests.memory_expression("40Gi", ["b.example", "a.example", "b.example"])
    assert expression.count("||") == 1
    assert expression.index("a.example") < expression.index("b.example")


@pytest.mark.parametrize("domains", [[], ["gpu.nvidia.com"], ["gpu.amd.com", "gpu.nvidia.com"]])
def test_memory_expressions_compile(domains: list[str]) -> None:
    expression = manifests.memory_expression("40Gi", domains)
    selector = compile_selector(expression, features=frozenset(), enforce_estimate=True)
    assert selector.evaluate(device("gpu.nvidia.com", "40Gi")) is True
    assert selector.evaluate(device("gpu.nvidia.com", "39Gi")) is False
    assert selector.evaluate(device("gpu.nvidia.com", None)) is False


def test_the_hold_pod_passes_the_restricted_level_and_keeps_one_claim() -> None:
    pod = manifests.hold_pod(claim_name="c", namespace="ns", owner=OWNER, image="example.org/pause:1")
    spec = pod["spec"]
    assert pod["metadata"]["name"] == "c-hold"
    assert spec["restartPolicy"] == "Always"
    assert spec["automountServiceAccountToken"] is False
    assert "tolerations" not in spec
    assert spec["terminationGracePeriodSeconds"] > 0
    assert spec["resourceClaims"] == [{"name": "accelerator", "resourceClaimName": "c"}]
    (container,) = spec["containers"]
    assert container["image"] == "example.org/pause:1"
    assert container["resources"]["claims"] == [{"name": "accelerator"}]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


@pytest.mark.parametrize(
    ("shape", "key"), [("claim", "resourceClaimName"), ("template", "resourceClaimTemplateName")]
)
def test_the_snippet_names_the_object_by_its_shape(shape: str, key: str) -> None:
    use = snippets.Use(object_name="folding-7f3c9a1e", namespace="ns", shape=shape)
    snippet = yaml.safe_load(snippets.lines(use))
    assert snippet["spec"]["resourceClaims"] == [{"name": "accelerator", key: "folding-7f3c9a1e"}]
    example = snippets.pod(use)
    assert example["spec"]["resourceClaims"] == snippet["spec"]["resourceClaims"]


@pytest.mark.parametrize(
    ("project", "expected"),
    [
        ("protein-folding", "protein-folding-7f3c9a1e"),
        ("Under_Score", "under-score-7f3c9a1e"),
        ("42", "p-42-7f3c9a1e"),
        ("-_-", "p-7f3c9a1e"),
        ("x" * 50, "x" * 41 + "-7f3c9a1e"),
    ],
)
def test_object_names_are_dns_labels_and_always_the_same(project: str, expected: str) -> None:
    name = manifests.object_name(project=project, key=OWNER.key)
    assert name == expected
    assert re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", manifests.hold_name(name))
    assert len(manifests.hold_name(name)) <= 63


def test_older_versions_of_the_api_get_their_own_shape() -> None:
    spec = manifests.claim_spec(Wish(device_class="gpu", count=1))
    claim = manifests.claim(name="c", namespace="ns", owner=OWNER, spec=spec)
    template = manifests.claim_template(name="c", namespace="ns", owner=OWNER, spec=spec)
    flat = [{"name": "accelerator", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}]

    beta = manifests.for_version(claim, "resource.k8s.io/v1beta1")
    assert beta["apiVersion"] == "resource.k8s.io/v1beta1"
    assert beta["spec"]["devices"]["requests"] == flat
    beta = manifests.for_version(template, "resource.k8s.io/v1beta1")
    assert beta["spec"]["spec"]["devices"]["requests"] == flat
    assert manifests.for_version(claim, "resource.k8s.io/v1beta2")["spec"] == claim["spec"]
    assert manifests.for_version(claim, "resource.k8s.io/v1") == claim
