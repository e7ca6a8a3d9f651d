"""Reading an ask: every field's own message, all at once."""

from datetime import timedelta
from typing import Any

import pytest

from claims.asks import judging as asks
from claims.asks.judging import parse, parse_key
from claims.asks.values import UnableToSubmit
from claims.models import GrowablePool
from inventory.models import Cluster, NamespaceBinding
from portal.accounts.models import Project
from tests.claims.conftest import NOW, Cast


def errors_of(values: dict[str, Any], cast: Cast, **changed: Any) -> dict[str, list[str]]:
    with pytest.raises(UnableToSubmit) as refused:
        parse(values | changed, user=cast.owner, now=NOW)
    return refused.value.errors


def test_a_complete_ask_is_read(values: dict[str, Any], cast: Cast) -> None:
    ask = parse(values, user=cast.owner, now=NOW)
    assert (ask.project.slug, ask.cluster.name, ask.namespace) == (
        "protein-folding",
        "main",
        "protein-folding",
    )
    assert (ask.device_class, ask.count, ask.min_memory) == ("h100", 1, "40Gi")
    assert ask.memory_domains == ("gpu.nvidia.com",)
    assert ask.duration == timedelta(days=3)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("count", "0", "At least 1"),
        ("count", "-5", "At least 1"),
        ("count", "33", "At most 32"),
        ("count", "9" * 5000, "At most 32"),
        ("count", "two", "not a whole number"),
        ("count", "1.5", "not a whole number"),
        ("count", 1.5, "not a whole number"),
        ("count", "", "how many"),
        ("count", True, "must be a text"),
        ("count", ["1"], "must be a text"),
        ("min_memory", "eighty", "“eighty” is not an amount of memory"),
        ("min_memory", "40 GB", "is not an amount"),
        ("min_memory", "0", "more than nothing"),
        ("min_memory", "-1Gi", "more than nothing"),
        ("min_memory", "96Gi", "the largest has 80Gi"),
        ("min_memory", '1"||true||"', "is not an amount"),
        ("min_memory", "1" * 100, "is not an amount"),
        ("purpose", "", "in a few words"),
        ("purpose", "x" * 10_000, "At most 1000 characters; this has 10000"),
        ("purpose", "a\x00b", "control character"),
        ("purpose", "\ud800", "half a character"),
        ("duration", "0", "At least one hour"),
        ("duration", "91", "At most 90 days"),
        ("duration", "9" * 30, "At most 90 days"),
        ("duration", "soon", "not a whole number"),
        ("duration_unit", "years", "hours or days"),
        ("shape", "cube", "Choose one of"),
        ("device_class", "gone", "no DeviceClass “gone”"),
        ("device_class", "", "Choose a class"),
        ("device_class", {"a": 1}, "must be a text"),
        ("cluster", "elsewhere", "no cluster “elsewhere”"),
        ("cluster", "", "Choose a cluster"),
        ("namespace", "weather-models", "no namespace of this project"),
        ("project", "weather-models", "not a member"),
        ("project", "no-such", "not a member"),
        ("project", "", "Choose the project"),
    ],
)
def test_a_wrong_field_gets_its_own_message(
    values: dict[str, Any], cast: Cast, field: str, value: Any, said: str
) -> None:
    errors = errors_of(values, cast, **{field: value})
    name = "duration" if field == "duration_unit" else field
    assert list(errors) == [name]
    assert said in errors[name][0]


def test_all_errors_are_told_at_once(values: dict[str, Any], cast: Cast) -> None:
    errors = errors_of(values, cast, count="0", min_memory="eighty", purpose="", duration="")
    assert set(errors) == {"count", "min_memory", "purpose", "duration"}


def test_nothing_at_all_is_told_field_by_field(cast: Cast) -> None:
    errors = errors_of({}, cast)
    assert {"project", "cluster", "count", "shape", "duration", "purpose"} <= set(errors)


def test_a_strangers_project_and_a_missing_one_sound_the_same(values: dict[str, Any], cast: Cast) -> None:
    other = errors_of(values, cast, project="weather-models")
    assert other == errors_of(values, cast, project="nowhere")


def test_an_administrator_may_ask_for_any_project_and_an_auditor_for_none(
    values: dict[str, Any], cast: Cast
) -> None:
    assert parse(values, user=cast.admin, now=NOW).project.slug == "protein-folding"
    with pytest.raises(UnableToSubmit) as refused:
        parse(values, user=cast.auditor, now=NOW)
    assert set(refused.value.errors) == {"project"}


def test_a_project_with_several_namespaces_has_to_choose(
    values: dict[str, Any], cast: Cast, cluster: Cluster, project: Project
) -> None:
    NamespaceBinding.objects.create(
        cluster=cluster, namespace="folding-2", project=project, valid_from=NOW - timedelta(days=1)
    )
    assert "choose one" in errors_of(values, cast)["namespace"][0]
    assert parse(values | {"namespace": "folding-2"}, user=cast.owner, now=NOW).namespace == "folding-2"


def test_a_binding_that_is_over_no_longer_counts(
    values: dict[str, Any], cast: Cast, project: Project
) -> None:
    NamespaceBinding.objects.filter(project=project).update(valid_until=NOW)
    assert "has no namespace on main" in errors_of(values, cast)["namespace"][0]


def test_an_archived_project_asks_for_nothing(values: dict[str, Any], cast: Cast, project: Project) -> None:
    Project.objects.filter(pk=project.pk).update(archived_at=NOW)
    assert "archived" in errors_of(values, cast)["project"][0]


def test_a_cluster_that_is_switched_off_takes_nothing(
    values: dict[str, Any], cast: Cast, cluster: Cluster
) -> None:
    Cluster.objects.filter(pk=cluster.pk).update(enabled=False)
    assert "switched off" in errors_of(values, cast)["cluster"][0]


def test_keys_are_uuids() -> None:
    assert parse_key("") is None
    with pytest.raises(UnableToSubmit):
        parse_key("not a uuid")
    with pytest.raises(UnableToSubmit):
        parse_key({"a": "b"})


def test_what_no_device_belongs_to_may_be_asked_for_with_a_warning(
    values: dict[str, Any], cast: Cast, cluster: Cluster
) -> None:
    nothing = {"device_class": "none", "min_memory": "40Gi"}
    reading = asks.read(values | nothing, user=cast.owner, now=NOW)
    assert not reading.errors
    assert "No device of the cluster" in reading.warnings["device_class"][0]
    # Before the first complete list, nobody knows.
    cluster.streams.update(listed_at=None)
    reading = asks.read(values | nothing, user=cast.owner, now=NOW)
    assert "has not read" in reading.warnings["device_class"][0]


def test_memory_of_devices_that_are_not_there_is_asked_under_the_domain_that_their_pool_declares(
    values: dict[str, Any], cast: Cast, cluster: Cluster
) -> None:
    nothing = {"device_class": "none", "min_memory": "40Gi"}

    def expression() -> str:
        spec = asks.parse(values | nothing, user=cast.owner, now=NOW).spec
        return str(spec["devices"]["requests"][0]["exactly"]["selectors"][0]["cel"]["expression"])

    assert "device.capacity[device.driver]" in expression()
    GrowablePool.objects.create(
        cluster=cluster, name="burst", labels={"pool": "burst"}, max_nodes=2, device_class="none", devices=8,
        domain="gpu.example.com", changed_at=NOW,
    )  # fmt: skip
    assert 'device.capacity["gpu.example.com"]' in expression()
