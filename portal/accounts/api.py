"""REST of the audit trail, for administrators and auditors. Scope `administration`."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import exceptions, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.access import may_read_everything
from portal.accounts import trail
from portal.accounts.models import AuditEntry
from portal.api import ApiListView, ApiView, Scope

PARAMETERS = [
    *(
        OpenApiParameter(facet.name, OpenApiTypes.STR, many=True, description="May be repeated: any of them.")
        for facet in trail.TRAIL.facets
    ),
    OpenApiParameter("q", str, description="Words in the object's name or id, the action, the person."),
    OpenApiParameter("since", OpenApiTypes.DATE, description="From this day on."),
    OpenApiParameter("until", OpenApiTypes.DATE, description="Up to and including this day."),
]


class EntryOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    actor = serializers.CharField(
        source="actor.username", allow_null=True, default=None, help_text="Null: the desk itself, or a shell."
    )
    action = serializers.CharField()
    target_kind = serializers.CharField()
    target_id = serializers.CharField()
    target_name = serializers.CharField(help_text="As people knew it by then.")
    project = serializers.CharField(source="project.slug", allow_null=True, default=None)
    before = serializers.DictField(allow_null=True, help_text="The changed values only.")
    after = serializers.DictField(allow_null=True)
    source_ip = serializers.CharField(allow_null=True)


class _OfTrail(ApiView):
    required_scope = Scope.ADMINISTRATION

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if not may_read_everything(self.person):
            raise PermissionDenied(_("Only administrators and auditors may see this."))


@extend_schema_view(get=extend_schema(parameters=PARAMETERS, tags=["audit"]))
class AuditListView(_OfTrail, ApiListView):
    """Who changed what, newest first, by the filters of the page."""

    serializer_class = EntryOut
    ordering: ClassVar[Sequence[str]] = ("-at", "-id")

    def get_queryset(self) -> "QuerySet[AuditEntry]":
        form = trail.DaysForm(self.request.GET)
        if not form.is_valid():
            said = form.errors.get_json_data()
            raise exceptions.ValidationError(
                {name: [one["message"] for one in of] for name, of in said.items()}
            )
        # Django's own request: DRF's is none, though it answers like one.
        return trail.found(self.request._request, form).select_related("actor", "project")


class AuditEntryView(_OfTrail):
    @extend_schema(responses=EntryOut, tags=["audit"])
    def get(self, _request: Request, pk: int) -> Response:
        """One change."""
        entry = get_object_or_404(AuditEntry.objects.select_related("actor", "project"), pk=pk)
        return Response(EntryOut(entry).data)
