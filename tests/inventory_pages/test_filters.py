"""A search is its address: parsed, written back, and harmless whatever somebody types."""

import pytest
from django.http import QueryDict

from inventory.filters import MAX_TEXT, MAX_VALUES, DeviceFilter


def parse(query: str) -> DeviceFilter:
    return DeviceFilter.parse(QueryDict(query))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", DeviceFilter()),
        ("q=++h100+berlin+", DeviceFilter(text="h100 berlin")),
        ("driver=a&driver=b", DeviceFilter(chosen={"driver": ("a", "b")})),
        ("state=free&state=free&state=", DeviceFilter(chosen={"state": ("free",)})),
        ("class=big&unknown=1", DeviceFilter(chosen={"class": ("big",)})),
        ("sort=-memory", DeviceFilter(sort="memory", descending=True)),
        ("sort=product", DeviceFilter(sort="product")),
        ("sort=-node", DeviceFilter(descending=True)),
        ("sort=password", DeviceFilter()),
        ("sort=--memory", DeviceFilter()),
        ("sort=-", DeviceFilter()),
        ("q=a%00b&node=%00", DeviceFilter(text="ab")),
    ],
)
def test_a_query_string_is_read(query: str, expected: DeviceFilter) -> None:
    assert parse(query) == expected


@pytest.mark.parametrize(
    "query", ["", "q=h100&state=free&driver=a&driver=b&sort=-memory", "q=a%26b%3Dc&product=100%25+%C3%A9"]
)
def test_what_is_written_reads_back(query: str) -> None:
    wanted = parse(query)
    assert parse(wanted.query()) == wanted


def test_lengths_are_bounded() -> None:
    wanted = parse("q=" + "x" * 5000 + "".join(f"&node=n{i}" for i in range(500)) + "&product=" + "y" * 5000)
    assert len(wanted.text) == MAX_TEXT
    assert len(wanted.values("node")) == MAX_VALUES
    assert [len(value) for value in wanted.values("product")] == [MAX_TEXT]


def test_a_value_is_switched_on_and_off() -> None:
    on = DeviceFilter().toggled("state", "free")
    assert on.values("state") == ("free",)
    assert on.toggled("state", "free") == DeviceFilter()
