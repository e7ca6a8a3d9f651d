"""The desk's account on a cluster: its roles are what the code calls, no less and no more, and the policy
ties it to the objects that the desk made."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cel_expr_python import cel

from claims.launches.manifests import build as build_launch
from claims.models import LaunchTemplate
from claims.requests import manifests
from claims.requests.snippets import Use
from inventory.follow.discovery import CORE, GROUPS
from portal.demo.auth import PORTAL, READER, User, may
from portal.env import BASE_DIR
from portal.kube import resources
from portal.kube.resources import Resource

pytestmark = pytest.mark.nodatabase

DIRECTORY = BASE_DIR / "deploy" / "cluster"
DOCUMENTS = [
    document
    for path in sorted(DIRECTORY.glob("*/*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
]
ROLES = {d["metadata"]["name"]: d for d in DOCUMENTS if d["kind"] in ("ClusterRole", "Role")}
READING = {"get", "list", "watch"}
# What a method of `portal.kube.client.Client` needs the right to do.
VERBS = {
    "get": "get",
    "list_pages": "list",
    "list_all": "list",
    "watch": "watch",
    "create": "create",
    "replace": "update",
    "patch": "patch",
    "apply": "patch",
    "delete": "delete",
}
# Calls whose resource is not named where they are made: which it can be.
MADE_FOR_REQUESTS = {resources.RESOURCE_CLAIMS, resources.RESOURCE_CLAIM_TEMPLATES, resources.PODS}
DYNAMIC = {
    "claims/drill/hands.py": MADE_FOR_REQUESTS,
    "claims/drill/starting.py": MADE_FOR_REQUESTS,
    "claims/launches/launching.py": {resources.JOBS, resources.PODS},
    "claims/requests/submission.py": MADE_FOR_REQUESTS,
    "claims/requests/sweeping.py": MADE_FOR_REQUESTS,
    "inventory/classes.py": {resources.DEVICE_CLASSES},
    "inventory/proposals/writing.py": {resources.DEVICE_CLASSES},
    "inventory/taints/rules.py": {resources.DEVICE_TAINT_RULES},
}
# Of the version that the cluster serves.
SAME = {"self.slices": resources.RESOURCE_SLICES}
# Followed as a whole: what is listed and watched is in `inventory.follow.discovery`.
FOLLOWING = "inventory/follow/streams.py"

Right = tuple[str, str, str]


def calls() -> Iterator[tuple[str, str, str]]:
    """(file, method, resource as written) of every call of a cluster's client in the three rooms."""
    for room in ("claims", "inventory", "portal"):
        for path in sorted((BASE_DIR / room).rglob("*.py")):
            name = str(path.relative_to(BASE_DIR))
            if name.startswith(("portal/demo/", "portal/kube/")):
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and node.func.attr in VERBS
                    and isinstance(node.func.value, ast.Name | ast.Attribute)
                    and ast.unparse(node.func.value).rpartition(".")[2].strip("_") == "client"
                ):
                    yield name, node.func.attr, ast.unparse(node.args[0])


def rights(resource: Resource, verb: str) -> Right:
    return (resource.group, resource.plural, verb)


def needed() -> set[Right]:
    """(API group, resource, verb) of all that the code calls."""
    known = {name: value for name, value in vars(resources).items() if isinstance(value, Resource)}
    found: set[Right] = set()
    for file, method, written in calls():
        if file == FOLLOWING:
            continue
        name = written.rpartition(".")[2]
        if written in SAME:
            meant = {SAME[written]}
        elif name in known:
            meant = {known[name]}
        else:
            assert file in DYNAMIC, (
                f"{file} calls {method}({written}): say in DYNAMIC which resources that can be"
            )
            meant = DYNAMIC[file]
        found |= {rights(resource, VERBS[method]) for resource in meant}
    followed = {(resource.group, resource.plural) for resource in CORE.values()}
    followed |= {(group.name, stream.partition(".")[0]) for group in GROUPS for stream in group.plurals}
    found |= {(*resource, verb) for resource in followed for verb in ("list", "watch")}
    # Anybody may ask what they themselves may do.
    return found - {rights(resources.ACCESS_REVIEWS, "create")}


