"""REST of use and cost: charges put together by what the caller names.

What a person may not see, their token may not see. Numbers are decimals with a point in every language.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar

from django.conf import settings
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import exceptions
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims.models import Charge
from claims.money.held import Held
from claims.money.months import zone_named
from claims.money.usage import DIMENSIONS, TIMES, Row, Wanted, hours, quantities, rows_of, totals
from claims.money.versions import version
from claims.rest.answers import ProblemOut, refuse_unknown
from claims.rest.cursors import AS_OF, carried, counted_until, page_of
from claims.rest.streams import RENDERERS, Formats, etag_of, is_streamed, not_modified, streamed, utc
from claims.rest.usage_answers import UsageOut
from portal import money
from portal.accounts.models import ApiToken, User
from portal.api import ApiView

R = TypeVar("R", Row, Held)

FILTERS = [
    OpenApiParameter("from", description="A date, in the organisation's time zone, or an ISO 8601 time."),
    OpenApiParameter("to", description="The same; a date includes that day, a time is exclusive."),
    OpenApiParameter("billed", description="Only what is billed in this month, such as 2026-03; with neither "
                     "`from` nor `to` all of it, whenever it was: what the month's statements say."),
    OpenApiParameter("project", description="Slug; `unattributed`: what nobody is known to pay for."),
    OpenApiParameter("cost_centre", description="Code."),
    OpenApiParameter("person", description="User name; only where the caller may know persons."),
    OpenApiParameter("cluster", description="Name."),
    OpenApiParameter("product", description="Product."),
    OpenApiParameter("class", description="DeviceClass."),
    OpenApiParameter("profile", description="Digest of the device's profile."),
    OpenApiParameter("kind", enum=Charge.Kind.values, description="Only charges of this kind."),
]  # fmt: skip
FORMAT = [
    OpenApiParameter("format", enum=["json", "csv", "ndjson"], description="`csv` and `ndjson` stream all "
                     "rows at once; `Accept` may ask for them, too."),
    OpenApiParameter("If-None-Match", location=OpenApiParameter.HEADER, description="The `ETag` of an "
                     "earlier answer: 304 where nothing has changed since."),
]  # fmt: skip
GROUP_BY = OpenApiParameter(
    "group_by", description=f"Names with commas between: {', '.join((*DIMENSIONS, *TIMES))}."
)
PAGES = [
    OpenApiParameter("limit", OpenApiTypes.INT, description="Rows of a page; 100, at most 1000."),
    OpenApiParameter("cursor", description="Where a page begins: as `next` has it."),
    AS_OF,
]
_EXAMPLE = OpenApiExample(
    "March by project",
    value={
        "start": "2026-03-01T00:00:00Z", "end": "2026-04-01T00:00:00Z", "as_of": "2026-04-01T00:00:00Z",
        "billed": None, "group_by": ["project"], "next": None,
        "results": [
            {"project": "protein-folding", "unit": "device", "per": "", "unit_hours": "2.000000",
             "currency": "EUR", "amount": "5.00", "exact_numerator": "5", "exact_denominator": "1"},
        ],
        "totals": [
            {"currency": "EUR", "amount": "5.00", "exact_numerator": "5", "exact_denominator": "1"},
        ],
        "quantities": [{"unit": "device", "per": "", "unit_hours": "2.000000"}],
    },
    response_only=True,
    media_type="application/json",
)  # fmt: skip


def answers(out: Any) -> dict[Any, Any]:
    return {
        (200, "application/json"): out,
        (200, "text/csv"): OpenApiTypes.STR,
        (200, "application/x-ndjson"): OpenApiTypes.STR,
        304: OpenApiResponse(description="Nothing has changed."),
        400: ProblemOut,
        404: ProblemOut,
    }


class UsageView(ApiView):
    """What was used and what it costs, of charges as they are rated: by project, cost centre, person,
    cluster, product, class, profile, kind, and by hour, day or month."""

    required_scope = ApiToken.Scope.CHARGEBACK
    renderer_classes = RENDERERS
    content_negotiation_class = Formats

    @extend_schema(
        tags=["chargeback"],
        parameters=[
            GROUP_BY,
            *FILTERS,
            *PAGES,
            *FORMAT,
        ],
        responses=answers(UsageOut),
        examples=[_EXAMPLE],
    )  # fmt: skip
    def get(self, request: ApiRequest) -> HttpResponseBase:
        """Rows in order of what they are grouped by; totals are those of all pages."""
        now = counted_until(request)
        return put_together(request, wanted_of(request, now), viewer=self.person, now=now, name="usage")


def put_together(
    request: ApiRequest, wanted: Wanted, *, viewer: User, now: datetime, name: str
) -> HttpResponseBase:
    """The answer in rows by `wanted.group_by`: a page, or a stream; 304 to who has it. `name` is what a file
    is called."""
    return answer(
        request,
        wanted,
        viewer=viewer,
        now=now,
        name=name,
        columns=MEASURED,
        find=lambda: rows_of(wanted, viewer=viewer, now=now),
        tell=lambda row: group_row(row, wanted.group_by),
        whole=sums,
    )


def answer(
    request: ApiRequest,
    wanted: Wanted,
    *,
    viewer: User,
    now: datetime,
    name: str,
    columns: Sequence[str],
    find: Callable[[], Sequence[R]],
    tell: Callable[[R], Mapping[str, Any]],
    whole: Callable[[Sequence[R]], dict[str, Any]],
) -> HttpResponseBase:
    """The same of rows of any kind: how they are found, told one by one (`columns` besides the groups), and
    what is said of all of them beside a page."""
    etag = etag_of(
        request.get_full_path(), request.accepted_renderer.format, version(wanted, viewer=viewer, now=now)
    )
    if (known := not_modified(request, etag)) is not None:
        return known
    rows = find()
    response: HttpResponseBase
    if is_streamed(request):
        told = written(request, map(tell, rows))
        response = streamed(request, told, columns=(*wanted.group_by, *columns), name=name)
    else:
        page, following = page_of(request, rows, key=lambda row: [*row.key.groups, *row.key[1:]])
        response = Response(
            frame(wanted, now=now)
            | {
                "next": carried(following, now),
                "results": [as_json(tell(row)) for row in page],
            }
            | whole(rows)
        )
    response["ETag"] = etag
    return response


def frame(wanted: Wanted, *, now: datetime) -> dict[str, Any]:
    """What an answer is about."""
    return {
        "start": utc(wanted.period.start),
        "end": utc(wanted.period.end),
        "as_of": utc(min(now, wanted.period.end)),
        "billed": wanted.billed or None,
        "group_by": list(wanted.group_by),
    }


def sums(rows: Sequence[Row]) -> dict[str, Any]:
    """What all rows come to."""
    return {
        "totals": [
            {
                "currency": currency,
                "amount": f"{money.from_minor_units(minor, currency=currency):f}",
                "exact_numerator": str(exact.numerator),
                "exact_denominator": str(exact.denominator),
            }
            for currency, (minor, exact) in totals(rows).items()
        ],
        "quantities": measured((row.key.unit, row.key.per, row.time) for row in rows),
    }


def measured(times: Iterable[tuple[str, str, Fraction]]) -> list[dict[str, str]]:
    """Units × microseconds, added up by unit and what it is per."""
    return [
        {"unit": unit, "per": per, "unit_hours": f"{hours(time):f}"}
        for (unit, per), time in quantities(times).items()
    ]


def wanted_of(request: ApiRequest, now: datetime) -> Wanted:
    """What a call asks for; raises ValidationError for what cannot be read, or is called otherwise."""
    refuse_unknown(request, (GROUP_BY, *FILTERS, *PAGES, *FORMAT))
    return read(request, now)


def read(request: ApiRequest, now: datetime, *, held: bool = False) -> Wanted:
    """The same of parameters whose names are known; `held` as `Wanted.parse` has it."""
    zone = zone_named(settings.ORGANISATION_ZONE)
    wanted = Wanted.parse(request.query_params, now=now, zone=zone, held=held)
    if wanted.errors:
        raise exceptions.ValidationError({name: [said] for name, said in wanted.errors.items()})
    return wanted


def written(request: ApiRequest, rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Rows for a stream. For CSV numbers stay numbers: negative texts would be guarded as formulas."""
    if request.accepted_renderer.format == "csv":
        return iter(rows)
    return (as_json(row) for row in rows)


# --- from domain to answer -------------------------------------------------------------------------

MEASURED = (
    "unit", "per", "unit_hours", "currency", "amount", "exact_numerator", "exact_denominator",
)  # fmt: skip
# Whole numbers of any size, which JSON's readers would round.
_EXACT = ("exact_numerator", "exact_denominator")


def group_row(row: Row, group_by: Sequence[str]) -> dict[str, Any]:
    """One row by its groups."""
    return dict(zip(group_by, row.key.groups, strict=True)) | {
        "unit": row.key.unit,
        "per": row.key.per,
        "unit_hours": hours(row.time),
        "currency": row.key.currency or None,
        "amount": row.amount,
        **exact_parts(row.exact),
    }


def exact_parts(exact: Fraction | None) -> dict[str, int | None]:
    """An exact amount as two whole numbers."""
    return {
        "exact_numerator": None if exact is None else exact.numerator,
        "exact_denominator": None if exact is None else exact.denominator,
    }


def as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with its numbers as texts, exact in every reader."""

    def told(name: str, value: Any) -> Any:
        if isinstance(value, Decimal):
            return f"{value:f}"
        return str(value) if name in _EXACT and value is not None else value

    return {name: told(name, value) for name, value in row.items()}
