"""Lists of requests and of history: what they show, can be asked for, and export."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from claims.models import FINAL_STATES, Request
from portal.accounts.models import Project, User
from portal.lists import Choice, Column, Listing

REQUEST_HEADER = (
    *("key", "name", "state", "reason", "project", "requested_by", "cluster", "namespace"),
    *("flavor", "device_class", "extended_resource", "count", "min_memory", "purpose"),
    *("created_at", "expires_at", "ended_at"),
)


def requests_for(user: User) -> Listing:
    """The list of requests as one person may ask for it."""
    projects = Project.objects.all().detailed_to(user).order_by("name").values_list("slug", "name")
    return Listing(
        "requests",
        columns=(
            Column("name", _("Request"), order=("object_name",), fixed=True),
            Column("state", _("State"), order=("state", "-created_at")),
            Column("asks", _("Asks for")),
            Column("project", _("Project"), order=("project__name", "-created_at")),
            Column("person", _("Requested by"), order=("requester__username", "-created_at")),
            Column("since", _("Since"), order=("created_at",), css="cd-nowrap"),
            Column("until", _("Until"), order=("expires_at",), css="cd-nowrap", nullable=True),
            Column("cluster", _("Cluster"), order=("cluster__name", "-created_at"), shown=False),
            Column("namespace", _("Namespace"), order=("namespace", "-created_at"), shown=False),
        ),
        facets=(
            Choice(
                "state",
                _("State"),
                column="state",
                together={
                    "active": [value for value in Request.State.values if value not in FINAL_STATES],
                    "over": FINAL_STATES,
                },
                labels={"active": _("not over yet"), "over": _("over"), **dict(Request.State.choices)},
            ),
            Choice("project", _("Project"), column="project__slug", labels=dict(projects)),
            Choice("cluster", _("Cluster"), column="cluster__name"),
            Choice("mine", _("Whose"), conditions={"1": Q(requester=user)}, labels={"1": _("only mine")}),
        ),
        search=("object_name", "device_class", "extended_resource", "flavor__name", "purpose"),
        sort="-since",
    )


def request_lines(rows: Iterable[Request]) -> Iterator[tuple[Any, ...]]:
    """Requests as lines of CSV, with UTC times."""
    for found in rows:
        yield (
            *(found.key, found.object_name, found.state, found.reason, found.project.slug),
            *(found.requester.username, found.cluster.name, found.namespace),
            *(found.flavor.name if found.flavor else "", found.device_class, found.extended_resource),
            *(found.count, found.min_memory, found.purpose),
            *(_utc(found.created_at), _utc(found.expires_at), _utc(found.ended_at)),
        )


def _utc(at: datetime | None) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at else ""


HISTORY = Listing(
    "history",
    columns=(
        Column("device", _("Device"), fixed=True),
        Column("holder", _("Held by")),
        Column("from", _("From"), order=("started_at",), css="cd-nowrap"),
        Column("to", _("To"), css="cd-nowrap"),
        Column("duration", _("Duration"), css="cd-number"),
        Column("claim", _("Claim and Pods")),
        Column("class", _("Class"), shown=False),
        Column("pool", _("Pool"), shown=False),
        Column("hardware", _("Hardware id"), shown=False),
        Column("use", _("Use"), shown=False),
    ),
    sort="-from",
    keeps=(
        *("project", "product", "cluster", "node", "device", "pool", "driver", "class", "kind", "person"),
        *("request", "pod", "from", "to", "running", "by"),
    ),
)
