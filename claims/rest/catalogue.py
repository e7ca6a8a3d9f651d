"""REST of the catalogue under /api/v1/: flavors with what is free of them, and, for administrators, making
and changing them. The same domain functions as the pages."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import exceptions, serializers, status
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims.asks.reading import WHOLE, WrongValue, read_integer
from claims.catalogue import derive, flavors, placements
from claims.catalogue.flavors import UnableToChangeFlavor
from claims.catalogue.icons import ICONS
from claims.catalogue.offers import Entry, entries_of
from claims.catalogue.placement_terms import COLUMNS, read_terms
from claims.models import Flavor, Placement, Request
from claims.money.pricing import plain, price_list
from claims.rest.answers import ProblemOut
from portal import access
from portal.accounts.audit import source_ip
from portal.accounts.models import ApiToken
from portal.api import ApiListView, ApiView, Problem

Scope = ApiToken.Scope

# --- what is sent and answered ----------------------------------------------------------------------


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


# --- views ------------------------------------------------------------------------------------------

_REFUSED = {400: ProblemOut, 403: ProblemOut, 404: ProblemOut, 409: ProblemOut}


class _Catalogue(ApiView):
    # Changing something needs the scope of administration: `portal.rest_defaults`.
    required_scope = Scope.INVENTORY

    def administrator(self) -> None:
        """Lets only administrators go on."""
        if not access.may_administer(self.person):
            raise PermissionDenied(_("Only platform administrators may do this."))

    def flavor(self, slug: str) -> Flavor:
        """The flavor, if the caller may see it."""
        found = Flavor.objects.visible_to(self.person).filter(slug=slug).first()
        if found is None:
            raise Http404
        return found

    def values(self) -> Mapping[str, Any]:
        body = self.request.data
        if not isinstance(body, Mapping):
            raise exceptions.ParseError(_("The body must be a JSON object."))
        return body

    def version(self) -> int:
        try:
            return read_integer(self.values(), "version") or 0
        except WrongValue as error:
            raise exceptions.ValidationError({"version": [str(error)]}) from error

    def change(self, change: Callable[[], Any]) -> Any:
        """Makes the change; what the domain refuses becomes a problem document."""
        try:
            return change()
        except UnableToChangeFlavor as error:
            if error.conflict:
                message = " ".join(error.errors.get(WHOLE, []))
                raise Problem(message, code="conflict", status_code=status.HTTP_409_CONFLICT) from error
            raise exceptions.ValidationError(
                {("non_field_errors" if name == WHOLE else name): said for name, said in error.errors.items()}
            ) from error

    def who(self) -> dict[str, Any]:
        return {"user": self.person, "now": timezone.now(), "source_ip": source_ip(self.request)}

    def answer(self, flavor: Flavor, code: int = status.HTTP_200_OK) -> Response:
        return Response(_told([flavor], everything=access.may_read_everything(self.person))[0], status=code)


@extend_schema_view(get=extend_schema(tags=["catalogue"]))
class FlavorListView(ApiListView, _Catalogue):
    """Flavors that the caller may see, with what is free of them now. Administrators and auditors also see
    archived ones."""

    serializer_class = FlavorOut
    ordering = ("position", "id")

    def get_queryset(self) -> QuerySet[Flavor]:
        if getattr(self, "swagger_fake_view", False):
            return Flavor.objects.none()
        return Flavor.objects.visible_to(self.person).order_by("position", "id")

    def list(self, request: ApiRequest, *args: Any, **kwargs: Any) -> Response:  # noqa: ARG002 - DRF's signature
        page: Sequence[Flavor] = self.paginate_queryset(self.get_queryset()) or []
        return self.get_paginated_response(_told(page, everything=access.may_read_everything(self.person)))

    @extend_schema(tags=["catalogue"], request=FlavorIn, responses={201: FlavorAdminOut, **_REFUSED})
    def post(self, _request: ApiRequest) -> Response:
        """Make a flavor. It is offered as soon as a place serves it."""
        self.administrator()
        made = self.change(lambda: flavors.create(terms=flavors.read_terms(self.values()), **self.who()))
        return self.answer(made, status.HTTP_201_CREATED)


class FlavorDetailView(_Catalogue):
    @extend_schema(tags=["catalogue"], responses={200: FlavorAdminOut, 404: ProblemOut})
    def get(self, _request: ApiRequest, slug: str) -> Response:
        """One flavor; to others than administrators and auditors without who it is for and how it is
        configured."""
        return self.answer(self.flavor(slug))

    @extend_schema(tags=["catalogue"], request=FlavorChangeIn, responses={200: FlavorAdminOut, **_REFUSED})
    def put(self, _request: ApiRequest, slug: str) -> Response:
        """Write the flavor anew: what is left out gets its default."""
        self.administrator()
        flavor = self.flavor(slug)
        self.change(
            lambda: flavors.update(
                flavor=flavor,
                terms=flavors.read_terms(self.values()),
                seen_version=self.version(),
                **self.who(),
            )
        )
        return self.answer(flavor)


class FlavorArchiveView(_Catalogue):
    @extend_schema(tags=["catalogue"], request=None, responses={200: FlavorAdminOut, **_REFUSED})
    def post(self, _request: ApiRequest, slug: str) -> Response:
        """Take it out of the catalogue. Requests that were made of it go on."""
        self.administrator()
        flavor = self.flavor(slug)
        flavors.archive(flavor=flavor, archived=True, **self.who())
        return self.answer(flavor)


class FlavorRestoreView(_Catalogue):
    @extend_schema(tags=["catalogue"], request=None, responses={200: FlavorAdminOut, **_REFUSED})
    def post(self, _request: ApiRequest, slug: str) -> Response:
        """Put an archived flavor back."""
        self.administrator()
        flavor = self.flavor(slug)
        flavors.archive(flavor=flavor, archived=False, **self.who())
        return self.answer(flavor)


class PlacementListView(_Catalogue):
    @extend_schema(tags=["catalogue"], request=PlacementIn, responses={201: FlavorAdminOut, **_REFUSED})
    def post(self, _request: ApiRequest, slug: str) -> Response:
        """Serve the flavor on one more cluster or node pool."""
        self.administrator()
        flavor = self.flavor(slug)
        self.change(
            lambda: placements.save(
                flavor=flavor,
                placement=None,
                terms=read_terms(self.values()),
                seen_version=self.version(),
                **self.who(),
            )
        )
        return self.answer(self.flavor(slug), status.HTTP_201_CREATED)


class PlacementDetailView(_Catalogue):
    @extend_schema(tags=["catalogue"], request=PlacementIn, responses={200: FlavorAdminOut, **_REFUSED})
    def put(self, _request: ApiRequest, slug: str, pk: int) -> Response:
        """Write a placement anew: what is left out becomes empty."""
        self.administrator()
        placement = _placement(slug, pk)
        self.change(
            lambda: placements.save(
                flavor=placement.flavor,
                placement=placement,
                terms=read_terms(self.values()),
                seen_version=self.version(),
                **self.who(),
            )
        )
        return self.answer(self.flavor(slug))

    @extend_schema(tags=["catalogue"], responses={200: FlavorAdminOut, **_REFUSED})
    def delete(self, _request: ApiRequest, slug: str, pk: int) -> Response:
        """No longer serve the flavor there. Requests that were made go on."""
        self.administrator()
        placement = _placement(slug, pk)
        self.change(
            lambda: placements.remove(
                placement=placement, seen_version=placement.flavor.version, **self.who()
            )
        )
        return self.answer(self.flavor(slug))


class PlacementSwitchView(_Catalogue):
    @extend_schema(
        tags=["catalogue"],
        request={"application/json": {"type": "object", "properties": {"stage": {"type": "string"}}}},
        responses={200: FlavorAdminOut, **_REFUSED},
    )
    def post(self, _request: ApiRequest, slug: str, pk: int) -> Response:
        """To `dra`, back to `device-plugin`, or `automatic`: as the conditions say."""
        self.administrator()
        placement = _placement(slug, pk)
        stage = str(self.values().get("stage", ""))
        self.change(lambda: placements.switch(placement=placement, stage=stage, **self.who()))
        return self.answer(self.flavor(slug))


class ProposalListView(_Catalogue):
    @extend_schema(tags=["catalogue"], responses={200: ProposalOut(many=True), 403: ProblemOut})
    def get(self, _request: ApiRequest) -> Response:
        """What the clusters have that could be a flavor."""
        self.administrator()
        return Response(ProposalOut(derive.proposals(), many=True).data)

    @extend_schema(
        tags=["catalogue"],
        request={"application/json": {"type": "object", "properties": {"key": {"type": "string"}}}},
        responses={201: FlavorAdminOut, **_REFUSED},
    )
    def post(self, _request: ApiRequest) -> Response:
        """Make the flavor of a proposal, named by its `key`."""
        self.administrator()
        key = str(self.values().get("key", ""))
        made = self.change(lambda: derive.derive(key=key, **self.who()))
        return self.answer(made, status.HTTP_201_CREATED)


# --- from domain to answer --------------------------------------------------------------------------


def _placement(slug: str, pk: int) -> Placement:
    found = Placement.objects.select_related("flavor", "cluster").filter(pk=pk, flavor__slug=slug).first()
    if found is None:
        raise Http404
    return found


def _told(page: Sequence[Flavor], *, everything: bool) -> list[dict[str, Any]]:
    rows = Flavor.objects.filter(pk__in=[flavor.pk for flavor in page])
    rows = rows.prefetch_related("placements__cluster", "projects", "groups").order_by("position", "id")
    told = entries_of(list(rows), prices=price_list(), now=timezone.now())
    if everything:
        return [dict(FlavorAdminOut(_entry(entry) | _inside(entry)).data) for entry in told]
    return [dict(FlavorOut(_entry(entry)).data) for entry in told]


def _entry(entry: Entry) -> dict[str, Any]:
    typical = entry.wait.typical
    return flavors.terms_of(entry.flavor).as_dict() | {
        "offers": entry.offers,
        "free": entry.free,
        "total": entry.total,
        "typical_wait_seconds": None if typical is None else int(typical.total_seconds()),
        "prices_per_device_hour": [plain(price) for price in entry.prices if price is not None],
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
