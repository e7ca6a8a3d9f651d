# ruff: noqa: E501 (tables of expressions read best with one case a line)
"""Whatever the text, a selector answers true, false or one of its two errors."""

from hypothesis import given, settings
from hypothesis import strategies as st

from portal.dra.cel import AttributeValue, CelCompileError, CelEvaluationError, DeviceView, compile_selector
from portal.dra.cel.library import FUNCTIONS
from portal.dra.quantity import Quantity
from portal.dra.semver import Semver
from tests.dra.selectors import DEVICE, outcome

GATES = frozenset({"DRAConsumableCapacity", "DRAListTypeAttributes"})

FRAGMENTS = [
    "device", ".", ".?", "attributes", "capacity", "driver", "[", "[?", "]", "(", ")", "{", "}", ",", ":", "?", "'a'", '"', "'", "1",
    "1u", "1.5", "-", "!", "+", "*", "/", "%", "==", "!=", "<", ">=", "&&", "||", " in ", "true", "null", "x", "has(", "size(",
    ".all(x, ", ".map(x, ", ".filter(x, ", ".exists(k, v, ", "cel.bind(x, ", "optional.of(", "quantity(", "semver(", "\n", "//",
    "b'\\x00'", "r'\\'", "'''", "\\", "\x00", "😀", "int(", "dyn(", "type(", "matches(", "0x", "9223372036854775807", "`", ";",
]  # fmt: skip


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join))
@settings(max_examples=300, deadline=None)
def test_random_fragments(expression: str) -> None:
    assert isinstance(outcome(expression, DEVICE, GATES), bool | str)


@given(st.text(max_size=40))
@settings(max_examples=200, deadline=None)
def test_random_text(expression: str) -> None:
    assert isinstance(outcome(expression, DEVICE, GATES), bool | str)


