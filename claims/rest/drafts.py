"""REST of drafts of requests under /api/v1/. Sent as a request with its key, a draft is that request."""

import uuid
from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiExample, extend_schema, extend_schema_view
from rest_framework import exceptions, serializers, status
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims.asks import drafts
from claims.asks.drafts import UnableToKeep, get_draft_or_404
from claims.asks.reading import WHOLE
from claims.models import Draft
from claims.rest.answers import ProblemOut
from portal.accounts.audit import source_ip
from portal.accounts.models import ApiToken
from portal.api import ApiListView, ApiView

Scope = ApiToken.Scope


class DraftIn(serializers.Serializer[Any]):
    values = serializers.DictField(
        help_text="As for a request; complete or not, it is judged when it is sent as one."
    )


class DraftOut(serializers.Serializer[Any]):
    key = serializers.UUIDField(help_text="Of the draft, and of the request that is made of it.")
    values = serializers.DictField(child=serializers.CharField())
    created_at = serializers.DateTimeField()
    changed_at = serializers.DateTimeField()


EXAMPLE = OpenApiExample(
    "Begun, and not complete",
    value={"values": {"flavor": "h100-80g", "count": 2}},
    request_only=True,
)
_REFUSED = {400: ProblemOut, 404: ProblemOut}


@extend_schema_view(get=extend_schema(tags=["requests"]))
class DraftListView(ApiListView):
    """The caller's own drafts, the latest first."""

    required_scope = Scope.REQUESTS
    serializer_class = DraftOut
    ordering = ("-created_at", "-id")

    def get_queryset(self) -> QuerySet[Draft]:
        if getattr(self, "swagger_fake_view", False):
            return Draft.objects.none()
        return Draft.objects.filter(owner=self.person)

    @extend_schema(
        tags=["requests"], request=DraftIn, responses={201: DraftOut, **_REFUSED}, examples=[EXAMPLE]
    )
    def post(self, request: ApiRequest) -> Response:
        """Keep a draft."""
        made = _keep(self, request, None)
        return Response(DraftOut(made).data, status=status.HTTP_201_CREATED)


class DraftDetailView(ApiView):
    """One of the caller's drafts."""

    required_scope = Scope.REQUESTS

    @extend_schema(tags=["requests"], responses={200: DraftOut, 404: ProblemOut})
    def get(self, _request: ApiRequest, key: uuid.UUID) -> Response:
        """The draft as it was kept."""
        return Response(DraftOut(get_draft_or_404(self.person, key)).data)

    @extend_schema(
        tags=["requests"], request=DraftIn, responses={200: DraftOut, **_REFUSED}, examples=[EXAMPLE]
    )
    def put(self, request: ApiRequest, key: uuid.UUID) -> Response:
        """Keep these values in its place."""
        draft = get_draft_or_404(self.person, key)
        return Response(DraftOut(_keep(self, request, draft.key)).data)

    @extend_schema(tags=["requests"], responses={204: None, 404: ProblemOut})
    def delete(self, request: ApiRequest, key: uuid.UUID) -> Response:
        """Forget it."""
        draft = get_draft_or_404(self.person, key)
        drafts.discard(draft=draft, user=self.person, now=timezone.now(), source_ip=source_ip(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


def _keep(view: ApiView, request: ApiRequest, key: uuid.UUID | None) -> Draft:
    body = request.data
    values = body.get("values") if isinstance(body, Mapping) else None
    if not isinstance(values, Mapping):
        raise exceptions.ValidationError({"values": [_("This must be an object.")]})
    try:
        return drafts.keep(
            user=view.person, values=values, key=key, now=timezone.now(), source_ip=source_ip(request)
        )
    except UnableToKeep as error:
        raise exceptions.ValidationError(
            {("non_field_errors" if name == WHOLE else name): said for name, said in error.errors.items()}
        ) from error