def given(role: str) -> set[Right]:
    rules: list[dict[str, Any]] = ROLES[role]["rules"]
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_every_call_is_allowed_by_a_role() -> None:
    allowed = set().union(*(given(role) for role in ROLES))
    assert len(list(calls())) > 30
    assert needed() - allowed == set()


def test_no_role_allows_what_nobody_calls() -> None:
    allowed = set().union(*(given(role) for role in ROLES))
    called = needed()
    # Reading one object is no more than listing all, which the mirror does.
    listed = {(group, resource) for group, resource, verb in called if verb == "list"}
    surplus = {right for right in allowed - called if not (right[2] == "get" and right[:2] in listed)}
    assert surplus == set()


def test_reading_writes_nothing_and_only_reading_is_bound_without_being_asked_for() -> None:
    assert {verb for *_resource, verb in given("claimdesk-read")} == READING
    base = {p.name for p in (DIRECTORY / "base").glob("*.yaml")} - {"kustomization.yaml"}
    assert set(yaml.safe_load((DIRECTORY / "base" / "kustomization.yaml").read_text())["resources"]) == base
    bound = {
        document["roleRef"]["name"]
        for path in (DIRECTORY / "base").glob("*.yaml")
        for document in yaml.safe_load_all(path.read_text())
        if document["kind"].endswith("Binding") and "roleRef" in document
    }
    assert bound == set(ROLES) - {"claimdesk-write"}


def test_nothing_is_given_wholesale() -> None:
    for role in ROLES.values():
        for rule in role["rules"]:
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            assert not {"secrets", "pods/exec", "pods/log", "serviceaccounts"} & set(rule["resources"])
            assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])


def test_every_binding_names_the_account_that_is_made() -> None:
    (account,) = (d["metadata"] for d in DOCUMENTS if d["kind"] == "ServiceAccount")
    bindings = [d for d in DOCUMENTS if "roleRef" in d]
    assert len(bindings) == 5
    for binding in bindings:
        assert binding["roleRef"]["name"] in ROLES
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
        ]


def test_the_embedded_cluster_lets_its_portal_do_just_that() -> None:
    """So that a test of the desk on it fails where the shipped roles would."""
    written = {right for role in ROLES for right in given(role) if right[2] not in READING}
    writing = {"create", "update", "patch", "delete", "deletecollection"}
    every = {value for value in vars(resources).values() if isinstance(value, Resource)}
    every -= {resources.ACCESS_REVIEWS}
    for resource in every:
        for verb in writing:
            expected = rights(resource, verb) in written
            assert may(User(PORTAL), verb, resource.group, resource.plural) is expected, (resource, verb)
            assert not may(User(READER), verb, resource.group, resource.plural)


# --- the policy -------------------------------------------------------------------------------------

(POLICY,) = (d["spec"] for d in DOCUMENTS if d["kind"] == "ValidatingAdmissionPolicy")
DESK = "system:serviceaccount:claimdesk:portal"
OURS = {"app.kubernetes.io/managed-by": "claimdesk"}


def thing(labels: dict[str, str] | None, **spec: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "a"} if labels is None else {"name": "a", "labels": labels}
    return {"metadata": metadata, "spec": spec}


def judged(
    operation: str,
    resource: str,
    *,
    new: dict[str, Any] | None = None,
    old: dict[str, Any] | None = None,
    user: str = DESK,
    namespace: dict[str, str] | None = None,
    within: str = "tides",
) -> list[str]:
    """What the policy says against it; [] = let through. The reference implementation of CEL evaluates it."""
    data: dict[str, Any] = {
        "request": {
            "operation": operation,
            "userInfo": {"username": user},
            "resource": {"resource": resource},
            "namespace": within,
        },
        "object": new,
        "oldObject": old,
        "namespaceObject": thing(namespace),
    }

    environment = cel.NewEnv(variables=dict.fromkeys(data, cel.Type.DYN))
    written = {variable["name"]: variable["expression"] for variable in POLICY["variables"]}

    def value(expression: str) -> Any:
        while "variables." in expression:
            expression = re.sub(r"\bvariables\.(\w+)", lambda found: f"({written[found[1]]})", expression)
        return environment.compile(expression).eval(data=data).value()

    if not all(value(condition["expression"]) for condition in POLICY["matchConditions"]):
        return []
    return [each["message"] for each in POLICY["validations"] if value(each["expression"]) is not True]


