"""Flavors under /api/v1/ as they are sent and answered."""

from collections.abc import Sequence
from typing import Any

from django.utils import timezone
from rest_framework import serializers

from claims.catalogue.flavor_terms import terms_of
from claims.catalogue.icons import ICONS
from claims.catalogue.offers import Entry, entries_of
from claims.catalogue.placement_terms import COLUMNS
from claims.models import Flavor, Placement, Request
from claims.money.pricing import price_list
from portal.accounts.models import User


class FlavorIn(serializers.Serializer[Any]):
    """What a flavor says. Judged by the same rules as its form."""

    slug = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField(required=False)
    offers = serializers.CharField(required=False, help_text="One point a line.")
    icon = serializers.ChoiceField(choices=list(ICONS), required=False)
    min_count = serializers.IntegerField(required=False)
    default_count = serializers.IntegerField(required=False)
    max_count = serializers.IntegerField(required=False)
    min_memory = serializers.CharField(required=False, help_text='A quantity such as "40Gi"; empty for none.')
    default_memory = serializers.CharField(required=False)
    max_memory = serializers.CharField(required=False)
    min_hours = serializers.IntegerField(required=False)
    default_hours = serializers.IntegerField(required=False)
    max_hours = serializers.IntegerField(required=False)
    visibility = serializers.ChoiceField(choices=Flavor.Visibility.choices, required=False)
    projects = serializers.ListField(child=serializers.CharField(), required=False, help_text="Slugs.")
    groups = serializers.ListField(child=serializers.CharField(), required=False, help_text="Names.")
    approval = serializers.ChoiceField(choices=Flavor.Approval.choices, required=False)
    own_approval = serializers.BooleanField(required=False)
    ends_pods = serializers.BooleanField(
        required=False, help_text="Pods that still use the device when a request ends are deleted."
    )
    hold_steps_aside = serializers.BooleanField(
        required=False, help_text="The hold Pod goes as soon as Pods of people have joined."
    )
    hold_image = serializers.CharField(required=False, max_length=255, help_text="Empty: the desk's own.")
    hold_pull_secret = serializers.CharField(required=False, max_length=253)
    hold_priority_class = serializers.CharField(required=False, max_length=253)
    hold_tolerations = serializers.ListField(
        child=serializers.DictField(), required=False, help_text="Of nodes, as in the API."
    )
    idle_hours = serializers.IntegerField(
        required=False, help_text="Hours until a hold that nobody uses is idle; 0: never."
    )
    idle_release = serializers.BooleanField(
        required=False, help_text="An idle device is given back an hour after the reminder."
    )
    bookable_days = serializers.IntegerField(
        required=False, help_text="How many days ahead it can be booked; 0: not at all."
    )
    bookings_kept = serializers.BooleanField(
        required=False, help_text="Requests that would run into a booking are refused, not only warned."
    )


class FlavorChangeIn(FlavorIn):
    version = serializers.IntegerField(help_text="As it was read: if it changed since, the answer is 409.")


class PlacementIn(serializers.Serializer[Any]):
    """Where a flavor is served, and by which means."""

    version = serializers.IntegerField(help_text="The flavor's, as it was read.")
    cluster = serializers.CharField()
    pool = serializers.CharField(required=False)
    node_selector = serializers.DictField(child=serializers.CharField(), required=False)
    tolerations = serializers.ListField(child=serializers.DictField(), required=False)
    device_class = serializers.CharField(required=False)
    selectors = serializers.ListField(child=serializers.CharField(), required=False, help_text="CEL.")
    config = serializers.ListField(child=serializers.DictField(), required=False)
    device_tolerations = serializers.ListField(child=serializers.DictField(), required=False)
    extended_resource = serializers.CharField(required=False)
    stage = serializers.ChoiceField(choices=Placement.Stage.choices, required=False)
    kubernetes = serializers.CharField(
        required=False, help_text="DRA if the API server is within this range."
    )
    driver = serializers.CharField(required=False)
    driver_versions = serializers.CharField(required=False)
    runtime = serializers.CharField(required=False)


