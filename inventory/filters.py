"""What somebody looks for among the devices, as the address of a page or a REST call carries it.

The same parameters serve the device list, its CSV export and ``/api/v1/devices/``, so a view can be shared
as a link and fetched by a script. Unknown parameters are ignored, as everywhere on the web; unknown *values*
are kept (a product that left the fleet matches nothing, it does not silently widen the search).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlencode

from django.http import QueryDict

from portal.lists import MAX_TEXT, MAX_VALUES, clean_text, terms, values

__all__ = ["MAX_TEXT", "MAX_VALUES", "DeviceFilter", "clean_text"]

# A dimension of the device list: its parameter may repeat, values of one facet widen, facets narrow each
# other.
FACETS = (
    *("state", "health", "backend", "cluster", "vendor", "product", "kind", "memory"),
    *("driver", "class", "node", "pool"),
)
# Columns that a list can be sorted by; "node" (then device name) is the order of the racks and the default.
SORTS = ("node", "product", "driver", "memory", "state", "cluster")
DEFAULT_SORT = "node"
# An expression travels in the address; servers and proxies bound its length.
MAX_EXPRESSION = 2_000


@dataclass(frozen=True)
class DeviceFilter:
    """Free text (all words must match), chosen values per facet, a CEL expression, and the order."""

    text: str = ""
    chosen: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sort: str = DEFAULT_SORT
    descending: bool = False
    # As a DeviceClass would have it; "" for none. One that cannot be read matches nothing.
    expression: str = ""

    @classmethod
    def parse(cls, params: QueryDict) -> "DeviceFilter":
        """Reads a query string; anything that is not understood falls back to the default."""
        chosen = {facet: found for facet in FACETS if (found := values(params.getlist(facet)))}
        asked = params.get("sort", "")
        sort = asked.removeprefix("-")
        known = sort in SORTS
        return cls(
            text=clean_text(params.get("q", "")),
            chosen=chosen,
            sort=sort if known else DEFAULT_SORT,
            descending=known and asked.startswith("-"),
            expression=clean_expression(params.get("cel", "")),
        )

    @property
    def terms(self) -> list[str]:
        return terms(self.text)

    @property
    def narrows(self) -> bool:
        """Whether anything but the order was chosen."""
        return bool(self.text or self.chosen or self.expression)

    def values(self, facet: str) -> tuple[str, ...]:
        return self.chosen.get(facet, ())

    def without(self, facet: str) -> "DeviceFilter":
        """The same search, any value of one facet."""
        return replace(self, chosen={name: values for name, values in self.chosen.items() if name != facet})

    def only(self, facet: str, value: str) -> "DeviceFilter":
        """The same search with this one value of a facet."""
        return replace(self, chosen={**self.without(facet).chosen, facet: (value,)})

    def toggled(self, facet: str, value: str) -> "DeviceFilter":
        """The same search with one value of a facet switched on or off."""
        now = self.values(facet)
        then = tuple(v for v in now if v != value) if value in now else (*now, value)
        rest = self.without(facet).chosen
        return replace(self, chosen={**rest, facet: then} if then else rest)

    def sorted_by(self, sort: str) -> "DeviceFilter":
        """The same search in another order; the column in force turns round."""
        return replace(self, sort=sort, descending=sort == self.sort and not self.descending)

    def query(self, **more: str | int) -> str:
        """The query string that `parse` reads back, defaults left out."""
        pairs: list[tuple[str, str]] = []
        if self.text:
            pairs.append(("q", self.text))
        pairs += [(facet, value) for facet in FACETS for value in self.values(facet)]
        if self.expression:
            pairs.append(("cel", self.expression))
        if self.sort != DEFAULT_SORT or self.descending:
            pairs.append(("sort", ("-" if self.descending else "") + self.sort))
        pairs += [(name, str(value)) for name, value in more.items()]
        return urlencode(pairs)


def clean_expression(text: str) -> str:
    """A CEL expression as typed. One that is too long keeps a character too much, to be refused rather than
    cut into another."""
    return clean_text(text.replace("\r\n", "\n"), limit=MAX_EXPRESSION + 1)


def is_number(text: str) -> bool:
    """Whether a value of a facet is a number that a column can hold."""
    return text.isascii() and text.isdigit() and len(text) < 19
