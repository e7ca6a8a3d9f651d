# ruff: noqa: E501 (tables of expressions read best with one case a line)
"""Costs: what is counted, what is estimated, and that nothing takes long."""

import pytest

from portal.dra.cel import CelCompileError, CelEvaluationError, DeviceView, compile_selector
from portal.dra.cel.selector import estimated_cost
from tests.dra.selectors import ATTRIBUTES, DEVICE, outcome

LIMIT = "evaluation: operation cancelled: actual cost limit exceeded"


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        ("true", 0),
        ("device.driver == 'dra.example.com'", 4),  # two steps to the value, two for comparing 15 characters
        (f"{ATTRIBUTES}.model == 'A100'", 5),
        (f"{ATTRIBUTES}.healthy", 4),
        ("1 + 1 == 2", 2),
        (f"has({ATTRIBUTES}.model)", 3),
        ("[1, 2, 3].all(x, x > 0)", 3 * (3 + 2) + 1),
        ("[1, 2].exists(x, x == 2)", 2 * (4 + 2)),
        ("[1, 2].map(x, x) == [1, 2]", 2 * 13 + 1 + 1),
        ("'aaaaaaaaaaaaaaaaaaaa'.contains('b')", 2),
        ("'aaaaaaaaaaaaaaaaaaaa'.matches('aaaa')", 3),
        ("1 in [1, 2, 3]", 0),
        ("quantity('40Gi').isInteger()", 2),
    ],
)
def test_costs_are_counted_as_kubernetes_counts_them(expression: str, cost: int) -> None:
    assert compile_selector(expression).cost(DEVICE) == cost


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        ("true", 0),
        ("device.driver == 'dra.example.com'", 4),
        (f"{ATTRIBUTES}.model == 'A100'", 5),
        (f"{ATTRIBUTES}.model.matches('^A.*')", 4 + 7 * 1),
        ("[1, 2, 3].all(x, x > 0)", 10 + 3 * (3 + 2) + 1),
        ("device.attributes.all(d, d != '')", 2 + 32 * (3 + 1 + 0) + 1),
        ("device.capacity.exists_one(d, d == 'gpu.example.com')", 2 + 32 * (1 + 2 + 2) + 2),
        (f"cel.bind(dra, {ATTRIBUTES}, dra.healthy)", 10 + 3 + 2),
        (f"{ATTRIBUTES}.model.split('-').size() > 1", 4 + 13 + 1 + 1),
        (f"{ATTRIBUTES}.model.exists(x, x > 0)", 4 + 64 * (4 + 2) + 1),
        (f"2 in {ATTRIBUTES}.sizes", 4 + 64),
    ],
)
def test_estimates_are_for_the_largest_device(expression: str, cost: int) -> None:
    assert estimated_cost(expression, frozenset()) == cost


@pytest.mark.parametrize(
    "expression",
    [
        "lists.range(1000000).all(x, true)",
        "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d, a + b + c + d != ''))))",
        # Only an index tells the estimator where in the device it is.
        "device.attributes.somewhere.model.matches('^A.*')",
    ],
)
def test_what_could_cost_too_much_is_refused_where_the_api_server_would(expression: str) -> None:
    compile_selector(expression)
    with pytest.raises(CelCompileError, match="too complex, exceeds cost limit"):
        compile_selector(expression, enforce_estimate=True)


@pytest.mark.parametrize(
    "expression",
    [
        "device.driver == 'x'",
        f"{ATTRIBUTES}.model.lowerAscii().matches('^a[0-9]+$')",
        "device.attributes.exists(d, device.attributes[d].exists(n, n == 'model'))",
        f"cel.bind(dra, {ATTRIBUTES}, dra.model.contains('A') && dra.index > 2)",
        'device.capacity["d"].m == quantity("1")',
    ],
)
def test_ordinary_expressions_pass_the_estimate(expression: str) -> None:
    assert compile_selector(expression, enforce_estimate=True).expression == expression


HEAVY = [
    "[1,2,3,4,5,6,7,8,9,0].all(a, " * 10 + "true" + ")" * 10,
    "lists.range(1000000).all(x, true)",
    "lists.range(9223372036854775807).size() > 0",
    "lists.range(1000).all(x, lists.range(1000).all(y, lists.range(1000).all(z, true)))",
    "lists.range(100000).all(x, (lists.range(100000) + lists.range(100000)).size() > 0)",
    "'a'.replace('', 'aaaaaaaaaa')" + ".replace('a', 'aaaaaaaaaa')" * 20 + " == ''",
    "cel.bind(a, 'aaaaaaaaaaaaaaaa', "
    + "".join(
        f"cel.bind({new}, {old}+{old}+{old}+{old}, "
        for old, new in zip("abcdefghijklmn", "bcdefghijklmno", strict=True)
    )
    + "o.size() > 0"
    + ")" * 15,
    "cel.bind(a, [1,1,1,1,1,1,1,1], "
    + "".join(
        f"cel.bind({new}, [{','.join([old] * 8)}], " for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + "i == i"
    + ")" * 9,
    "cel.bind(a, [1,1,1,1,1,1,1,1], "
    + "".join(
        f"cel.bind({new}, {'+'.join([old] * 8)}, " for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + "i.size() > 0"
    + ")" * 9,
    "cel.bind(a, [1,1,1,1,1,1,1,1], "
    + "".join(
        f"cel.bind({new}, [{','.join([old] * 8)}], " for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + "'%s'.format([i]).size() > 0"
    + ")" * 9,
    "cel.bind(v0, {1: 1}, "
    + "".join(f"cel.bind(v{n + 1}, [v{n}, v{n}].map(x, {{1: x}}), " for n in range(60))
    + "v60 == v60"
    + ")" * 61,
    "cel.bind(l, lists.range(50000).map(x, 'a'), lists.range(1000).all(x, l.isSorted()))",
    "lists.range(30000).map(x, lists.range(30000)).flatten().size() > 0",
    "sets.contains(lists.range(100000), lists.range(100000))",
    "lists.range(50000).distinct().size() > 0",
    "lists.range(60000).map(x, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa').join().matches('(a|b|ab)*c')",
]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("expression", HEAVY)
def test_no_expression_keeps_a_worker_busy(expression: str) -> None:
    assert outcome(expression) == LIMIT


def test_no_operator_absorbs_the_end_of_the_budget() -> None:
    heavy = HEAVY[0]
    assert outcome(f"{heavy} || true") == LIMIT
    assert outcome(f"[1].exists(x, {heavy}) || true") == LIMIT


def test_values_beyond_the_api_are_counted_too() -> None:
    long = DeviceView(driver="d", attributes={"a": "x" * 10_000_000})
    expression = "device.attributes['d'].a.contains('" + "x" * 100 + "y')"
    assert outcome(expression, long) == LIMIT


def test_the_cost_of_a_failing_evaluation_is_not_known() -> None:
    with pytest.raises(CelEvaluationError):
        compile_selector("1 / 0 == 1").cost(DEVICE)