class PlaceOut(serializers.Serializer[Any]):
    id = serializers.IntegerField(source="placement.pk")
    cluster = serializers.CharField()
    pool = serializers.CharField(source="placement.pool")
    backend = serializers.ChoiceField(source="choice.backend", choices=Request.Backend.choices)
    why = serializers.CharField(source="choice.words", help_text="Why it is served that way now.")
    total = serializers.IntegerField(allow_null=True, help_text="Null: not known.")
    free = serializers.IntegerField(allow_null=True, help_text="Null: not known, which is not zero.")


class FlavorOut(serializers.Serializer[Any]):
    slug = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField()
    offers = serializers.ListField(child=serializers.CharField())
    min_count = serializers.IntegerField()
    default_count = serializers.IntegerField()
    max_count = serializers.IntegerField()
    min_memory = serializers.CharField()
    default_memory = serializers.CharField()
    max_memory = serializers.CharField()
    min_hours = serializers.IntegerField()
    default_hours = serializers.IntegerField()
    max_hours = serializers.IntegerField()
    approval = serializers.ChoiceField(choices=Flavor.Approval.choices)
    ends_pods = serializers.BooleanField(help_text="Pods that use it when a request ends are deleted.")
    hold_steps_aside = serializers.BooleanField()
    idle_hours = serializers.IntegerField(help_text="0: a hold may lie idle.")
    idle_release = serializers.BooleanField()
    bookable_days = serializers.IntegerField(help_text="0: it cannot be booked.")
    bookings_kept = serializers.BooleanField()
    free = serializers.IntegerField(allow_null=True, help_text="Null: not known, which is not zero.")
    total = serializers.IntegerField(allow_null=True)
    typical_wait_seconds = serializers.IntegerField(allow_null=True, help_text="Null: too few cases to say.")
    prices_per_device_hour = serializers.ListField(child=serializers.CharField(), help_text="Lowest first.")
    currency = serializers.CharField()
    places = PlaceOut(many=True)


class FlavorAdminOut(FlavorOut):
    """For administrators and auditors: also who it is for, its version and its placements."""

    version = serializers.IntegerField()
    archived = serializers.BooleanField()
    visibility = serializers.ChoiceField(choices=Flavor.Visibility.choices)
    projects = serializers.ListField(child=serializers.CharField())
    groups = serializers.ListField(child=serializers.CharField())
    own_approval = serializers.BooleanField()
    hold_image = serializers.CharField()
    hold_pull_secret = serializers.CharField()
    hold_priority_class = serializers.CharField()
    hold_tolerations = serializers.ListField(child=serializers.DictField())
    placements = serializers.ListField(child=serializers.DictField())


class ProposalOut(serializers.Serializer[Any]):
    key = serializers.CharField()
    name = serializers.CharField()
    device_class = serializers.CharField()
    selector = serializers.CharField()
    resource = serializers.CharField()
    clusters = serializers.ListField(child=serializers.CharField())
    devices = serializers.IntegerField()
    made = serializers.ListField(child=serializers.CharField(), help_text="Flavors served by it already.")


def told(page: Sequence[Flavor], *, user: User, everything: bool) -> list[dict[str, Any]]:
    """Flavors as they are answered; `everything` is for administrators and auditors."""
    rows = Flavor.objects.filter(pk__in=[flavor.pk for flavor in page])
    rows = rows.prefetch_related("placements__cluster", "projects", "groups").order_by("position", "id")
    told = entries_of(list(rows), prices=price_list(), now=timezone.now(), user=user)
    if everything:
        return [dict(FlavorAdminOut(_entry(entry) | _inside(entry)).data) for entry in told]
    return [dict(FlavorOut(_entry(entry)).data) for entry in told]


def _entry(entry: Entry) -> dict[str, Any]:
    typical = entry.wait.typical
    return terms_of(entry.flavor).as_dict() | {
        "offers": entry.offers,
        "free": entry.free,
        "total": entry.total,
        "typical_wait_seconds": None if typical is None else int(typical.total_seconds()),
        "prices_per_device_hour": entry.prices,
        "currency": entry.currency,
        "places": entry.places,
    }


def _inside(entry: Entry) -> dict[str, Any]:
    flavor = entry.flavor
    return {
        "version": flavor.version,
        "archived": flavor.archived_at is not None,
        "placements": [
            {"id": placement.pk, "cluster": placement.cluster.name}
            | {name: getattr(placement, name) for name in COLUMNS}
            for placement in sorted(flavor.placements.all(), key=lambda one: (one.position, one.pk))
        ],
    }
