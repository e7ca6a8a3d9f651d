"""Lists: what an address says of one – words, facets, order, page, columns – and what goes with it.

A list declares its columns and facets once (`Listing`). A view reads the request with it (`read`), narrows
and counts its own queryset with what was read (`ListState`), and answers as it likes; the tags of
`portal.templatetags.lists` draw the search, the facets, the header row, the choice of columns and the link to
CSV. Nothing here fetches, renders or exports for a view.

The address carries all of it, so that a view can be shared. The choice of columns is remembered besides, per
browser, when a person makes it (``remember=1``); a shared address shows its columns and changes nobody's own.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any, TypeVar
from urllib.parse import urlencode
from zlib import crc32

from django.conf import settings
from django.core.paginator import Page
from django.db.models import Count, F, Model, Q, QuerySet
from django.db.models.expressions import OrderBy
from django.http import HttpRequest, HttpResponse
from django_stubs_ext import StrOrPromise

from portal import htmx, texts
from portal.paging import paged

M = TypeVar("M", bound=Model)

# As long as the longest name of Kubernetes.
MAX_TEXT = 253
MAX_TERMS = 5
MAX_VALUES = 50
# Values of a facet that are offered; a chosen one is among them whatever its count.
VALUES_OFFERED = 30
PAGE_SIZE = 50
COOKIE_AGE = 365 * 24 * 3600


@dataclass(frozen=True)
class Column:
    """A column of a table. `order` is what the database sorts by, empty where it cannot; `nullable` says that
    the unknown sorts below all that is known. A `fixed` column is always there."""

    name: str
    label: StrOrPromise
    order: tuple[str, ...] = ()
    css: str = ""
    shown: bool = True
    fixed: bool = False
    nullable: bool = False


@dataclass(frozen=True)
class Choice:
    """A facet: values of one `column` (of the row itself or of one that it points to), or named `conditions`
    where no column says it; `together` names some values of the column at once. `labels` are the words for
    values, in the order in which they are offered; other values stand for themselves, the most frequent
    first."""

    name: str
    label: StrOrPromise
    column: str = ""
    conditions: Mapping[str, Q] = field(default_factory=dict)
    together: Mapping[str, Collection[str]] = field(default_factory=dict)
    labels: Mapping[str, StrOrPromise] = field(default_factory=dict)

    def admits(self, values: Iterable[str]) -> Q:
        """The rows that have any of these values."""
        if self.column:
            wanted = {one for value in values for one in self.together.get(value, (value,))}
            return Q((f"{self.column}__in", sorted(wanted)))
        return reduce(or_, (self.conditions[v] for v in values if v in self.conditions), Q(pk__in=()))

    def counts(self, rows: "QuerySet[Any]") -> dict[str, int]:
        """How many of the rows have which value; one query."""
        if self.column:
            grouped = rows.order_by().values_list(self.column).annotate(Count("pk"))
            found = {str(value): count for value, count in grouped if value not in (None, "")}
            sums = {name: sum(found.get(one, 0) for one in of) for name, of in self.together.items()}
            return found | sums
        if len(self.conditions) == 1:
            # An index may have them.
            return {name: rows.filter(condition).count() for name, condition in self.conditions.items()}
        named = {f"n{place}": Count("pk", filter=q) for place, q in enumerate(self.conditions.values())}
        found = rows.order_by().aggregate(**named)
        return dict(zip(self.conditions, (found[name] for name in named), strict=True))


@dataclass(frozen=True)
class Value:
    """One value of a facet, as it is offered."""

    value: str
    label: StrOrPromise
    count: int
    chosen: bool
    # Of its checkbox: the same however often the list is drawn anew, so that it keeps the focus.
    id: str


@dataclass(frozen=True)
class Facet:
    name: str
    label: StrOrPromise
    values: Sequence[Value]
    # There are values that are not listed (nodes of a large fleet): they are found by typing.
    more: bool = False

    @property
    def chosen(self) -> int:
        return sum(value.chosen for value in self.values)


@dataclass(frozen=True)
class Listing:
    """What a list can show and be asked for. `search` names the columns that words are looked for in; `keeps`
    are further parameters that its links carry along; `sort` is the order when none is asked for ("-" turns
    it round)."""

    name: str
    columns: Sequence[Column]
    facets: Sequence[Choice] = ()
    search: Sequence[str] = ()
    sort: str = ""
    keeps: Sequence[str] = ()

    @property
    def cookie(self) -> str:
        return f"columns-{self.name}"

    def read(self, request: HttpRequest) -> "ListState":
        """What the request asks of the list; anything that is not understood falls back to the default."""
        params = request.GET
        facets = {facet.name for facet in self.facets}
        chosen = {name: found for name in facets if (found := values(params.getlist(name)))}
        asked = params.get("sort", "") or self.sort
        sortable = {column.name for column in self.columns if column.order}
        if asked.removeprefix("-") not in sortable:
            asked = self.sort
        explicit = self._columns(",".join(params.getlist("columns")))
        return ListState(
            listing=self,
            path=request.path,
            text=clean_text(params.get("q", "")),
            chosen={facet.name: chosen[facet.name] for facet in self.facets if facet.name in chosen},
            sort=asked.removeprefix("-"),
            descending=asked.startswith("-"),
            columns=explicit or self._columns(request.COOKIES.get(self.cookie, "")) or self.default_columns,
            columns_in_address=bool(explicit),
            page_asked=params.get("page", ""),
            wants_csv=params.get("format") == "csv",
            extra={name: clean_text(params[name], limit=4_000) for name in self.keeps if params.get(name)},
        )

    def without(self, name: str) -> "Listing":
        """The same list where one facet is no choice, and its column not worth showing at first: a desk with
        one cluster need not be told which."""
        return replace(
            self,
            columns=[replace(c, shown=False) if c.name == name else c for c in self.columns],
            facets=[facet for facet in self.facets if facet.name != name],
        )

    @property
    def default_columns(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns if column.shown or column.fixed)

    def remembered(self, request: HttpRequest) -> HttpResponse | None:
        """When a person has just chosen columns: the way back to the list, the choice kept; else None."""
        if "remember" not in request.GET:
            return None
        chosen = self._columns(",".join(request.GET.getlist("columns")))
        state = replace(
            self.read(request),
            columns=chosen or self.default_columns,
            columns_in_address=bool(chosen) and chosen != self.default_columns,
        )
        response = HttpResponse(status=303)
        response["Location"] = f"{request.path}{state.href()}"
        if state.columns_in_address:
            response.set_cookie(
                self.cookie,
                ".".join(chosen),
                max_age=COOKIE_AGE,
                httponly=True,
                samesite="Lax",
                secure=settings.SESSION_COOKIE_SECURE,
            )
        else:
            response.delete_cookie(self.cookie, samesite="Lax")
        return response

    def _columns(self, text: str) -> tuple[str, ...]:
        """Known columns among those named, in the list's order, the fixed ones always; () for none."""
        named = set(text.replace(".", ",").split(","))
        if not any(column.name in named for column in self.columns):
            return ()
        return tuple(column.name for column in self.columns if column.fixed or column.name in named)