def container(**security: Any) -> dict[str, Any]:
    return {"name": "c", "securityContext": security}


def pod_spec(**spec: Any) -> dict[str, Any]:
    return {"automountServiceAccountToken": False, "containers": [{"name": "c"}], **spec}


def test_the_desk_may_make_and_remove_what_is_its_own() -> None:
    pod = thing(OURS, **pod_spec(containers=[container(allowPrivilegeEscalation=False)]))
    assert judged("CREATE", "pods", new=pod) == []
    assert judged("DELETE", "pods", old=pod) == []
    assert judged("CREATE", "resourceclaims", new=thing(OURS)) == []
    assert judged("UPDATE", "resourcequotas", new=thing(OURS), old=thing(OURS)) == []
    job = thing(OURS, template={"spec": pod_spec()})
    assert judged("CREATE", "jobs", new=job) == []


def test_whatever_the_code_makes_is_let_through() -> None:
    owner = manifests.Owner(key="k", project="tides", requester="rhea")
    wish = manifests.Wish(device_class="gpu.example.com", count=2, min_memory="40Gi")
    spec = manifests.claim_spec(wish, alternatives=[wish])
    named: dict[str, Any] = {"namespace": "tides", "owner": owner}
    launch = LaunchTemplate(
        kind=LaunchTemplate.Kind.JOB, image="example.org/train:1", command=["train"], env={"EPOCHS": "3"},
        volumes=[{"path": "/data", "claim": "data"}, {"path": "/tmp", "size": "1Gi"}],
    )  # fmt: skip
    use = Use(
        shape="claim",
        object_name="claim-1",
        namespace="tides",
        node_selector={"kubernetes.io/hostname": "n1"},
    )
    made: dict[str, dict[str, Any]] = {
        "resourceclaims": manifests.claim(name="a", spec=spec, **named),
        "resourceclaimtemplates": manifests.claim_template(name="a", spec=spec, **named),
        "pods": manifests.hold_pod(claim_name="a", image="example.org/pause:1", pull_secret="pull", **named),
        "jobs": build_launch(launch, use=use, owner=owner, key="0d5f1c2e", parameters={}),
    }
    for resource, manifest in made.items():
        assert judged("CREATE", resource, new=manifest) == [], resource
        # As a cluster completes it.
        if resource == "pods":
            completed = {**manifest["spec"], "serviceAccountName": "default"}
            assert judged("CREATE", resource, new={**manifest, "spec": completed}) == []
        assert judged("CREATE", resource, new=manifest, within="kube-system")
        assert judged("CREATE", resource, new=manifest, within="claimdesk")


@pytest.mark.parametrize("labels", [None, {}, {"app.kubernetes.io/managed-by": "somebody"}])
@pytest.mark.parametrize("resource", ["pods", "resourceclaims", "resourcequotas", "jobs"])
def test_an_object_of_somebody_else_is_refused(resource: str, labels: dict[str, str] | None) -> None:
    foreign = thing(labels, **pod_spec(), template={"spec": pod_spec()}, spec={})
    own = thing(OURS, **pod_spec(), template={"spec": pod_spec()}, spec={})
    assert judged("DELETE", resource, old=foreign)
    assert judged("CREATE", resource, new=foreign)
    assert judged("UPDATE", resource, new=own, old=foreign), "taken over by setting the label"
    assert judged("UPDATE", resource, new=foreign, old=own), "let go of by taking it off"
    assert judged("DELETE", resource, old=foreign, user="system:admin") == [], "others are not its concern"


def test_pods_of_people_end_only_where_their_namespace_agrees() -> None:
    foreign = thing({"app": "training"}, containers=[])
    agreed = {"claimdesk.io/ends-pods": "true"}
    assert judged("DELETE", "pods", old=foreign, namespace=agreed) == []
    assert judged("DELETE", "pods", old=foreign, namespace={"claimdesk.io/ends-pods": "false"})
    assert judged("DELETE", "resourceclaims", old=foreign, namespace=agreed), "Pods only"
    assert judged("UPDATE", "pods", old=foreign, new=foreign, namespace=agreed)


