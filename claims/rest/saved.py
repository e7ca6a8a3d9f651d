"""REST of saved requests under /api/v1/."""

import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiExample, extend_schema, extend_schema_view
from rest_framework import exceptions, serializers, status
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims.asks import saved
from claims.asks.saved import UnableToSave, get_saved_or_404
from claims.models import SavedRequest
from claims.rest.answers import ProblemOut
from portal.accounts.audit import source_ip
from portal.accounts.models import ApiToken
from portal.api import ApiListView, ApiView

Scope = ApiToken.Scope
T = TypeVar("T")


class SavedChangeIn(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=saved.MAX_NAME)
    project = serializers.CharField(
        required=False, help_text="Slug of the project that it is shared with; left out: nobody."
    )


class SavedIn(SavedChangeIn):
    values = serializers.DictField(
        help_text="As for a request; complete or not, it is judged when somebody asks with it."
    )


class SavedOut(serializers.Serializer[Any]):
    key = serializers.UUIDField()
    name = serializers.CharField()
    owner = serializers.CharField(source="owner.username")
    project = serializers.CharField(source="project.slug", default=None, allow_null=True)
    values = serializers.DictField(child=serializers.CharField())
    created_at = serializers.DateTimeField()
    changed_at = serializers.DateTimeField()


EXAMPLE = OpenApiExample(
    "One H100 for a day, for all of the project",
    value={
        "name": "Night run",
        "project": "protein-folding",
        "values": {"flavor": "h100-80g", "count": 1, "duration": 24, "purpose": "Folding at night"},
    },
    request_only=True,
)
_REFUSED = {400: ProblemOut, 403: ProblemOut, 404: ProblemOut}


@extend_schema_view(get=extend_schema(tags=["requests"]))
class SavedListView(ApiListView):
    """The caller's own, and those shared with their projects."""

    required_scope = Scope.REQUESTS
    serializer_class = SavedOut
    ordering = ("-created_at", "-id")

    def get_queryset(self) -> QuerySet[SavedRequest]:
        if getattr(self, "swagger_fake_view", False):
            return SavedRequest.objects.none()
        return SavedRequest.objects.all().visible_to(self.person).select_related("owner", "project")

    @extend_schema(
        tags=["requests"], request=SavedIn, responses={201: SavedOut, 400: ProblemOut}, examples=[EXAMPLE]
    )
    def post(self, request: ApiRequest) -> Response:
        """Keep a request by a name. Nothing is asked for."""
        body = _object(request)
        values = body.get("values", {})
        if not isinstance(values, Mapping):
            raise exceptions.ValidationError({"values": [_("This must be an object.")]})
        made = _refused_by_field(
            lambda: saved.save(
                user=self.person,
                name=body.get("name", ""),
                project=body.get("project", ""),
                values=values,
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        )
        return Response(SavedOut(made).data, status=status.HTTP_201_CREATED)


class SavedDetailView(ApiView):
    required_scope = Scope.REQUESTS

    @extend_schema(tags=["requests"], responses={200: SavedOut, 404: ProblemOut})
    def get(self, _request: ApiRequest, key: uuid.UUID) -> Response:
        """One saved request. To ask with it, send its key as `saved` of a request."""
        return Response(SavedOut(get_saved_or_404(self.person, key)).data)

    @extend_schema(tags=["requests"], request=SavedChangeIn, responses={200: SavedOut, **_REFUSED})
    def put(self, request: ApiRequest, key: uuid.UUID) -> Response:
        """Give it another name; share it, or no longer."""
        body = _object(request)
        found = get_saved_or_404(self.person, key, for_write=True)
        _refused_by_field(
            lambda: saved.change(
                saved=found,
                user=self.person,
                name=body.get("name", ""),
                project=body.get("project", ""),
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        )
        return Response(SavedOut(found).data)

    @extend_schema(tags=["requests"], responses={204: None, **_REFUSED})
    def delete(self, request: ApiRequest, key: uuid.UUID) -> Response:
        """Forget it. Requests that were made with it go on."""
        found = get_saved_or_404(self.person, key, for_write=True)
        saved.delete(saved=found, user=self.person, now=timezone.now(), source_ip=source_ip(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


def _object(request: ApiRequest) -> Mapping[str, Any]:
    if not isinstance(request.data, Mapping):
        raise exceptions.ParseError(_("The body must be a JSON object."))
    return request.data


def _refused_by_field(change: Callable[[], T]) -> T:
    try:
        return change()
    except UnableToSave as error:
        raise exceptions.ValidationError(dict(error.errors)) from error
