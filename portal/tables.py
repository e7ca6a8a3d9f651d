"""Tables of pages that have several: which columns each shows, and its CSV. A page's one list is
`portal.lists`, which this leans on: columns are named in the address, and remembered per browser when a
person chooses them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import slugify

from portal.lists import COOKIE_AGE, Column


@dataclass(frozen=True)
class Table:
    """One table of a page; `name` is the same for no two tables of the desk."""

    name: str
    columns: Sequence[Column]

    @property
    def parameter(self) -> str:
        return f"{self.name}-columns"

    @property
    def default(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns if column.shown or column.fixed)

    def read(self, request: HttpRequest) -> "TableState":
        """What the address, or the browser, says of the table; anything else is the default."""
        asked = self._known(",".join(request.GET.getlist(self.parameter)))
        kept = self._known(request.COOKIES.get(self.parameter, ""))
        ours = {self.parameter, "remember", "format", "table"}
        others = [(name, value) for name in request.GET for value in request.GET.getlist(name)]
        return TableState(
            table=self,
            path=request.path,
            columns=asked or kept or self.default,
            # Of addresses that are no longer than what the desk takes.
            others=tuple((name, value) for name, value in others if name not in ours),
        )

    def _known(self, text: str) -> tuple[str, ...]:
        named = set(text.replace(".", ",").split(","))
        if not any(column.name in named for column in self.columns):
            return ()
        return tuple(column.name for column in self.columns if column.fixed or column.name in named)


@dataclass(frozen=True)
class TableState:
    """A table as one request asks for it."""

    table: Table
    path: str
    columns: tuple[str, ...]
    others: tuple[tuple[str, str], ...]

    @property
    def shows(self) -> Mapping[str, bool]:
        """``{% if tables.queues.shows.priority %}``."""
        return {column.name: column.name in self.columns for column in self.table.columns}

    @property
    def visible(self) -> list[Column]:
        return [column for column in self.table.columns if column.name in self.columns]

    @property
    def choices(self) -> list[Column]:
        return [column for column in self.table.columns if not column.fixed]

    @property
    def csv_url(self) -> str:
        others = [(name, value) for name, value in self.others if name != "page"]
        return f"?{urlencode([*others, ('format', 'csv'), ('table', self.table.name)])}"

    @property
    def default_url(self) -> str:
        return f"?{urlencode([*self.others, ('remember', self.table.name)])}"

    @property
    def id(self) -> str:
        return f"columns-{slugify(self.table.name)}"


def read(request: HttpRequest, tables: Sequence[Table]) -> dict[str, TableState]:
    """The tables of a page by the last word of their names, for templates."""
    return {table.name.rpartition("-")[2]: table.read(request) for table in tables}


def csv_wanted(request: HttpRequest) -> str:
    """The name of the table that is wanted as CSV; "" = the page."""
    return request.GET.get("table", "") if request.GET.get("format") == "csv" else ""


def remembered(request: HttpRequest, tables: Sequence[Table]) -> HttpResponse | None:
    """When a person has just chosen the columns of a table: the way back, the choice kept; else None."""
    table = next((table for table in tables if table.name == request.GET.get("remember")), None)
    if table is None:
        return None
    state = table.read(request)
    chosen = table._known(",".join(request.GET.getlist(table.parameter)))
    said: list[tuple[str, Any]] = list(state.others)
    response = HttpResponse(status=303)
    if chosen and chosen != table.default:
        said.append((table.parameter, ",".join(chosen)))
        response.set_cookie(
            table.parameter,
            ".".join(chosen),
            max_age=COOKIE_AGE,
            httponly=True,
            samesite="Lax",
            secure=settings.SESSION_COOKIE_SECURE,
        )
    else:
        response.delete_cookie(table.parameter, samesite="Lax")
    response["Location"] = f"{request.path}?{urlencode(said)}" if said else request.path
    return response
