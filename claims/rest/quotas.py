"""REST of quotas under /api/v1/project-quotas/: members read how their projects stand, administrators write.
The same domain functions as the pages. (`/quotas/` are the ResourceQuotas that clusters have.)"""

import uuid
from collections.abc import Callable
from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import exceptions, serializers, status
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims.asks.reading import WHOLE, WrongValue, read_integer
from claims.models import Quota, QuotaObject
from claims.quotas import admin as quotas_admin
from claims.quotas import pages as quotas_pages
from claims.quotas import writing as quotas_writing
from claims.quotas.admin import Effect, UnableToChangeQuota
from claims.quotas.words import plain, terms_of
from claims.rest.answers import ProblemOut
from claims.signals import quotas_due
from portal import access
from portal.accounts.audit import record, source_ip
from portal.accounts.models import ApiToken
from portal.api import ApiListView, ApiView, Problem

Scope = ApiToken.Scope
_AMOUNT = "A decimal: devices, bytes, hours, or units of the currency."


class QuotaIn(serializers.Serializer[Any]):
    """What a quota says. Judged by the same rules as its form."""

    project = serializers.CharField(required=False, help_text="Slug; needed to make one, never changed.")
    flavor = serializers.CharField(required=False, help_text="Slug; empty = everything. Never changed.")
    kind = serializers.ChoiceField(choices=Quota.Kind.choices, required=False, help_text="Never changed.")
    limit = serializers.CharField(
        help_text='Exact: "8" devices, "640Gi" of memory, "1500" hours, "2000.00" of money.'
    )
    currency = serializers.CharField(required=False, help_text="ISO 4217, of money.")
    action = serializers.ChoiceField(
        choices=Quota.Action.choices,
        help_text="`release` also refuses new requests; Pods of people are never deleted.",
    )
    enforced = serializers.BooleanField(
        required=False, help_text="Of devices: also by a ResourceQuota in each namespace of the project."
    )
    valid_from = serializers.CharField(required=False, help_text="A date or ISO 8601 time; empty = now.")
    valid_until = serializers.CharField(required=False, help_text="Empty = no end.")
    note = serializers.CharField(required=False)


class QuotaChangeIn(QuotaIn):
    version = serializers.IntegerField(help_text="As it was read: if it changed since, the answer is 409.")


class QuotaOut(serializers.Serializer[Any]):
    key = serializers.UUIDField()
    project = serializers.CharField()
    flavor = serializers.CharField(allow_null=True, help_text="Null: everything.")
    kind = serializers.ChoiceField(choices=Quota.Kind.choices)
    limit = serializers.CharField(help_text="As it is written.")
    limit_exact = serializers.CharField(help_text=_AMOUNT)
    currency = serializers.CharField()
    action = serializers.ChoiceField(choices=Quota.Action.choices)
    enforced = serializers.BooleanField()
    valid_from = serializers.DateTimeField()
    valid_until = serializers.DateTimeField(allow_null=True)
    note = serializers.CharField()
    version = serializers.IntegerField()
    holds = serializers.BooleanField(help_text="Whether it is in force; else the following are null.")
    used = serializers.CharField(allow_null=True, help_text=f"{_AMOUNT} Null: nothing was observed.")
    asked = serializers.CharField(allow_null=True, help_text="What active requests may take besides.")
    left = serializers.CharField(allow_null=True)
    over = serializers.BooleanField(allow_null=True)
    over_since = serializers.DateTimeField(allow_null=True)
    unmeasured = serializers.IntegerField(
        allow_null=True, help_text="Devices without a known memory or price: not in the numbers."
    )
    unseen_device_hours = serializers.CharField(
        allow_null=True, help_text="Hours that may have been used besides, while nobody could see."
    )


class TakerOut(serializers.Serializer[Any]):
    request = serializers.UUIDField(allow_null=True, help_text="Null: held past the desk.")
    used = serializers.CharField()
    asked = serializers.CharField()
    ends = serializers.BooleanField(help_text="Whether the quota ends it at once.")


class QuotaObjectOut(serializers.Serializer[Any]):
    id = serializers.IntegerField(source="pk")
    cluster = serializers.CharField(source="cluster.name")
    namespace = serializers.CharField()
    name = serializers.CharField()
    limits = serializers.DictField(source="wanted", help_text="Empty: it is being removed.")
    state = serializers.ChoiceField(choices=QuotaObject.State.choices)
    message = serializers.CharField(help_text="What is there instead, or what the cluster said.")


class QuotaDetailOut(QuotaOut):
    takers = TakerOut(many=True, help_text="Only for those who see the project's requests.")
    objects = QuotaObjectOut(many=True)
    not_enforceable = serializers.ListField(child=serializers.CharField())


