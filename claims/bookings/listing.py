"""The list of bookings: what it shows, can be asked for, and exports."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from claims.models import PLANNED, Booking
from portal.accounts.models import Project, User
from portal.lists import Choice, Column, Listing

BOOKING_HEADER = (
    *("key", "state", "reason", "project", "requested_by", "flavor", "cluster", "pool", "namespace"),
    *("count", "min_memory", "starts_at", "ends_at", "purpose", "created_at"),
)


def bookings_for(user: User) -> Listing:
    """The list of bookings as one person may ask for it."""
    planned = Q(state__in=PLANNED)
    projects = Project.objects.all().detailed_to(user).order_by("name").values_list("slug", "name")
    return Listing(
        "bookings",
        columns=(
            Column("what", _("Booking"), order=("flavor__name", "starts_at"), fixed=True),
            Column("state", _("State"), order=("state", "starts_at")),
            Column("from", _("From"), order=("starts_at",), css="cd-nowrap"),
            Column("to", _("To"), order=("ends_at",), css="cd-nowrap"),
            Column("project", _("Project"), order=("project__name", "starts_at")),
            Column("person", _("Booked by"), order=("requester__username", "starts_at")),
            Column("cluster", _("Cluster"), order=("cluster__name", "starts_at"), shown=False),
            Column("made", _("Made"), order=("created_at",), css="cd-nowrap", shown=False),
        ),
        facets=(
            Choice(
                "state",
                _("State"),
                conditions={
                    "planned": planned,
                    "past": ~planned,
                    **{value: Q(state=value) for value in Booking.State.values},
                },
                labels={
                    "planned": _("planned"),
                    "past": _("no longer planned"),
                    **dict(Booking.State.choices),
                },
            ),
            Choice("project", _("Project"), column="project__slug", labels=dict(projects)),
            Choice("cluster", _("Cluster"), column="cluster__name"),
            Choice("mine", _("Whose"), conditions={"1": Q(requester=user)}, labels={"1": _("only mine")}),
        ),
        search=("flavor__name", "purpose", "requester__username"),
        sort="-from",
    )


def booking_lines(rows: Iterable[Booking]) -> Iterator[tuple[Any, ...]]:
    """Bookings as lines of CSV, with UTC times."""
    for row in rows:
        yield (
            *(row.key, row.state, row.reason, row.project.slug, row.requester.username),
            *(row.flavor.slug, row.cluster.name, row.pool, row.namespace, row.count, row.min_memory),
            *(_utc(row.starts_at), _utc(row.ends_at), row.purpose, _utc(row.created_at)),
        )


def _utc(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