LITERALS = st.sampled_from(
    [
        "1", "-1", "0", "9223372036854775807", "1u", "0u", "1.5", "0.0", "''", "'a'", "'1Gi'", "'1.2.3'", "b'a'", "true", "false", "null",
        "[]", "[1, 2]", "['a']", "{}", "{'a': 1}", "duration('1h')", "timestamp(0)", "quantity('1Gi')", "semver('1.0.0')", "ip('::1')",
        "cidr('10.0.0.0/8')", "url('http://a')", "optional.of(1)", "optional.none()", "int", "device.driver", "x",
        "device.attributes['dra.example.com'].model", "device.attributes['dra.example.com'].index", "device.attributes",
        "device.capacity['dra.example.com'].memory", "device.attributes['dra.example.com'].version", "format.named('uri')",
    ]
)  # fmt: skip
OPERATORS = ["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "in"]
MEMBERS = sorted({name for name in FUNCTIONS if name.isidentifier()})


def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Expressions made of expressions; dyn() lets most of them pass the type checker."""
    maybe_dyn = st.one_of(inner, inner.map(lambda text: f"dyn({text})"))
    return st.one_of(
        st.builds("({} {} {})".format, maybe_dyn, st.sampled_from(OPERATORS), maybe_dyn),
        st.builds("({} ? {} : {})".format, maybe_dyn, maybe_dyn, maybe_dyn),
        st.builds("{}.{}({})".format, maybe_dyn, st.sampled_from(MEMBERS), st.one_of(st.just(""), maybe_dyn)),
        st.builds("{}.{}({}, {})".format, maybe_dyn, st.sampled_from(MEMBERS), maybe_dyn, maybe_dyn),
        st.builds("{}({})".format, st.sampled_from(MEMBERS), maybe_dyn),
        st.builds("{}[{}]".format, maybe_dyn, maybe_dyn),
        st.builds("{}[?{}]".format, maybe_dyn, maybe_dyn),
        st.builds("{}.{}".format, maybe_dyn, st.sampled_from(["a", "?a", "model"])),
        st.builds("has({}.a)".format, maybe_dyn),
        st.builds("[dyn({}), dyn({})]".format, inner, inner),
        st.builds("{{dyn({}): dyn({})}}".format, inner, inner),
        st.builds(
            "{}.{}(x, {})".format,
            maybe_dyn,
            st.sampled_from(["all", "exists", "exists_one", "map", "filter", "sortBy"]),
            maybe_dyn,
        ),
        st.builds(
            "{}.{}(i, x, {})".format,
            maybe_dyn,
            st.sampled_from(["all", "exists", "transformList", "transformMap", "transformMapEntry"]),
            maybe_dyn,
        ),
        st.builds("cel.bind(x, {}, {})".format, maybe_dyn, maybe_dyn),
        st.builds("{}.optMap(x, {})".format, maybe_dyn, maybe_dyn),
        st.builds("-{}".format, maybe_dyn),
        st.builds("!{}".format, maybe_dyn),
    )


TREES = st.recursive(LITERALS, larger, max_leaves=8)


@given(TREES)
@settings(max_examples=300, deadline=None)
def test_random_trees(expression: str) -> None:
    for text in (expression, f"cel.bind(x, dyn(1), dyn({expression}))"):
        assert isinstance(outcome(text, DEVICE, GATES), bool | str)


VALUES = st.one_of(
    st.text(max_size=5),
    st.integers(min_value=-(2**63), max_value=2**63 - 1),
    st.booleans(),
    st.just(Semver.parse("1.2.3")),
    st.lists(st.text(max_size=3), max_size=3).map(tuple),
)
DEVICES = st.builds(
    lambda driver, attributes, capacities: DeviceView(
        driver=driver,
        attributes=attributes,
        capacities={name: Quantity.from_int(amount) for name, amount in capacities.items()},
    ),
    st.sampled_from(["a", "b"]),
    st.dictionaries(st.sampled_from(["x", "y", "a/x", "b/y"]), VALUES),
    st.dictionaries(st.sampled_from(["m", "b/m"]), st.integers(min_value=0, max_value=3)),
)
SELECTORS = [
    "device.attributes['a'].x == 1",
    "device.attributes['a'].x == 'a' || device.attributes['b'].?y.orValue(false)",
    "'x' in device.attributes['a'] && device.driver == 'a'",
    "'b' in device.attributes",
    "cel.bind(b, device.attributes['b'], has(b.y) && b.y == device.attributes['a'].x)",
    "device.capacity['a'].m.isLessThan(quantity('2'))",
    "device.attributes.exists(d, device.attributes[d].exists(n, v, v == true))",
]


@given(st.lists(DEVICES, min_size=2, max_size=8), st.sampled_from(SELECTORS))
@settings(max_examples=200, deadline=None)
def test_devices_with_the_same_key_get_the_same_answer(devices: list[DeviceView], expression: str) -> None:
    selector = compile_selector(expression, features=GATES)
    answers: dict[object, bool | str] = {}
    for device in devices:
        answer = outcome(expression, device, GATES)
        assert answers.setdefault(selector.memo_key(device), answer) == answer


@given(TREES)
@settings(max_examples=150, deadline=None)
def test_counting_does_not_change_the_answer(expression: str) -> None:
    text = f"type({expression}) == int"
    try:
        selector = compile_selector(text, features=GATES)
    except CelCompileError:
        return
    try:
        answer: bool | str = selector.evaluate(DEVICE)
    except CelEvaluationError as error:
        answer = error.message
    oversized = DeviceView(
        driver="dra.example.com",
        attributes={**_flat(DEVICE), "long": "x" * 65},
        capacities={"memory": Quantity.parse("40Gi")},
    )
    try:
        counted: bool | str = selector.evaluate(oversized)
    except CelEvaluationError as error:
        counted = error.message
    assert counted == answer


def _flat(view: DeviceView) -> dict[str, AttributeValue]:
    return {
        f"{domain}/{name}": value
        for domain, values in view.attributes.items()
        for name, value in values.items()
    }
