"""REST of allocations put together: how many there were and for how long, by what the caller names. The time
is that of `/usage/`, asked for the same.

What a person may not see, their token may not see.
"""

from collections.abc import Collection, Sequence
from typing import Any

from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiExample, OpenApiParameter
from rest_framework import exceptions, serializers
from rest_framework.request import Request as ApiRequest

from claims.money.held import Held, allocations_in, held_by
from claims.money.usage import DIMENSIONS, TIMES, groups_of, hours
from claims.rest.cursors import AS_OF, counted_until
from claims.rest.usage import answer, measured, read
from portal.accounts.models import User

GROUP_BY = OpenApiParameter(
    "group_by",
    description="Answers how many allocations there were, and for how long, instead of each: names with "
    f"commas between, {', '.join(name for name in (*DIMENSIONS, *TIMES) if name != 'kind')}. Without `from` "
    "and `to` of the present month.",
)
# What only rows that are put together are asked for.
ONLY_GROUPED = (
    OpenApiParameter("cost_centre", description="Code; only with `group_by`, as are the next three."),
    OpenApiParameter("profile", description="Digest of the device's profile."),
    OpenApiParameter("billed", description="Only what is billed in this month, such as 2026-03."),
    AS_OF,
)
MEASURED = ("unit", "per", "unit_hours", "allocations")
EXAMPLE = OpenApiExample(
    "March by project",
    value={
        "start": "2026-03-01T00:00:00Z", "end": "2026-04-01T00:00:00Z", "as_of": "2026-04-01T00:00:00Z",
        "billed": None, "group_by": ["project"], "next": None,
        "results": [
            {"project": "protein-folding", "unit": "device", "per": "", "unit_hours": "2.000000",
             "allocations": 1},
        ],
        "allocations": 1, "quantities": [{"unit": "device", "per": "", "unit_hours": "2.000000"}],
    },
    response_only=True,
    media_type="application/json",
)  # fmt: skip


class HeldFields(serializers.Serializer[Any]):
    """What a row has that is put together, besides what an allocation of the same name tells."""

    cost_centre = serializers.CharField(required=False)
    hour = serializers.CharField(required=False, help_text="When it begins, in UTC.")
    day = serializers.CharField(required=False, help_text="In the organisation's time zone.")
    month = serializers.CharField(required=False, help_text="Likewise.")
    unit = serializers.CharField(required=False, help_text="Different units are different rows.")
    per = serializers.CharField(required=False)
    unit_hours = serializers.CharField(required=False, help_text="A decimal with six places.")
    allocations = serializers.IntegerField(
        required=False, help_text="How many have some of that time; one may be in several rows."
    )

    def get_fields(self) -> dict[str, Any]:
        # "class" is no name that Python takes for an attribute.
        return super().get_fields() | {"class": serializers.CharField(required=False)}


def is_put_together(request: ApiRequest, *, only_single: Collection[str]) -> bool:
    """Whether the caller asks for rows that are put together. Raises ValidationError for what only the others
    are asked for: `only_single` are the names of what those do without `group_by`."""
    grouped = bool(groups_of(request.query_params))
    if grouped:
        names, said = only_single, _("Not together with group_by.")
    else:
        names, said = [one.name for one in ONLY_GROUPED], _("Only together with group_by.")
    if wrong := {name: [said] for name in request.query_params if name in names}:
        raise exceptions.ValidationError(wrong)
    return grouped


def put_together(request: ApiRequest, *, viewer: User) -> HttpResponseBase:
    """The answer in rows by `group_by`: a page, or a stream; 304 to who has it."""
    now = counted_until(request)
    wanted = read(request, now, held=True)

    def whole(rows: Sequence[Held]) -> dict[str, Any]:
        return {
            "allocations": allocations_in(wanted, viewer=viewer, now=now),
            "quantities": measured((row.key.unit, row.key.per, row.time) for row in rows),
        }

    return answer(
        request,
        wanted,
        viewer=viewer,
        now=now,
        name="allocations",
        columns=MEASURED,
        find=lambda: held_by(wanted, viewer=viewer, now=now),
        tell=lambda row: _row(row, wanted.group_by),
        whole=whole,
    )


def _row(row: Held, group_by: Sequence[str]) -> dict[str, Any]:
    return dict(zip(group_by, row.key.groups, strict=True)) | {
        "unit": row.key.unit,
        "per": row.key.per,
        "unit_hours": hours(row.time),
        "allocations": row.allocations,
    }
