"""Semantic versions: strict, relaxed, and their order."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.dra.semver import InvalidVersion, Semver, is_semver

STRICT = [
    "0.0.0",
    "1.2.3",
    "10.20.30",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-0A.is.legal",
    "1.0.0+build",
    "1.0.0--",
    "1.2.3-rc.1+build.5",
    "1.0.0+001",
    "18446744073709551615.0.0",
]
NOT_STRICT = [
    "",
    "1",
    "1.2",
    "v1.2.3",
    "01.2.3",
    "1.02.3",
    "1.2.03",
    "1.2.3-",
    "1.2.3+",
    "1.2.3-01",
    "1.2.3-a..b",
    "1.2.3.4",
    " 1.2.3",
    "1.2.3 ",
    "1.2.x",
    "-1.2.3",
    "1.2.3-ä",
    "18446744073709551616.0.0",
    "1.2.3+a+b",
    "٣.0.0",
]


@pytest.mark.parametrize("text", STRICT)
def test_versions_read_back(text: str) -> None:
    assert is_semver(text)
    assert str(Semver.parse(text)) == text


@pytest.mark.parametrize("text", NOT_STRICT)
def test_other_text_is_no_version(text: str) -> None:
    assert not is_semver(text)
    with pytest.raises(InvalidVersion):
        Semver.parse(text)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("1", "1.0.0"),
        ("v1", "1.0.0"),
        ("1.2", "1.2.0"),
        ("v1.2.3", "1.2.3"),
        ("01.02.03", "1.2.3"),
        ("0", "0.0.0"),
        ("00.00.00", "0.0.0"),
        ("1.2.3-rc.1+b", "1.2.3-rc.1+b"),
        ("1.2.03-alpha", "1.2.3-alpha"),
        ("1.2.00-alpha", "1.2.0-alpha"),
    ],
)
def test_relaxed_reading_completes_and_strips(text: str, normal: str) -> None:
    assert is_semver(text, relaxed=True)
    assert str(Semver.parse_relaxed(text)) == normal


@pytest.mark.parametrize(
    "text", ["", "v", "vv1", "V1.0.0", "1-alpha", "1.2-alpha", "1.2+b", "1.2.3.4", " 1.2.3", "1..2", "x"]
)
def test_relaxed_reading_has_limits(text: str) -> None:
    assert not is_semver(text, relaxed=True)


ASCENDING = [
    "0.9.9",
    "1.0.0-0",
    "1.0.0-2",
    "1.0.0-11",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.1.0",
    "2.0.0",
    "10.0.0",
]


def test_order_is_the_precedence_of_semver() -> None:
    versions = [Semver.parse(text) for text in ASCENDING]
    assert sorted(map(Semver.parse, ASCENDING[::-1])) == versions
    assert all(
        low.compare(high) == -1 and high.compare(low) == 1 for low, high in itertools.pairwise(versions)
    )


def test_build_metadata_counts_for_nothing() -> None:
    left, right = Semver.parse("1.0.0+a"), Semver.parse("1.0.0+b")
    assert left == right
    assert hash(left) == hash(right)
    assert left.compare(right) == 0


def test_a_version_is_not_equal_to_its_text() -> None:
    assert Semver.parse("1.0.0") != "1.0.0"
    assert repr(Semver.parse("1.0.0")) == "Semver('1.0.0')"


@given(st.text(alphabet="0123456789.+-avV", max_size=14))
def test_reading_never_fails_in_another_way(text: str) -> None:
    if is_semver(text):
        assert Semver.parse_relaxed(text) == Semver.parse(text)
    is_semver(text, relaxed=True)
