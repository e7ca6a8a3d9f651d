"""A cluster in a dictionary that lives: Pods are placed and end, claims are allocated and freed, what is in
use outlives its deletion. And the moments at which a worker of the desk can die, or be overtaken."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

from django.db import transaction
from django.db.models import QuerySet

from claims.requests.manifests import REQUEST_LABEL
from inventory.models import Claim, ClaimTemplate, Cluster, Pod, Stream
from portal.kube.resources import Resource
from tests.claims.fakes import FakeCluster

Object = dict[str, Any]
CLAIMS, TEMPLATES, PODS = "resourceclaims", "resourceclaimtemplates", "pods"
FINISHED = ("Succeeded", "Failed")


class Crash(BaseException):
    """The worker dies. No handler of the desk may catch it, hence no Exception."""


class Moments:
    """The moments between two steps of a worker: before and after each call of the cluster, each statement
    that commits by itself, and each commit. At one of them, counted from where it was armed, something
    happens."""

    def __init__(self) -> None:
        self.left = 0
        self.what: Callable[[], None] | None = None
        self.depth = 0

    @contextmanager
    def armed(self, what: Callable[[], None] | None, after: int) -> Iterator[None]:
        """Let `what` happen at the moment number `after` (0 = the first) of the body."""
        outer = self.what, self.left
        self.what, self.left = what, after
        try:
            yield
        finally:
            self.what, self.left = outer

    def pass_by(self) -> None:
        if self.what is None or self.depth:
            return
        if self.left:
            self.left -= 1
            return
        happens, self.what = self.what, None
        happens()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Statements and commits of the body are moments, too."""
        enter, leave = transaction.Atomic.__enter__, transaction.Atomic.__exit__
        update = QuerySet.update

        def entered(atomic: transaction.Atomic) -> None:
            if self.depth == 0:
                self.pass_by()
            enter(atomic)
            self.depth += 1

        def left(atomic: transaction.Atomic, *error: Any) -> None:
            # Whoever dies just before the commit has done nothing: as if before it began (see `entered`).
            self.depth -= 1
            leave(atomic, *error)
            if self.depth == 0 and error[0] is None:
                self.pass_by()

        def updated(rows: "QuerySet[Any]", **columns: Any) -> int:
            self.pass_by()
            changed: int = update(rows, **columns)
            self.pass_by()
            return changed

        with (
            patch.object(transaction.Atomic, "__enter__", entered),
            patch.object(transaction.Atomic, "__exit__", left),
            patch.object(QuerySet, "update", updated),
        ):
            yield


