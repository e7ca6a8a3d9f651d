"""`deploy/rbac.yaml` gives the desk's account what the desk does on a cluster, and nothing else."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings

from portal.kube.resources import (
    DEVICE_CLASSES,
    EVENTS,
    JOBS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)

DOCUMENTS = list(yaml.safe_load_all(Path(settings.BASE_DIR, "deploy", "rbac.yaml").read_text()))
ROLES = {
    document["metadata"]["name"]: document for document in DOCUMENTS if document["kind"] == "ClusterRole"
}


def verbs(role: str, resource: Resource) -> set[str]:
    group = resource.api_version.rpartition("/")[0]
    rules: list[dict[str, Any]] = ROLES[role]["rules"]
    return {
        verb
        for rule in rules
        if group in rule["apiGroups"] and resource.plural in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("resource", [RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES, PODS, JOBS])
def test_what_the_desk_makes_it_may_read_create_and_delete(resource: Resource) -> None:
    assert {"get", "list", "watch"} <= verbs("claimdesk-read", resource)
    assert verbs("claimdesk-write", resource) == {"create", "delete"}


@pytest.mark.parametrize("resource", [RESOURCE_SLICES, EVENTS])
def test_what_it_only_looks_at_it_cannot_write(resource: Resource) -> None:
    assert verbs("claimdesk-write", resource) == set()


def test_classes_may_be_changed() -> None:
    assert {"create", "update", "delete"} <= verbs("claimdesk-write", DEVICE_CLASSES)


@pytest.mark.parametrize("role", sorted(ROLES))
def test_nothing_is_given_wholesale(role: str) -> None:
    for rule in ROLES[role]["rules"]:
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        assert not {"secrets", "pods/exec", "pods/log", "serviceaccounts"} & set(rule["resources"])
        assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])
