"""REST of price books under /api/v1/: reading them, trying one on a past month, publishing one. The same
rules as the editor's."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import exceptions, serializers, status
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims.asks.reading import WHOLE
from claims.models import PriceBook, PriceRule
from claims.money import price_books, price_drafts
from claims.money.books import Profiles, stored_book
from claims.money.months import Month, NoMonth, zone_named
from claims.money.price_books import UnableToAddBook
from claims.money.price_drafts import Effect
from claims.money.price_terms import Terms, UnableToPrice, document_of, read_terms
from claims.rest.answers import ProblemOut
from portal import access
from portal.accounts.audit import source_ip
from portal.accounts.models import ApiToken, Project
from portal.api import ApiView, Problem

Scope = ApiToken.Scope
_BOOK = {
    "name": "Prices 2027",
    "currency": "EUR",
    "note": "Power is cheaper.",
    "valid_from": "2027-01-01T00:00:00Z",
    "rules": [
        {
            "label": "By memory",
            "expression": 'device.driver == "gpu.example.com"',
            "unit": "capacity",
            "capacity": "gpu.example.com/memory",
            "per": "1Gi",
            "per_hour": "0.03",
        }
    ],
    "prices": [{"device_class": "", "product": "", "per_hour": "2.50"}],
    "discounts": [{"project": "protein-folding", "percent": "10"}],
}


class PriceIn(serializers.Serializer[Any]):
    device_class = serializers.CharField(required=False, allow_blank=True, help_text="Empty for any.")
    product = serializers.CharField(required=False, allow_blank=True, help_text="Empty for any.")
    per_hour = serializers.CharField(help_text="A decimal: per device and hour.")


class PriceRuleIn(serializers.Serializer[Any]):
    """Conditions that are empty hold for anything."""

    label = serializers.CharField(required=False, allow_blank=True)  # type: ignore[assignment] # a field of that name; DRF takes the class's out of the way
    use = serializers.ChoiceField(choices=PriceRule.Use.choices, required=False)
    device_class = serializers.CharField(required=False, allow_blank=True)
    product = serializers.CharField(required=False, allow_blank=True)
    profile = serializers.CharField(required=False, allow_blank=True, help_text="Digest of a profile.")
    resource = serializers.CharField(required=False, allow_blank=True, help_text="An extended resource.")
    expression = serializers.CharField(required=False, allow_blank=True, help_text="CEL over the device.")
    unit = serializers.ChoiceField(choices=PriceRule.Unit.choices, required=False)
    capacity = serializers.CharField(required=False, allow_blank=True, help_text="Which one is counted.")
    per = serializers.CharField(required=False, allow_blank=True, help_text='Of how much of it: "1Gi".')
    per_hour = serializers.CharField(help_text="A decimal.")


class PriceDiscountIn(serializers.Serializer[Any]):
    project = serializers.CharField(required=False, allow_blank=True, help_text="Slug.")
    cost_centre = serializers.CharField(required=False, allow_blank=True)
    percent = serializers.CharField(help_text="A decimal above 0 and up to 100.")


class PriceTermsIn(serializers.Serializer[Any]):
    """What a price book says: the first rule that is for a use, else the price list."""

    name = serializers.CharField()
    currency = serializers.CharField(help_text="ISO 4217.")
    note = serializers.CharField(required=False, allow_blank=True)
    prices = PriceIn(many=True, required=False)
    rules = PriceRuleIn(many=True, required=False)
    discounts = PriceDiscountIn(many=True, required=False)


class PriceBookIn(PriceTermsIn):
    valid_from = serializers.DateTimeField(help_text="From when it holds, for good.")


class PriceTrialIn(PriceTermsIn):
    month = serializers.CharField(help_text="A past month such as 2026-10, in the organisation's zone.")


class PriceBookOut(PriceTermsIn):
    id = serializers.IntegerField()
    valid_from = serializers.DateTimeField()
    published_at = serializers.DateTimeField(allow_null=True)


class PriceDifferenceOut(serializers.Serializer[Any]):
    project = serializers.CharField(allow_null=True, help_text="Slug; null = what nobody is known to pay.")
    currency = serializers.CharField()
    before = serializers.CharField(help_text="By the prices of then.")
    after = serializers.CharField(help_text="By these prices.")
    difference = serializers.CharField()


class PriceTrialOut(serializers.Serializer[Any]):
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    projects = PriceDifferenceOut(many=True)
    unpriced_hours_before = serializers.CharField(help_text="Device-hours without a price.")
    unpriced_hours_after = serializers.CharField()


class PriceBookListView(ApiView):
    """Price books: what the use of devices costs, from when on."""

    required_scope = Scope.CHARGEBACK

    @extend_schema(tags=["prices"], responses={200: PriceBookOut(many=True), 403: ProblemOut})
    def get(self, request: ApiRequest) -> Response:  # noqa: ARG002 - DRF's signature
        """Every version, the newest first."""
        _readers(self)
        books = PriceBook.objects.order_by("-valid_from").prefetch_related("prices", "rules", "discounts")
        slugs = dict(Project.objects.values_list("pk", "slug"))
        return Response([_told(book, slugs) for book in books])

    @extend_schema(
        tags=["prices"],
        request=PriceBookIn,
        responses={201: PriceBookOut, 400: ProblemOut, 403: ProblemOut, 422: ProblemOut},
        examples=[OpenApiExample("Prices of a year", value=_BOOK, request_only=True)],
    )
    def post(self, request: ApiRequest) -> Response:
        """Publish a version, for good. Administrators only."""
        _writers(self)
        terms = _terms(request.data)
        valid_from = _field(request.data, "valid_from", serializers.DateTimeField())
        try:
            book = price_books.publish(
                terms=terms,
                valid_from=valid_from,
                now=timezone.now(),
                actor=self.person,
                source_ip=source_ip(request),
            )
        except UnableToAddBook as unable:
            raise Problem(unable.message, code="not_published", field="valid_from") from None
        slugs = dict(Project.objects.values_list("pk", "slug"))
        return Response(_told(book, slugs), status=status.HTTP_201_CREATED)


class PriceBookDetailView(ApiView):
    """One version."""

    required_scope = Scope.CHARGEBACK

    @extend_schema(tags=["prices"], responses={200: PriceBookOut, 403: ProblemOut, 404: ProblemOut})
    def get(self, request: ApiRequest, pk: int) -> Response:  # noqa: ARG002 - DRF's signature
        _readers(self)
        book = PriceBook.objects.filter(pk=pk).first() if pk < 2**63 else None
        if book is None:
            raise Http404
        return Response(_told(book, dict(Project.objects.values_list("pk", "slug"))))


class PriceTrialView(ApiView):
    """What the use of a past month would have cost by other prices; nothing is kept. Administrators only."""

    required_scope = Scope.CHARGEBACK

    @extend_schema(
        tags=["prices"],
        request=PriceTrialIn,
        responses={200: PriceTrialOut, 400: ProblemOut, 403: ProblemOut},
        examples=[
            OpenApiExample(
                "On a past month",
                value={**{k: v for k, v in _BOOK.items() if k != "valid_from"}, "month": "2026-10"},
                request_only=True,
            )
        ],
    )
    def post(self, request: ApiRequest) -> Response:
        _writers(self)
        terms = _terms(request.data)
        try:
            month = Month.parse(_field(request.data, "month", serializers.CharField()))
        except NoMonth as error:
            raise exceptions.ValidationError({"month": [str(error)]}) from None
        start, end = month.bounds(zone_named(settings.ORGANISATION_ZONE))
        told = price_drafts.effect(terms=terms, start=start, end=end, now=timezone.now())
        return Response(_effect(told))


def _readers(view: ApiView) -> None:
    if not access.may_see_costs_of_all(view.person):
        raise PermissionDenied(_("Only finance, administrators and auditors may see this."))


def _writers(view: ApiView) -> None:
    access.demand_administrator(view.person)


def _terms(data: Any) -> Terms:
    if not isinstance(data, Mapping):
        raise exceptions.ValidationError(_("This must be an object."))
    try:
        return read_terms(data)
    except UnableToPrice as unable:
        errors: dict[str, Sequence[str]] = {
            "non_field_errors" if path == WHOLE else path: said for path, said in unable.errors.items()
        }
        raise exceptions.ValidationError(errors) from None


def _field(data: Any, name: str, field: serializers.Field[Any, Any, Any, Any]) -> Any:
    try:
        return field.run_validation(data.get(name, serializers.empty))
    except exceptions.ValidationError as error:
        raise exceptions.ValidationError({name: error.detail}) from None


def _told(row: PriceBook, slugs: Mapping[int, str]) -> dict[str, Any]:
    book = stored_book(row, Profiles())
    valid_from: datetime = row.valid_from
    return {
        "id": row.pk,
        "valid_from": valid_from,
        "published_at": row.published_at,
        **document_of(book, note=row.note, slugs=slugs),
    }


def _effect(told: Effect) -> dict[str, Any]:
    return {
        "start": told.start,
        "end": told.end,
        "projects": [
            {
                "project": row.project.slug if row.project else None,
                "currency": row.currency,
                "before": str(row.before),
                "after": str(row.after),
                "difference": str(row.more),
            }
            for row in told.rows
        ],
        "unpriced_hours_before": str(told.unpriced_before),
        "unpriced_hours_after": str(told.unpriced_after),
    }