TOKEN = {"sources": [{"serviceAccountToken": {"path": "token"}}]}


@pytest.mark.parametrize(
    "spec",
    [
        {"hostNetwork": True},
        {"hostPID": True},
        {"hostIPC": True},
        {"nodeName": "control-plane-1"},
        {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]},
        {"volumes": [{"name": "export", "nfs": {"server": "nas", "path": "/home"}}]},
        {"volumes": [{"name": "keys", "secret": {"secretName": "keys"}}]},
        {"volumes": [{"name": "keys", "projected": {"sources": [{"secret": {"name": "keys"}}]}}]},
        {"containers": [container(privileged=True)]},
        {"containers": [container(procMount="Unmasked")]},
        {"containers": [container(capabilities={"add": ["SYS_ADMIN"]})]},
        {"containers": [container(windowsOptions={"hostProcess": True})]},
        {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]},
        {"containers": [{"name": "c", "envFrom": [{"secretRef": {"name": "keys"}}]}]},
        {"containers": [{"name": "c", "env": [{"name": "K", "valueFrom": {"secretKeyRef": {"key": "k"}}}]}]},
        {"initContainers": [container(privileged=True)]},
        {"initContainers": [{"name": "c", "envFrom": [{"secretRef": {"name": "keys"}}]}]},
        {"serviceAccountName": "cluster-admin"},
        {"automountServiceAccountToken": True},
    ],
    ids=str,
)
def test_no_pod_reaches_into_its_node_or_for_what_is_anothers(spec: dict[str, Any]) -> None:
    whole = pod_spec(**spec)
    assert len(judged("CREATE", "pods", new=thing(OURS, **whole))) == 1
    assert len(judged("CREATE", "jobs", new=thing(OURS, template={"spec": whole}))) == 1


def test_a_pod_that_says_nothing_of_its_token_would_get_one() -> None:
    silent = {"containers": [{"name": "c"}]}
    assert judged("CREATE", "pods", new=thing(OURS, **silent))
    assert judged("CREATE", "jobs", new=thing(OURS, template={"spec": silent}))


def test_what_service_meshes_put_into_pods_is_let_through() -> None:
    injected = pod_spec(
        hostNetwork=False,
        volumes=[{"name": "v", "emptyDir": {}}, {"name": "token", "projected": TOKEN}],
        containers=[container(privileged=False), {"name": "proxy", "ports": [{"containerPort": 15090}]}],
        initContainers=[container(privileged=False, capabilities={"add": ["NET_ADMIN", "NET_RAW"]})],
    )
    assert judged("CREATE", "pods", new=thing(OURS, **injected)) == []


@pytest.mark.parametrize("request_", [{"exactly": {"adminAccess": True}}, {"adminAccess": True}])
def test_no_claim_looks_into_devices_that_others_hold(request_: dict[str, Any]) -> None:
    devices = {"requests": [{"name": "a", "exactly": {"adminAccess": False}}, {"name": "b", **request_}]}
    assert judged("CREATE", "resourceclaims", new=thing(OURS, devices=devices))
    assert judged("CREATE", "resourceclaimtemplates", new=thing(OURS, spec={"devices": devices}))
    devices["requests"].pop()
    assert judged("CREATE", "resourceclaims", new=thing(OURS, devices=devices)) == []


def test_the_policy_covers_every_namespaced_thing_that_the_desk_writes() -> None:
    covered = {
        (group, resource, verb.lower())
        for rule in POLICY["matchConstraints"]["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["operations"]
    }
    assert given("claimdesk-write") <= covered
    (binding,) = (d for d in DOCUMENTS if d["kind"] == "ValidatingAdmissionPolicyBinding")
    (policy,) = (d for d in DOCUMENTS if d["kind"] == "ValidatingAdmissionPolicy")
    assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}


def test_namespaces_and_labels_of_the_policy_are_those_of_the_code() -> None:
    from claims.requests.manifests import MANAGED_BY

    assert OURS.keys() == {MANAGED_BY}
    text = Path(DIRECTORY / "base" / "policy.yaml").read_text()
    assert text.count(MANAGED_BY) >= 4
