"""The table says where it cannot be read."""

import pytest

from tests.access.table import COLUMNS, PATH, aligned, line, read


def row(**cells: str) -> str:
    values = dict.fromkeys(COLUMNS, "200") | {"call": "GET home", "with": "", "records": ""} | cells
    return "| " + " | ".join(values[column] for column in COLUMNS) + " |"


def test_a_row_is_read_and_written_back() -> None:
    written = row(**{"with": "slug=tides pk=finding"})

    (found,) = read(f"# Heading\n\n|-|-|\n{written}\n\nMore words.\n")

    assert (found.method, found.name) == ("GET", "home")
    assert found.arguments == {"slug": "tides", "pk": "finding"}
    assert line(found) == written


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("| GET home | 200 |", "has 2 cells"),
        (row(call="home"), "no method and URL name"),
        (row(owner="yes"), "is no status"),
        (row(call="POST home"), "say what they record"),
        (row(records="home.read"), "say what they record"),
    ],
)
def test_a_line_that_is_no_row_is_named(broken: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        read(f"\n{broken}")

    assert "table.md:2" in str(refused.value)


def test_the_columns_of_a_section_are_those_of_its_head() -> None:
    head = row(call="call", **{"with": "with", "records": "records"} | {name: name for name in COLUMNS[2:10]})
    short = head.replace("| 200 ", "")

    (found,) = read(f"{short}\n| GET home |  |{' 200 |' * 8}  |")

    assert set(found.expected) == set(COLUMNS[2:10])


def test_columns_are_put_below_each_other() -> None:
    text = "words\n\n| a | bb |\n|-|-|\n| ccc | d |\n"

    assert aligned(text) == "words\n\n| a   | bb |\n|-----|----|\n| ccc | d  |\n"
    assert read(aligned(PATH.read_text())) == read()