class EffectOut(serializers.Serializer[Any]):
    """What a quota would mean if it were saved now."""

    holds = serializers.BooleanField()
    over = serializers.BooleanField()
    used = serializers.CharField(allow_null=True)
    asked = serializers.CharField()
    left = serializers.CharField()
    takers = TakerOut(many=True)
    writes = serializers.ListField(child=serializers.DictField())
    not_enforceable = serializers.ListField(child=serializers.CharField())


EXAMPLE = OpenApiExample(
    "At most eight H100 at once",
    value={
        "project": "protein-folding",
        "flavor": "h100-80g",
        "kind": "devices",
        "limit": "8",
        "action": "block",
        "enforced": True,
        "note": "As agreed for 2026",
    },
    request_only=True,
)
_REFUSED = {400: ProblemOut, 403: ProblemOut, 404: ProblemOut, 409: ProblemOut}


class _Quotas(ApiView):
    # Changing something needs the scope of administration: `portal.rest_defaults`.
    required_scope = Scope.CHARGEBACK

    def visible(self) -> QuerySet[Quota]:
        return Quota.objects.all().visible_to(self.person).select_related("project", "flavor")

    def quota(self, key: uuid.UUID) -> Quota:
        """The quota, if the caller may see it."""
        found = self.visible().filter(key=key).first()
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
        except UnableToChangeQuota as error:
            if error.conflict:
                message = " ".join(error.errors.get(WHOLE, []))
                raise Problem(message, code="conflict", status_code=status.HTTP_409_CONFLICT) from error
            raise exceptions.ValidationError(
                {("non_field_errors" if name == WHOLE else name): said for name, said in error.errors.items()}
            ) from error

    def answer(self, quota: Quota, code: int = status.HTTP_200_OK) -> Response:
        now = timezone.now()
        effect = quotas_admin.effect_of(quota, now=now)
        (row,) = quotas_pages.rows([quota], now=now)
        detailed = access.may_see_details(self.person, quota.project)
        objects = QuotaObject.objects.filter(quota=quota).select_related("cluster")
        told = _told(row) | {
            "takers": _takers(quota, effect) if detailed and row.standing else [],
            "objects": QuotaObjectOut(objects.order_by("cluster__name", "namespace"), many=True).data,
            "not_enforceable": list(effect.not_possible),
        }
        return Response(told, status=code)


@extend_schema_view(
    get=extend_schema(
        tags=["quotas"],
        parameters=[
            OpenApiParameter("project", description="Slug."),
            OpenApiParameter("holding", OpenApiTypes.BOOL, description="Only those in force."),
        ],
    )
)
class ProjectQuotaListView(ApiListView, _Quotas):
    """Quotas of the projects that the caller may see, with what is used, asked for and left."""

    serializer_class = QuotaOut
    ordering = ("-created_at", "-id")

    def get_queryset(self) -> QuerySet[Quota]:
        if getattr(self, "swagger_fake_view", False):
            return Quota.objects.none()
        rows, asked = self.visible(), self.request.query_params
        if slug := asked.get("project", ""):
            rows = rows.filter(project__slug=slug[:63])
        if asked.get("holding", "") in ("1", "true"):
            rows = rows.filter(pk__in=Quota.objects.all().holding(timezone.now()).values("pk"))
        return rows

    def list(self, request: ApiRequest, *args: Any, **kwargs: Any) -> Response:  # noqa: ARG002 - DRF's signature
        page = list(self.paginate_queryset(self.get_queryset()) or [])
        told = [_told(row) for row in quotas_pages.rows(page, now=timezone.now())]
        return self.get_paginated_response(told)

    @extend_schema(
        tags=["quotas"], request=QuotaIn, responses={201: QuotaDetailOut, **_REFUSED}, examples=[EXAMPLE]
    )
    def post(self, _request: ApiRequest) -> Response:
        """Make a quota; it is evaluated at once."""
        self.administrator()
        who = self.who()
        made = self.change(
            lambda: quotas_admin.create(said=quotas_admin.read_said(self.values(), now=who["now"]), **who)
        )
        return self.answer(made, status.HTTP_201_CREATED)