@dataclass(frozen=True)
class ListState:
    """One request for a list, understood."""

    listing: Listing
    path: str
    text: str
    chosen: Mapping[str, tuple[str, ...]]
    sort: str
    descending: bool
    columns: tuple[str, ...]
    # Whether the address names the columns (else they are one's own, or the default).
    columns_in_address: bool
    page_asked: str = ""
    wants_csv: bool = False
    extra: Mapping[str, str] = field(default_factory=dict)

    # --- for templates -----------------------------------------------------------------------------

    @property
    def shows(self) -> Mapping[str, bool]:
        """``{% if list.shows.memory %}``."""
        # Every column is in it: a name that a template looks up in vain costs more than the answer.
        return {column.name: column.name in self.columns for column in self.listing.columns}

    @property
    def visible(self) -> list[Column]:
        return [column for column in self.listing.columns if column.name in self.columns]

    @property
    def narrows(self) -> bool:
        """Whether anything but order and columns was chosen."""
        return bool(self.text or self.chosen)

    def values(self, facet: str) -> tuple[str, ...]:
        return self.chosen.get(facet, ())

    # --- addresses ---------------------------------------------------------------------------------

    def pairs(self, **changes: str | int) -> list[tuple[str, str]]:
        """The parameters of this view, defaults left out; `changes` replaces some ("" takes one away)."""
        said: list[tuple[str, str]] = []
        if self.text:
            said.append(("q", self.text))
        said += [(facet, value) for facet, chosen in self.chosen.items() for value in chosen]
        said += list(self.extra.items())
        order = ("-" if self.descending else "") + self.sort
        if order != self.listing.sort:
            said.append(("sort", order))
        if self.columns_in_address:
            said.append(("columns", ",".join(self.columns)))
        said = [(name, value) for name, value in said if name not in changes]
        return said + [(name, str(value)) for name, value in changes.items() if value != ""]

    def href(self, **changes: str | int) -> str:
        """A link to this view with some parameters replaced, from its first page on."""
        return f"?{urlencode(self.pairs(**changes))}"

    @property
    def here(self) -> str:
        """The address of this view, page and all: for a part that asks for itself again."""
        return self.path + self.href(page=self.page_asked if self.page_asked.isdigit() else "")

    def toggled(self, facet: str, value: str) -> str:
        """A link to this view with one value of a facet switched on or off."""
        now = self.values(facet)
        then = tuple(v for v in now if v != value) if value in now else (*now, value)
        chosen = {**self.chosen, facet: then}
        return replace(self, chosen={name: found for name, found in chosen.items() if found}).href()

    def sorted_by(self, column: str) -> str:
        """A link to this view in the order of a column; the one in force turns round."""
        turned = column == self.sort and not self.descending
        return replace(self, sort=column, descending=turned).href()

    # --- rows --------------------------------------------------------------------------------------

    def narrowed(self, rows: "QuerySet[M]", *, but: str = "") -> "QuerySet[M]":
        """The rows that the words and the facets admit; `but` names a facet whose choice is ignored."""
        for term in terms(self.text):
            places = (Q((f"{column}__icontains", term)) for column in self.listing.search)
            rows = rows.filter(reduce(or_, places, Q(pk__in=())))
        for facet in self.listing.facets:
            if facet.name != but and (chosen := self.values(facet.name)):
                rows = rows.filter(facet.admits(chosen))
        return rows

    def ordered(self, rows: "QuerySet[M]") -> "QuerySet[M]":
        """The rows in the order that was asked for; the same at every look."""
        column = next((c for c in self.listing.columns if c.name == self.sort), None)
        order: list[str | OrderBy] = []
        for name in column.order if column else ():
            down = name.startswith("-") != self.descending
            by = F(name.removeprefix("-"))
            if column and column.nullable:
                order.append(by.desc(nulls_last=True) if down else by.asc(nulls_first=True))
            else:
                order.append(by.desc() if down else by.asc())
        return rows.order_by(*order, "-pk" if self.descending else "pk")

    def page(
        self,
        rows: "QuerySet[M] | Sequence[QuerySet[M]]",
        *,
        size: int = PAGE_SIZE,
        at_most: int | None = None,
    ) -> "Page[M]":
        """The page of these (narrowed) rows that was asked for, in order; of the first `at_most`. Rows in
        parts are for a list of one order: each part comes wholly before the next, or after it where the order
        is turned round."""
        parts = [rows] if isinstance(rows, QuerySet) else rows
        turned = self.descending != self.listing.sort.startswith("-")
        ordered = [self.ordered(part) for part in (reversed(parts) if turned else parts)]
        return paged(ordered, size=size, at_most=at_most).get_page(self.page_asked)

    def facets(self, rows: "QuerySet[Any]") -> list[Facet]:
        """Every facet with the counts that the other choices leave, of rows that are not narrowed yet; one
        query each."""
        return [self.facet(c, c.counts(self.narrowed(rows, but=c.name))) for c in self.listing.facets]

    def facet(self, choice: Choice, counts: Mapping[str, int]) -> Facet:
        """A facet as it is offered, from counts that somebody else made."""
        labels = choice.labels or {name: name for name in choice.conditions}
        return offered(choice.name, choice.label, counts, chosen=self.values(choice.name), labels=labels)


