"""The manifests of the desk say what they mean to: every reference is met, and no container may more than it
has to. (`kubectl kustomize` builds them; what it would refuse is refused here without it.)"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from portal.env import BASE_DIR

BASE = BASE_DIR / "deploy" / "kubernetes" / "base"
OVERLAYS = sorted((BASE_DIR / "deploy" / "kubernetes" / "overlays").iterdir())

Manifest = dict[str, Any]


def kustomization(directory: Path) -> Manifest:
    found: Manifest = yaml.safe_load((directory / "kustomization.yaml").read_text())
    return found


def built(directory: Path) -> Iterator[Manifest]:
    """The objects of a kustomization, with what is above it."""
    for resource in kustomization(directory)["resources"]:
        path = (directory / resource).resolve()
        if path.is_dir():
            yield from built(path)
        else:
            yield from yaml.safe_load_all(path.read_text())


def pods(objects: list[Manifest]) -> dict[str, Manifest]:
    """Pod templates by the name of what makes the Pods."""
    return {o["metadata"]["name"]: o["spec"]["template"] for o in objects if "template" in o.get("spec", {})}


OBJECTS = list(built(BASE))
PODS = pods(OBJECTS)


def selected(selector: Manifest, labels: Manifest) -> bool:
    plain = all(labels.get(k) == v for k, v in selector.get("matchLabels", {}).items())
    among = all(labels.get(e["key"]) in e["values"] for e in selector.get("matchExpressions", []))
    return plain and among


@pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda path: path.name)
def test_an_overlay_names_what_is_there_and_every_object_once(overlay: Path) -> None:
    objects = list(built(overlay))
    names = [(o["apiVersion"], o["kind"], o["metadata"]["name"]) for o in objects]
    assert len(names) == len(set(names))
    told = kustomization(overlay)
    assert {entry["name"] for entry in told.get("replicas", [])} <= {name for *_kind, name in names}
    images = {c["image"] for pod in pods(objects).values() for c in pod["spec"]["containers"]}
    assert images == {"claimdesk"}


def test_all_files_of_the_base_are_part_of_it() -> None:
    assert {path.name for path in BASE.glob("*.yaml")} == {
        "kustomization.yaml",
        *kustomization(BASE)["resources"],
    }


@pytest.mark.parametrize("name", PODS)
def test_no_container_may_more_than_it_has_to(name: str) -> None:
    spec = PODS[name]["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in spec["containers"]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
        assert {"cpu", "memory"} <= container["resources"]["limits"].keys()
        assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/tmp", "/data"}


@pytest.mark.parametrize("name", PODS)
def test_settings_and_secrets_come_from_what_the_readme_says(name: str) -> None:
    (container,) = PODS[name]["spec"]["containers"]
    assert container["envFrom"] == [
        {"configMapRef": {"name": "claimdesk"}},
        {"secretRef": {"name": "claimdesk"}},
    ]
    accounts = [o["metadata"]["name"] for o in OBJECTS if o["kind"] == "ServiceAccount"]
    assert PODS[name]["spec"]["serviceAccountName"] in accounts


def test_every_selector_finds_its_pods() -> None:
    checked = 0
    for obj in OBJECTS:
        spec = obj.get("spec", {})
        selector = spec.get("podSelector") or spec.get("selector")
        if obj["kind"] in ("Job", "ConfigMap", "ServiceAccount") or not selector:
            continue
        if obj["kind"] == "Service":
            selector = {"matchLabels": selector}
        found = [name for name, pod in PODS.items() if selected(selector, pod["metadata"]["labels"])]
        assert found, obj["metadata"]["name"]
        if obj["kind"] in ("Deployment", "PodDisruptionBudget"):
            assert found == [obj["metadata"]["name"]]
        checked += 1
    assert checked >= 9


def allowed(name: str, direction: str) -> dict[int, set[str]]:
    """Ports that policies open for a Pod ("ingress" or "egress"), each with the namespaces that it is opened
    for; none = all."""
    labels = PODS[name]["metadata"]["labels"]
    opened: dict[int, set[str]] = {}
    for policy in (o["spec"] for o in OBJECTS if o["kind"] == "NetworkPolicy"):
        if selected(policy["podSelector"], labels):
            for rule in policy.get(direction, []):
                spaces = {
                    peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
                    for peer in rule.get("from", [])
                }
                for port in rule["ports"]:
                    opened.setdefault(port["port"], set()).update(spaces)
    return opened


def test_ports_are_open_to_whom_they_are_for_and_to_nobody_else() -> None:
    named = {"http": "ingress-nginx", "metrics": "monitoring"}
    for name, pod in PODS.items():
        ports = [port for one in pod["spec"]["containers"] for port in one.get("ports", [])]
        expected = {port["containerPort"]: {named[port["name"]]} for port in ports}
        assert allowed(name, "ingress") == expected, name
    (service,) = (o for o in OBJECTS if o["kind"] == "Service")
    (web,) = PODS["claimdesk-web"]["spec"]["containers"]
    assert service["spec"]["ports"][0]["targetPort"] in {port["name"] for port in web["ports"]}


def test_each_process_reaches_what_it_needs_and_no_more() -> None:
    everybody, clusters, services = {53, 5432, 6379}, {443, 6443}, {587, 9090}
    assert {name: set(allowed(name, "egress")) for name in PODS} == {
        "claimdesk-migrate": everybody,
        "claimdesk-beat": everybody,
        "claimdesk-follower": everybody | clusters,
        "claimdesk-worker": everybody | clusters | services,
        "claimdesk-web": everybody | clusters | services,
    }
    # Without a policy of its own direction a Pod may do all.
    everything = next(
        o["spec"]
        for o in OBJECTS
        if o["metadata"]["name"] == "claimdesk" and "policyTypes" in o.get("spec", {})
    )
    assert set(everything["policyTypes"]) == {"Ingress", "Egress"}
    assert all(selected(everything["podSelector"], pod["metadata"]["labels"]) for pod in PODS.values())


def test_replicas_do_not_share_a_node_where_there_is_another() -> None:
    for name, pod in PODS.items():
        if name in ("claimdesk-migrate", "claimdesk-beat"):
            continue
        (spread,) = pod["spec"]["topologySpreadConstraints"]
        assert spread["topologyKey"] == "kubernetes.io/hostname"
        assert selected(spread["labelSelector"], pod["metadata"]["labels"])


def variables_read() -> set[str]:
    """Names of environment variables that the portal reads."""
    read = re.compile(r'env\.\w+\(\s*"([A-Z][A-Z0-9_]+)"')
    files = (BASE_DIR / "portal").glob("*.py")
    return {name for path in files for name in read.findall(path.read_text())}


def test_every_variable_that_is_set_is_one_that_the_desk_reads() -> None:
    config = next(o for o in OBJECTS if o["kind"] == "ConfigMap")["data"]
    env_file = (BASE_DIR / "deploy" / "compose.env").read_text()
    set_there = {line.partition("=")[0] for line in env_file.splitlines() if line and line[0] not in "#"}
    readme = (BASE_DIR / "deploy" / "kubernetes" / "README.md").read_text()
    secrets = set(re.findall(r"--from-literal=([A-Z_]+)=", readme))
    assert {"DATABASE_URL", "REDIS_URL"} <= secrets
    assert {*config, *set_there, *secrets} - {"POSTGRES_PASSWORD", "DATABASE_URL"} <= variables_read()


def test_a_migration_gives_up_instead_of_having_everybody_wait_behind_it() -> None:
    (container,) = PODS["claimdesk-migrate"]["spec"]["containers"]
    options = "-c lock_timeout=5s"
    assert container["env"] == [{"name": "PGOPTIONS", "value": options}]
    # It is tried again: nothing of what it gave up is left.
    job = next(o for o in OBJECTS if o["kind"] == "Job")["spec"]
    assert job["backoffLimit"] >= 3
    assert job["template"]["spec"]["restartPolicy"] == "OnFailure"
    services = yaml.safe_load((BASE_DIR / "compose.yaml").read_text())["services"]
    assert services["migrate"]["environment"]["PGOPTIONS"] == options
    assert services["migrate"]["environment"].items() > services["web"]["environment"].items()


def test_compose_starts_the_same_processes_as_the_manifests() -> None:
    services = yaml.safe_load((BASE_DIR / "compose.yaml").read_text())["services"]
    for name, pod in PODS.items():
        (container,) = pod["spec"]["containers"]
        service = services[name.removeprefix("claimdesk-")]
        assert service.get("command") == container.get("command")
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
    used = {cond for s in services.values() for cond in s.get("depends_on", {})}
    assert used <= services.keys()


def test_processes_listen_on_the_queues_that_tasks_are_sent_to() -> None:
    from portal.pages.metrics.fleet import queues

    served = {
        container["command"][container["command"].index("--queues") + 1]
        for pod in PODS.values()
        for container in pod["spec"]["containers"]
        if "--queues" in container.get("command", [])
    }
    assert served == set(queues())
