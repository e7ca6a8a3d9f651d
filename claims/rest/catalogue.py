"""REST of the catalogue under /api/v1/: flavors with what is free of them, and, for administrators, making
and changing them. The same domain functions as the pages."""

from collections.abc import Callable, Sequence
from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import exceptions, status
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims.asks.reading import WHOLE, WrongValue, read_integer
from claims.catalogue import derive, flavor_terms, flavors, placements
from claims.catalogue.flavor_terms import UnableToChangeFlavor
from claims.catalogue.placement_terms import read_terms
from claims.models import Flavor, Placement
from claims.rest.answers import ProblemOut
from claims.rest.catalogue_answers import (
    FlavorAdminOut,
    FlavorChangeIn,
    FlavorIn,
    FlavorOut,
    PlacementIn,
    ProposalOut,
    told,
)
from portal import access
from portal.accounts.models import ApiToken
from portal.api import ApiListView, ApiView, Problem

Scope = ApiToken.Scope

_REFUSED = {400: ProblemOut, 403: ProblemOut, 404: ProblemOut, 409: ProblemOut}


class _Catalogue(ApiView):
    # Changing something needs the scope of administration: `portal.rest_defaults`.
    required_scope = Scope.INVENTORY

    def flavor(self, slug: str) -> Flavor:
        """The flavor, if the caller may see it."""
        found = Flavor.objects.visible_to(self.person).filter(slug=slug).first()
        if found is None:
            raise Http404
        return found

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

    def answer(self, flavor: Flavor, code: int = status.HTTP_200_OK) -> Response:
        return Response(
            told([flavor], user=self.person, everything=access.may_read_everything(self.person))[0],
            status=code,
        )


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
        return self.get_paginated_response(
            told(page, user=self.person, everything=access.may_read_everything(self.person))
        )

    @extend_schema(tags=["catalogue"], request=FlavorIn, responses={201: FlavorAdminOut, **_REFUSED})
    def post(self, _request: ApiRequest) -> Response:
        """Make a flavor. It is offered as soon as a place serves it."""
        self.administrator()
        made = self.change(lambda: flavors.create(terms=flavor_terms.read_terms(self.values()), **self.who()))
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
                terms=flavor_terms.read_terms(self.values()),
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


def _placement(slug: str, pk: int) -> Placement:
    found = Placement.objects.select_related("flavor", "cluster").filter(pk=pk, flavor__slug=slug).first()
    if found is None:
        raise Http404
    return found