# --- answers ------------------------------------------------------------------------------------------


def answer(
    request: HttpRequest,
    template: str,
    context: Mapping[str, Any],
    *,
    state: ListState,
    partial: str = "rows",
) -> HttpResponse:
    """The page, or for htmx its `partial`; then the address follows, written as a person would."""
    response = htmx.render(request, template, {**context, "list": state}, partial=partial)
    if htmx.wants_partial(request) and htmx.details(request).trigger == "list-form":
        response["HX-Push-Url"] = state.here.removesuffix("?")
    return response


# --- parts --------------------------------------------------------------------------------------------


def offered(
    name: str,
    label: StrOrPromise,
    counts: Mapping[str, int],
    *,
    chosen: Sequence[str] = (),
    labels: Mapping[str, StrOrPromise] | None = None,
    at_most: int = VALUES_OFFERED,
) -> Facet:
    """A facet from counts: chosen values, whatever their count, and others that have any."""
    words = labels or {}
    places = {value: place for place, value in enumerate(words)}
    found = {value for value, count in counts.items() if value and count} | set(chosen)
    order = sorted(found, key=lambda v: (places.get(v, len(places)), -counts.get(v, 0), v))
    kept = [v for place, v in enumerate(order) if place < at_most or v in chosen]
    return Facet(
        name,
        label,
        [Value(v, words.get(v, v), counts.get(v, 0), v in chosen, value_id(name, v)) for v in kept],
    )


def value_id(facet: str, value: str) -> str:
    """An id for the checkbox of a value, whatever characters it has."""
    return f"{facet}-{crc32(value.encode()):08x}"


def values(raw: Iterable[str]) -> tuple[str, ...]:
    """Chosen values of one parameter, cleaned, each once."""
    return tuple(dict.fromkeys(value for value in map(clean_text, raw) if value))[:MAX_VALUES]


def terms(text: str) -> list[str]:
    """The words of a search; all of them must be found."""
    return text.split()[:MAX_TERMS]


def clean_text(text: str, *, limit: int = MAX_TEXT) -> str:
    """What a person typed, fit for a search: in the one form of texts, of bounded length."""
    return texts.searched(text, limit=limit)
