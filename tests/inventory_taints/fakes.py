"""A cluster in a dictionary that serves DeviceTaintRules, and versions what is written."""

import itertools
from collections.abc import Mapping
from typing import Any

from inventory.models import Cluster, DeviceTaintRule
from portal.kube import errors
from portal.kube.resources import DEVICE_TAINT_RULES, Resource
from tests.claims.fakes import FakeCluster

RULES = DEVICE_TAINT_RULES.plural


class RuleCluster(FakeCluster):
    """`rules` by name; a rehearsal changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._versions = itertools.count(100)

    @property
    def rules(self) -> dict[str, dict[str, Any]]:
        return {name: body for (plural, _space, name), body in self.objects.items() if plural == RULES}

    @property
    def effects(self) -> dict[str, str]:
        return {name: body["spec"]["taint"]["effect"] for name, body in self.rules.items()}

    def served(self, group: str) -> dict[str, dict[str, Resource]]:
        found = {DEVICE_TAINT_RULES.api_version: {RULES: DEVICE_TAINT_RULES}}
        return found if group == DEVICE_TAINT_RULES.group else {}

    def create(
        self, resource: Resource, body: Mapping[str, Any], *, namespace: str = "", dry_run: bool = False
    ) -> dict[str, Any]:
        made = super().create(resource, body, namespace=namespace, dry_run=dry_run)
        if not dry_run:
            self._stamp(resource, body["metadata"]["name"])
        return made

    def replace(
        self,
        resource: Resource,
        name: str,
        body: Mapping[str, Any],
        *,
        namespace: str = "",
        dry_run: bool = False,
    ) -> dict[str, Any]:
        current = self.get(resource, name, namespace=namespace)
        self._call("replace", resource, name, dry_run=dry_run)
        if body["metadata"].get("resourceVersion") != current["metadata"]["resourceVersion"]:
            raise errors.Conflict("the object has been modified", status=409)
        if not dry_run:
            self.objects[resource.plural, namespace, name] = dict(body)
            self._stamp(resource, name)
        return dict(body)

    def delete(self, resource: Resource, name: str, **options: Any) -> dict[str, Any]:
        if options.get("dry_run"):
            self._call("delete", resource, name, dry_run=True)
            return self.get(resource, name)
        return super().delete(resource, name, **options)

    def _stamp(self, resource: Resource, name: str) -> None:
        metadata = self.objects[resource.plural, "", name]["metadata"]
        self.objects[resource.plural, "", name]["metadata"] = {
            **metadata,
            "resourceVersion": str(next(self._versions)),
        }


def mirror_rules(cluster: Cluster, fake: RuleCluster) -> None:
    """The mirror follows: its rules are those of the cluster."""
    DeviceTaintRule.objects.filter(cluster=cluster).delete()
    for name, body in fake.rules.items():
        selector, taint = body["spec"]["deviceSelector"], body["spec"]["taint"]
        DeviceTaintRule.objects.create(
            cluster=cluster, name=name, uid=body["metadata"]["uid"], selects=True, effect=taint["effect"],
            resource_version=body["metadata"]["resourceVersion"], driver=selector.get("driver", ""),
            pool_name=selector.get("pool", ""), device_name=selector.get("device", ""), key=taint["key"],
            value=taint.get("value", ""), spec=body["spec"], labels=body["metadata"].get("labels", {}),
            made_by="claimdesk",
        )  # fmt: skip
