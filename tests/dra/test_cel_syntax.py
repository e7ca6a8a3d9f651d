# ruff: noqa: E501 (tables of expressions read best with one case a line)
"""Compile errors: where they are, what they say, and what is too long or too deep."""

import threading

import pytest

from portal.dra.cel import CelCompileError, compile_selector
from tests.dra.selectors import outcome


def failure(expression: str) -> CelCompileError:
    with pytest.raises(CelCompileError) as caught:
        compile_selector(expression)
    return caught.value


@pytest.mark.parametrize(
    ("expression", "line", "column", "message"),
    [
        ("nothing == 1", 1, 1, "undeclared reference to 'nothing' (in container '')"),
        ("1 == 1 && nothing", 1, 11, "undeclared reference to 'nothing' (in container '')"),
        ("true &&\n  nothing", 2, 3, "undeclared reference to 'nothing' (in container '')"),
        ("// first\n\n1 == 'a'", 3, 3, "found no matching overload for '_==_' applied to '(int, string)'"),
        ("device.nothing", 1, 7, "undefined field 'nothing'"),
        ("'ä' == nothing", 1, 8, "undeclared reference to 'nothing' (in container '')"),
        ("'😀' == nothing", 1, 8, "undeclared reference to 'nothing' (in container '')"),
        ("size(1) == 1", 1, 5, "found no matching overload for 'size' applied to '(int)'"),
        ("'a'.size(1) == 1", 1, 9, "found no matching overload for 'size' applied to 'string.(int)'"),
        ("has(1)", 1, 5, "invalid argument to has() macro"),
        ("[1].all(1, true)", 1, 9, "argument must be a simple name"),
        ("[1, 'a'] == []", 1, 5, "expected type 'int' but found 'string'"),
        (
            "1.all(x, true)",
            1,
            1,
            "expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        ("Message{}", 1, 8, "undeclared reference to 'Message' (in container '')"),
        ("99999999999999999999 == 1", 1, 1, "invalid int literal"),
        ("for == 1", 1, 1, "reserved identifier: for"),
        ("'a'.matches('(')", 1, 13, "invalid matches argument"),
        ("1 +", 1, 4, "Syntax error: expected a value, but the expression ends"),
        ("(1 == 1", 1, 8, "Syntax error: expected ')' to close the parenthesis, but the expression ends"),
        ("1 == 1)", 1, 7, "Syntax error: expected an operator or the end, but found ')'"),
        ("true true", 1, 6, "Syntax error: expected an operator or the end, but found 'true'"),
        ("'abc", 1, 1, "Syntax error: this string literal is not closed"),
        ("true\x00", 1, 5, "Syntax error: the character U+0000 does not belong here"),
        ("a # b", 1, 3, "Syntax error: the character '#' does not belong here"),
        ("", 1, 1, "Syntax error: expected an expression, but the expression ends"),
    ],
)
def test_errors_say_where_and_what(expression: str, line: int, column: int, message: str) -> None:
    error = failure(expression)
    assert (error.line, error.column, error.message) == (line, column, message)


def test_a_wrong_result_type_is_the_fault_of_the_whole() -> None:
    error = failure("device.driver")
    assert (error.line, error.column) == (0, 0)
    assert str(error) == error.message


def test_the_limit_of_length_counts_bytes() -> None:
    filler = "true" + " " * (10 * 1024 - 4)
    assert outcome(filler) is True
    assert outcome(filler + " ") == "compile: must not be longer than 10240 bytes"
    assert outcome("'" + "ä" * 5119 + "' == ''") == "compile: must not be longer than 10240 bytes"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("(" * 249 + "true" + ")" * 249, True),
        ("(" * 250 + "true" + ")" * 250, "compile: expression recursion limit exceeded: 250"),
        ("(" * 5000 + "true" + ")" * 5000, "compile: expression recursion limit exceeded: 250"),
        ("[" * 300 + "]" * 300 + " == []", "compile: expression recursion limit exceeded: 250"),
        ("!" * 5000 + "true", True),
        ("1 + " * 249 + "1 == 250", True),
        ("1 + " * 250 + "1 == 251", "compile: max recursion depth exceeded"),
        ("device" + ".a" * 251, "compile: max recursion depth exceeded"),
        ("{}" + ".a" * 249 + " == 1 || true", True),
        ("dyn([])" + "[0]" * 300 + " == 1", "compile: max recursion depth exceeded"),
        # Operators of different sorts count together.
        ("{}" + ".a" * 125 + " + 1" * 126 + " == 1 || true", "compile: max recursion depth exceeded"),
        ("true && " * 1000 + "true", True),
        ("false ? true : " * 300 + "true", "compile: expression recursion limit exceeded: 250"),
        ("[1].all(x, " * 200 + "true" + ")" * 200, True),
        ("[[1].size() + " * 100 + "1" + "][0]" * 100 + " > 0", True),
        ("-(" * 240 + "1" + ")" * 240 + " == 1", True),
        ("[0].map(x, " * 120 + "x" + ")" * 120 + ".size() == 1", True),
    ],
)
def test_nesting_up_to_the_limit_and_beyond(expression: str, expected: bool | str) -> None:
    assert outcome(expression) == expected


def test_types_that_double_with_every_level_are_refused() -> None:
    bindings = "".join(f"cel.bind(v{n + 1}, {{v{n}: v{n}}}, " for n in range(60))
    expression = f"cel.bind(v0, {{1: 1}}, {bindings}v60 == v60{')' * 61}"
    assert outcome(expression) == "compile: the types of this expression are too complex"


def test_deep_expressions_work_in_threads_too() -> None:
    expression = "(" * 240 + "device.driver == 'x'" + ")" * 240
    answers: list[bool | str] = []
    threads = [threading.Thread(target=lambda: answers.append(outcome(expression))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [False] * 3


def test_lone_surrogates_are_replaced_as_in_the_api() -> None:
    assert outcome("'\ud800' == '\ufffd'") is True


def test_line_breaks_of_all_kinds_count_once() -> None:
    assert failure("true &&\r\nnothing").line == 2


def test_errors_are_raised_anew_each_time() -> None:
    assert failure("nothing") is not failure("nothing")


@pytest.mark.parametrize(
    ("expression", "excerpt"),
    [
        (
            "true && nothing",
            "ERROR: <input>:1:9: undeclared reference to 'nothing' (in container '')\n | true && nothing\n | ........^",
        ),
        (
            "true &&\n\t'ä' == nothing",
            "ERROR: <input>:2:9: undeclared reference to 'nothing' (in container '')\n |  'ä' == nothing\n | ..．.....^",
        ),
        (
            "1 == 1 ä",
            "ERROR: <input>:1:8: Syntax error: the character 'ä' does not belong here\n | 1 == 1 ä\n | .......＾",
        ),
        (
            "1 +",
            "ERROR: <input>:1:4: Syntax error: expected a value, but the expression ends\n | 1 +\n | ...^",
        ),
        ("device.driver", "must evaluate to bool or the unknown type, not string"),
    ],
)
def test_excerpts_point_at_the_place(expression: str, excerpt: str) -> None:
    assert failure(expression).excerpt(expression) == excerpt
