"""What does not belong where it is, for Hypothesis: texts, trees of JSON, good things that were damaged."""

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

# `make test` tries some, `make test-long` many (by the marker of the test).
SOME, MANY = 60, 1_000

ODD = (
    *(
        "",
        " ",
        "\x00",
        "a\x00b",
        "\ufeff",
        "\u202e",
        "潮汐",
        "🦀",
        "-",
        "\r",
        "\r\n",
        "\t",
        '"',
        '""',
        "'",
        ";",
    ),
    *(
        "=1+1",
        "NaN",
        "Infinity",
        "-0",
        "1e400",
        "9" * 30,
        "0x10",
        "１２",
        "0001-01-01",
        "9999-12-31T23:59:59Z",
    ),
    *("1970-01-01T00:00:00+99:99", "2026-02-30", "null", "true", "x" * 2000, "%s", "{{ 7*7 }}", "../.."),
)
TEXTS = st.sampled_from(ODD) | st.text(max_size=30)
NUMBERS = st.integers() | st.sampled_from([2**31, 2**63, -(2**63) - 1, 10**30]) | st.floats(allow_nan=False)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def trying(examples: int) -> Callable[[Any], Any]:
    """The settings of a test that tries so many, the same ones every time."""
    return settings(
        max_examples=int(os.environ.get("CLAIMDESK_FUZZ", examples)), derandomize=True, database=None,
        deadline=None, suppress_health_check=list(HealthCheck),
    )  # fmt: skip


def told(*reasons: object) -> None:
    """Whoever refuses something says why."""
    for reason in reasons:
        assert str(reason)


@st.composite
def damaged(draw: st.DrawFn, good: Any) -> Any:
    """A tree of JSON with something else at one to three of its places, or without them."""
    tree = copy.deepcopy(good)
    for _time in range(draw(st.integers(1, 3))):
        place: Any = tree
        while isinstance(place, dict | list) and place:
            key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
            if not isinstance(place[key], dict | list) or not place[key] or draw(st.integers(0, 3)) == 0:
                if draw(st.booleans()):
                    place[key] = draw(TREES)
                else:
                    del place[key]
                break
            place = place[key]
    return tree


@st.composite
def tables(draw: st.DrawFn, columns: tuple[str, ...], values: Mapping[str, Sequence[str]]) -> str:
    """CSV: mostly with the right columns and sometimes good values, and sometimes anything."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.text(max_size=200))
    header = draw(st.permutations(columns)) if draw(st.booleans()) else list(columns)
    if draw(st.integers(0, 5)) == 0:
        header = [*header, draw(TEXTS)][draw(st.integers(0, 1)) :]
    delimiter = draw(st.sampled_from(",;\t"))
    lines = [delimiter.join(header)]
    for _line in range(draw(st.integers(0, 4))):
        cells = [
            draw(st.sampled_from(values.get(name, ("",))) if draw(st.integers(0, 2)) else TEXTS)
            for name in header
        ]
        quoted = draw(st.booleans())
        lines.append(
            delimiter.join('"' + cell.replace('"', '""') + '"' if quoted else cell for cell in cells)
        )
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    return draw(st.sampled_from(["", "\ufeff"])) + end.join(lines) + draw(st.sampled_from(["", end, '"']))
