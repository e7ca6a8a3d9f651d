"""Node selectors of slices admit nodes as those of Pods do, and merge into one."""

from typing import Any

import msgspec
import pytest

from portal.dra import nodeselector
from portal.dra.model import NodeSelector
from portal.dra.nodeselector import UnusableSelector
from tests.dra.builders import node

NODE = node("n", labels={"zone": "a", "cores": "16", "name": "x"})


def selector(*terms: dict[str, Any]) -> NodeSelector:
    return msgspec.convert({"nodeSelectorTerms": list(terms)}, NodeSelector)


def term(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("found", "admits"),
    [
        (selector(), False),
        (selector({}), False),
        (selector(term("zone", "In", "a", "b")), True),
        (selector(term("zone", "In", "b")), False),
        (selector(term("rack", "In", "")), False),
        (selector(term("zone", "NotIn", "b")), True),
        (selector(term("rack", "NotIn", "b")), True),
        (selector(term("zone", "NotIn", "a")), False),
        (selector(term("zone", "Exists")), True),
        (selector(term("rack", "Exists")), False),
        (selector(term("rack", "DoesNotExist")), True),
        (selector(term("zone", "DoesNotExist")), False),
        (selector(term("cores", "Gt", "15")), True),
        (selector(term("cores", "Gt", "16")), False),
        (selector(term("cores", "Lt", "17")), True),
        (selector(term("name", "Lt", "17")), False),
        (selector(term("rack", "Gt", "1")), False),
        (selector(term("zone", "In", "b"), term("zone", "In", "a")), True),
        (selector({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}), True),
        (selector({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}]}), False),
        (
            selector(
                {
                    **term("zone", "In", "a"),
                    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}],
                }
            ),
            False,
        ),
    ],
)
def test_a_selector_admits_nodes(found: NodeSelector, admits: bool) -> None:
    assert nodeselector.matches(found, NODE) is admits


@pytest.mark.parametrize(
    "found",
    [
        selector(term("zone", "Near", "a")),
        selector(term("cores", "Gt", "many")),
        selector(term("cores", "Lt", "1", "2")),
        selector({"matchFields": [{"key": "spec.x", "operator": "In", "values": ["n"]}]}),
    ],
)
def test_a_selector_without_meaning_is_an_error(found: NodeSelector) -> None:
    with pytest.raises(UnusableSelector):
        nodeselector.matches(found, NODE)


def test_selectors_merge_into_one_term_with_each_requirement_once() -> None:
    merged = nodeselector.merge(
        [selector(term("a", "Exists")), selector(term("b", "Exists")), selector(term("a", "Exists"))]
    )
    assert merged is not None
    (only,) = merged.node_selector_terms
    assert [item.key for item in only.match_expressions] == ["a", "b"]


def test_nothing_merges_into_nothing() -> None:
    assert nodeselector.merge([]) is None
    assert nodeselector.merge([selector({})]) is None


def test_several_terms_cannot_be_merged() -> None:
    with pytest.raises(UnusableSelector, match="one term, not 2"):
        nodeselector.merge([selector(term("a", "Exists"), term("b", "Exists"))])