class ProjectQuotaEffectView(_Quotas):
    @extend_schema(
        tags=["quotas"], request=QuotaIn, responses={200: EffectOut, **_REFUSED}, examples=[EXAMPLE]
    )
    def post(self, _request: ApiRequest) -> Response:
        """What a quota would mean now: who would be over it, what it would end and write. Writes nothing."""
        self.administrator()
        now = timezone.now()
        effect = self.change(
            lambda: quotas_admin.effect(said=quotas_admin.read_said(self.values(), now=now), now=now)
        )
        kind = effect.said.kind
        return Response(
            EffectOut(
                {
                    "holds": effect.holds,
                    "over": effect.over,
                    "used": plain(effect.standing.used, kind=kind),
                    "asked": plain(effect.standing.asked, kind=kind),
                    "left": plain(effect.standing.left, kind=kind),
                    "takers": _takers(quotas_admin.draft_of(effect.said, now=now), effect),
                    "writes": [
                        {"cluster": cluster, "namespace": namespace, "limits": dict(hard)}
                        for cluster, namespace, hard in quotas_admin.named(effect.objects)
                    ],
                    "not_enforceable": list(effect.not_possible),
                }
            ).data
        )


class ProjectQuotaDetailView(_Quotas):
    @extend_schema(tags=["quotas"], responses={200: QuotaDetailOut, 404: ProblemOut})
    def get(self, _request: ApiRequest, key: uuid.UUID) -> Response:
        """One quota: who takes what of it, and what clusters say of it."""
        return self.answer(self.quota(key))

    @extend_schema(tags=["quotas"], request=QuotaChangeIn, responses={200: QuotaDetailOut, **_REFUSED})
    def put(self, _request: ApiRequest, key: uuid.UUID) -> Response:
        """Write the quota anew: what is left out gets its default. What it is about stays."""
        self.administrator()
        quota, who = self.quota(key), self.who()
        self.change(
            lambda: quotas_admin.update(
                quota=quota,
                said=quotas_admin.read_said(self.values(), now=who["now"], quota=quota),
                seen_version=self.version(),
                **who,
            )
        )
        return self.answer(self.quota(key))


class ProjectQuotaEndView(_Quotas):
    @extend_schema(tags=["quotas"], request=None, responses={200: QuotaDetailOut, **_REFUSED})
    def post(self, _request: ApiRequest, key: uuid.UUID) -> Response:
        """Let it hold no longer; its ResourceQuotas are removed."""
        self.administrator()
        quota = self.quota(key)
        quotas_admin.end(quota=quota, **self.who())
        return self.answer(self.quota(key))


class ProjectQuotaRestoreView(_Quotas):
    @extend_schema(tags=["quotas"], request=None, responses={200: QuotaDetailOut, **_REFUSED})
    def post(self, request: ApiRequest, key: uuid.UUID, pk: int) -> Response:
        """Write a ResourceQuota again that somebody else has changed or deleted."""
        self.administrator()
        quota = self.quota(key)
        found = QuotaObject.objects.select_related("cluster").filter(quota=quota, pk=pk).first()
        if found is None:
            raise Http404
        if access.only_looks():
            raise Problem(access.why_only_looks(), code="only_looks", status_code=status.HTTP_409_CONFLICT)
        now = timezone.now()
        quotas_writing.restore(row=found, now=now)
        record(
            now=now, actor=self.person, action="quota.restore", target=quota, target_id=str(quota.key),
            project=quota.project, after={"cluster": found.cluster.name, "namespace": found.namespace},
            source_ip=source_ip(request),
        )  # fmt: skip
        quotas_due.send(Quota)
        return self.answer(quota)


# --- from domain to answer --------------------------------------------------------------------------


def _told(row: quotas_pages.Row) -> dict[str, Any]:
    quota, standing, kind = row.quota, row.standing, row.quota.kind
    found = {
        "key": quota.key,
        "project": quota.project.slug,
        "flavor": quota.flavor.slug if quota.flavor else None,
        "limit": quota.limit,
        "limit_exact": plain(terms_of(quota).limit, kind=kind),
        "holds": standing is not None,
        "used": plain(standing.used, kind=kind) if standing else None,
        "asked": plain(standing.asked, kind=kind) if standing else None,
        "left": plain(standing.left, kind=kind) if standing else None,
        "over": standing.over if standing else None,
        "unmeasured": standing.unmeasured if standing else None,
        "unseen_device_hours": plain(standing.unseen, kind=Quota.Kind.HOURS) if standing else None,
    }
    names = ("kind", "currency", "action", "enforced", "valid_from", "valid_until", "note", "version")
    same = {name: getattr(quota, name) for name in (*names, "over_since")}
    return dict(QuotaOut(found | same).data)


def _takers(quota: Quota, effect: Effect) -> list[dict[str, Any]]:
    ended = {request.pk for request in effect.ended}
    pieces = [(request.key, piece, request.pk in ended) for request, piece in effect.counted]
    past = [(None, effect.past_the_desk, False)] if effect.past_the_desk.used else []
    return [
        {
            "request": key,
            "used": plain(piece.used, kind=quota.kind),
            "asked": plain(piece.asked, kind=quota.kind),
            "ends": ends,
        }
        for key, piece, ends in (*pieces, *past)
    ]
