"""Alert rules and dashboard ask for what the desk tells: a metric that is renamed would go silent there."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from django.utils import timezone
from prometheus_client import REGISTRY

from inventory.models import Cluster
from portal.env import BASE_DIR
from portal.pages.metrics.fleet import FleetMetrics
from tests.inventory_pages.factories import make_cluster
from tests.operations.test_manifests import OBJECTS, PODS

CONFIG = next(o for o in OBJECTS if o["kind"] == "ConfigMap")["data"]
DIRECTORY = BASE_DIR / "deploy" / "monitoring"
OF_HISTOGRAMS = ("_bucket", "_count", "_sum")
OF_GAUGE_HISTOGRAMS = ("_bucket", "_gcount", "_gsum")


def expressions() -> Iterator[str]:
    for group in yaml.safe_load((DIRECTORY / "alerts.yaml").read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["expr"]
    for panel in json.loads((DIRECTORY / "dashboard.json").read_text())["panels"]:
        for target in panel["targets"]:
            yield target["expr"]


def told() -> dict[str, set[str]]:
    """Labels by the names of samples."""
    found: dict[str, set[str]] = {}
    fleet = FleetMetrics(now=timezone.now())
    for metric in [*fleet.collect(), *REGISTRY.collect()]:
        suffixes: tuple[str, ...] = ("",)
        if metric.type == "histogram":
            suffixes = OF_HISTOGRAMS
        elif metric.type == "gaugehistogram":
            suffixes = OF_GAUGE_HISTOGRAMS
        elif metric.type == "counter":
            suffixes = ("_total",)
        labels = set(getattr(metric, "_labelnames", ())) | {
            name for sample in metric.samples for name in sample.labels
        }
        for suffix in suffixes:
            found[metric.name + suffix] = labels | {"le"}
    return found


@pytest.fixture
def north(db: None) -> Cluster:
    return make_cluster("north")


@pytest.mark.usefixtures("north")
def test_every_metric_that_is_asked_for_is_told() -> None:
    asked = {name for text in expressions() for name in re.findall(r"\bclaimdesk_\w+", text)}
    assert len(asked) > 15
    assert asked <= told().keys()


@pytest.mark.usefixtures("north")
def test_every_label_that_is_asked_for_is_one_of_the_metric() -> None:
    known = told()
    checked = 0
    for text in expressions():
        for name, selector in re.findall(r"\b(claimdesk_\w+)\{([^}]*)\}", text):
            labels = set(re.findall(r"(\w+)\s*(?:=~|!=|=)", selector))
            if known[name] > {"le"}:
                assert labels <= known[name], f"{name}: {labels - known[name]}"
                checked += 1
    assert checked > 8


def test_every_alert_says_what_it_means() -> None:
    rules: list[dict[str, Any]] = [
        rule
        for group in yaml.safe_load((DIRECTORY / "alerts.yaml").read_text())["groups"]
        for rule in group["rules"]
    ]
    assert len({rule["alert"] for rule in rules}) == len(rules) > 10
    for rule in rules:
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert rule["annotations"]["summary"]


def test_prometheus_is_sent_to_the_address_that_there_is() -> None:
    from django.urls import reverse

    state, processes = yaml.safe_load((DIRECTORY / "scrape.yaml").read_text())
    assert state["metrics_path"] == reverse("api-metrics")
    assert processes["kubernetes_sd_configs"][0]["namespaces"]["names"] == ["claimdesk"]
    # What the alerts about silence call them.
    asked = {name for text in expressions() for name in re.findall(r'job="([^"]+)"', text)}
    assert asked == {state["job_name"], processes["job_name"]}
    # Every process that counts something has the port, and the desk serves it there.
    ports = {
        name
        for name, pod in PODS.items()
        for container in pod["spec"]["containers"]
        for port in container.get("ports", [])
        if (port["name"], port["containerPort"]) == ("metrics", int(CONFIG["CLAIMDESK_METRICS_PORT"]))
    }
    assert ports == {"claimdesk-web", "claimdesk-worker", "claimdesk-follower"}


@pytest.mark.nodatabase
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool comes with Prometheus")
def test_every_alert_fires_for_its_cause_and_is_silent_without() -> None:
    rules = yaml.safe_load((DIRECTORY / "alerts.yaml").read_text())["groups"][0]["rules"]
    tried = yaml.safe_load((DIRECTORY / "alerts.test.yaml").read_text())["tests"]
    assert {each["alertname"] for each in tried[0]["alert_rule_test"]} == {rule["alert"] for rule in rules}
    assert tried[1]["promql_expr_test"][0]["exp_samples"][0]["value"] == len(rules)
    for words in (["check", "rules", "alerts.yaml"], ["test", "rules", "alerts.test.yaml"]):
        done = subprocess.run(
            ["promtool", *words], cwd=DIRECTORY, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