class LivingCluster(FakeCluster):
    """Has so many devices, of which each claim takes one."""

    def __init__(self, *classes: str, devices: int, moments: Moments) -> None:
        super().__init__(*classes)
        self.devices = devices
        self.moments = moments
        self.now = datetime.min.replace(tzinfo=UTC)

    # What the desk calls

    def get(self, resource: Resource, name: str, *, namespace: str = "") -> Object:
        self.moments.pass_by()
        found = super().get(resource, name, namespace=namespace)
        self.moments.pass_by()
        return found

    def create(
        self, resource: Resource, body: Mapping[str, Any], *, namespace: str = "", dry_run: bool = False
    ) -> Object:
        self.moments.pass_by()
        made = super().create(resource, body, namespace=namespace, dry_run=dry_run)
        if not dry_run:
            stored = self.objects[resource.plural, namespace, made["metadata"]["name"]]
            stored["status"] = {"phase": "Pending"} if resource.plural == PODS else {}
        self.moments.pass_by()
        return made

    def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
    ) -> Object:
        self.moments.pass_by()
        key = (resource.plural, namespace, name)
        if key in self.objects and self._is_kept(resource.plural, self.objects[key]):
            self.keeps.add(name)
        gone = super().delete(
            resource,
            name,
            namespace=namespace,
            uid=uid,
            grace_period_seconds=grace_period_seconds,
            dry_run=dry_run,
        )
        self.keeps.discard(name)
        self.moments.pass_by()
        return gone

    def _is_kept(self, kind: str, found: Object) -> bool:
        if kind == PODS:
            return bool(found["spec"].get("nodeName"))
        return kind == CLAIMS and bool(found["status"].get("allocation"))

    # What lives on it

    def of(self, kind: str) -> dict[str, Object]:
        """Objects of a kind by name; all of these tests are in one namespace."""
        return {name: body for (plural, _ns, name), body in self.objects.items() if plural == kind}

    def labelled(self, key: str) -> list[Object]:
        """What says that it is the request's."""
        return [
            body
            for body in self.objects.values()
            if (body["metadata"].get("labels") or {}).get(REQUEST_LABEL) == key
        ]

    def add_pod(self, namespace: str, name: str, source: Mapping[str, str]) -> None:
        """Somebody starts a Pod that names a claim or a template."""
        self.objects[PODS, namespace, name] = {
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "uid": next(self._uids), "labels": {}},
            "spec": {"resourceClaims": [{"name": "gpu", **source}]},
            "status": {"phase": "Pending"},
        }

    def end_pod(self, name: str, phase: str) -> None:
        """A Pod finishes ("Succeeded", "Failed") or is deleted ("")."""
        pod = self.of(PODS)[name]
        if phase:
            pod["status"]["phase"] = phase
        else:
            self._drop(PODS, name)

    def meddle(self, kind: str, name: str) -> None:
        """Somebody deletes an object with kubectl."""
        found = self.of(kind)[name]
        if self._is_kept(kind, found):
            found["metadata"]["deletionTimestamp"] = "2026-11-01T12:00:00Z"
        else:
            self._drop(kind, name)

    def step(self) -> None:
        """Kubelets, controllers and the scheduler do what is to be done."""
        for name, pod in self.of(PODS).items():
            if pod["metadata"].get("deletionTimestamp"):
                self._drop(PODS, name)
        self._make_claims()
        for name, claim in self.of(CLAIMS).items():
            self._tend(name, claim)
        for pod in self.of(PODS).values():
            if pod["status"]["phase"] == "Pending" and not pod["spec"].get("nodeName"):
                self._place(pod)

    def claim_name(self, pod: Object) -> str:
        source = pod["spec"]["resourceClaims"][0]
        return str(source.get("resourceClaimName") or f"{pod['metadata']['name']}-gpu")

    def _make_claims(self) -> None:
        for pod in self.of(PODS).values():
            source = pod["spec"]["resourceClaims"][0]
            template = self.of(TEMPLATES).get(source.get("resourceClaimTemplateName", ""))
            claim = self.claim_name(pod)
            if template is None or claim in self.of(CLAIMS) or pod["status"]["phase"] in FINISHED:
                continue
            namespace = pod["metadata"]["namespace"]
            self.objects[CLAIMS, namespace, claim] = {
                "metadata": {
                    "name": claim,
                    "namespace": namespace,
                    "uid": next(self._uids),
                    "labels": template["spec"]["metadata"]["labels"],
                    "owner": pod["metadata"]["uid"],
                },
                "spec": template["spec"]["spec"],
                "status": {},
            }

    def _tend(self, name: str, claim: Object) -> None:
        alive = {
            pod["metadata"]["uid"] for pod in self.of(PODS).values() if pod["status"]["phase"] not in FINISHED
        }
        status = claim["status"]
        status["reservedFor"] = [entry for entry in status.get("reservedFor", []) if entry["uid"] in alive]
        if not status["reservedFor"]:
            claim["status"] = {}
            owner = claim["metadata"].get("owner")
            if claim["metadata"].get("deletionTimestamp") or (owner and owner not in alive):
                self._drop(CLAIMS, name)

    def _place(self, pod: Object) -> None:
        claim = self.of(CLAIMS).get(self.claim_name(pod))
        if claim is None or claim["metadata"].get("deletionTimestamp"):
            return
        taken = sum(bool(other["status"].get("allocation")) for other in self.of(CLAIMS).values())
        if not claim["status"].get("allocation"):
            if taken >= self.devices:
                return
            claim["status"] = {"allocation": {"devices": {}}, "at": self.now}
        metadata = pod["metadata"]
        claim["status"].setdefault("reservedFor", []).append(
            {"resource": PODS, "name": metadata["name"], "uid": metadata["uid"]}
        )
        pod["spec"]["nodeName"] = "node-h100"
        pod["status"]["phase"] = "Running"

    def _drop(self, kind: str, name: str) -> None:
        self.objects = {key: body for key, body in self.objects.items() if key[0::2] != (kind, name)}

    # What the desk's mirror gets to see of it

    def show(self, cluster: Cluster, kind: str) -> None:
        """The mirror of a kind catches up."""
        {CLAIMS: self._show_claims, TEMPLATES: self._show_templates, PODS: self._show_pods}[kind](cluster)

    def relist(self, cluster: Cluster) -> None:
        """The mirror of everything is made anew."""
        for kind in (PODS, CLAIMS, TEMPLATES):
            self.show(cluster, kind)
        Stream.objects.filter(cluster=cluster).update(listed_at=self.now, heard_at=self.now)

    def _show_claims(self, cluster: Cluster) -> None:
        Claim.objects.filter(cluster=cluster).delete()
        Claim.objects.bulk_create(
            Claim(
                **_common(cluster, body),
                spec=body["spec"],
                status={key: value for key, value in body["status"].items() if key != "at"},
                allocated="allocation" in body["status"],
                allocated_at=body["status"].get("at"),
                epoch=1 if "allocation" in body["status"] else 0,
                deleted_at=self.now if body["metadata"].get("deletionTimestamp") else None,
                owner_pod_uid=body["metadata"].get("owner", ""),
            )
            for body in self.of(CLAIMS).values()
        )

    def _show_templates(self, cluster: Cluster) -> None:
        ClaimTemplate.objects.filter(cluster=cluster).delete()
        ClaimTemplate.objects.bulk_create(
            ClaimTemplate(**_common(cluster, body), spec=body["spec"]["spec"])
            for body in self.of(TEMPLATES).values()
        )

    def _show_pods(self, cluster: Cluster) -> None:
        Pod.objects.filter(cluster=cluster).delete()
        Pod.objects.bulk_create(
            Pod(
                **_common(cluster, body),
                phase=body["status"]["phase"],
                node_name=body["spec"].get("nodeName", ""),
                claim_names={"gpu": self.claim_name(body)},
            )
            for body in self.of(PODS).values()
        )


def _common(cluster: Cluster, body: Object) -> dict[str, Any]:
    metadata = body["metadata"]
    return {
        "cluster": cluster,
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resource_version": "1",
        "labels": metadata.get("labels") or {},
        "annotations": metadata.get("annotations") or {},
    }
