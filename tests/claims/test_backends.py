"""Which way a flavor is served: what is offered, what an administrator switched, and what is observed."""

import itertools

import pytest

from claims.catalogue.backends import Backend, Rule, Stage, choose_backend

DRIVER = "driver:gpu.nvidia.com"
SEEN = {"kubernetes": ["v1.36.2"], DRIVER: ["580.126.9"], "runtime": ["containerd 2.1.4"]}
RULE = Rule(kubernetes=">=1.34", driver="gpu.nvidia.com", driver_versions=">=580", runtime="containerd >=2.0")


def test_what_is_not_offered_is_not_chosen() -> None:
    only_dra = choose_backend(dra=True, plugin=False, stage=Stage.PLUGIN, rule=RULE, versions={})
    assert (only_dra.backend, only_dra.code) == (Backend.DRA, "only-dra")
    only_plugin = choose_backend(dra=False, plugin=True, stage=Stage.DRA, rule=Rule(), versions={})
    assert (only_plugin.backend, only_plugin.code) == (Backend.PLUGIN, "only-plugin")


@pytest.mark.parametrize(
    ("stage", "backend", "code"),
    [(Stage.DRA, Backend.DRA, "switched-dra"), (Stage.PLUGIN, Backend.PLUGIN, "switched-plugin")],
)
def test_an_administrator_overrules_the_conditions(stage: str, backend: str, code: str) -> None:
    broken = {**SEEN, "kubernetes": ["v1.33.1"]}
    for versions in (SEEN, broken, {}):
        choice = choose_backend(dra=True, plugin=True, stage=stage, rule=RULE, versions=versions)
        assert (choice.backend, choice.code) == (backend, code)
        assert len(choice.clauses) == 3


def test_dra_is_used_as_soon_as_every_condition_holds() -> None:
    choice = choose_backend(dra=True, plugin=True, stage=Stage.AUTOMATIC, rule=RULE, versions=SEEN)
    assert (choice.backend, choice.code) == (Backend.DRA, "holds")
    assert [clause.holds for clause in choice.clauses] == [True, True, True]
    assert choice.words == "Every condition for DRA holds."


@pytest.mark.parametrize(
    ("part", "versions"),
    [
        ("kubernetes", ["v1.33.9"]),
        (DRIVER, ["570.86.15"]),
        # A rollout that is half done is not done.
        (DRIVER, ["570.86.15", "580.126.9"]),
        ("runtime", ["containerd 1.7.27"]),
        ("runtime", ["cri-o 1.34.0"]),
    ],
)
def test_one_condition_that_does_not_hold_keeps_the_device_plugin(part: str, versions: list[str]) -> None:
    choice = choose_backend(
        dra=True, plugin=True, stage=Stage.AUTOMATIC, rule=RULE, versions={**SEEN, part: versions}
    )
    assert (choice.backend, choice.code) == (Backend.PLUGIN, "broken")
    (clause,) = [clause for clause in choice.clauses if not clause.holds]
    assert clause.part == part
    assert all(version in clause.words for version in versions)


def test_what_nobody_observes_keeps_the_device_plugin_and_says_so() -> None:
    versions = {part: seen for part, seen in SEEN.items() if part != "runtime"}
    choice = choose_backend(dra=True, plugin=True, stage=Stage.AUTOMATIC, rule=RULE, versions=versions)
    assert (choice.backend, choice.code) == (Backend.PLUGIN, "not-observed")
    assert "nothing is observed" in choice.clauses[2].words


def test_without_conditions_dra_is_used_where_the_cluster_serves_it() -> None:
    for served, backend in ((True, Backend.DRA), (False, Backend.PLUGIN)):
        choice = choose_backend(
            dra=True, plugin=True, stage=Stage.AUTOMATIC, rule=Rule(), versions={}, served=served
        )
        assert choice.backend == backend


def test_there_is_always_one_way_and_a_reason_in_words() -> None:
    offers = [(True, True), (True, False), (False, True)]
    for (dra, plugin), stage, rule, versions, served in itertools.product(
        offers, Stage.values, (Rule(), RULE), ({}, SEEN), (True, False)
    ):
        choice = choose_backend(
            dra=dra, plugin=plugin, stage=stage, rule=rule, versions=versions, served=served
        )
        assert choice.words
        assert (choice.backend == Backend.DRA and dra) or (choice.backend == Backend.PLUGIN and plugin)


def test_a_range_that_cannot_be_read_holds_for_nothing() -> None:
    choice = choose_backend(
        dra=True, plugin=True, stage=Stage.AUTOMATIC, rule=Rule(kubernetes="new"), versions=SEEN
    )
    assert (choice.backend, choice.code) == (Backend.PLUGIN, "broken")
