"""REST of one's own notifications and of what one wants to be told, under /api/v1/."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import exceptions, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.audit import source_ip
from portal.accounts.models import Notification
from portal.accounts.notifications import choosing, inbox
from portal.accounts.notifications.channels import offered_channels, offered_kinds
from portal.accounts.notifications.kinds import Channel, Kind
from portal.api import ApiListView, ApiView, Scope

PARAMETERS = [
    OpenApiParameter("kind", str, enum=Kind.values, description="Only of this kind."),
    OpenApiParameter("unread", bool, description="`true`: only those that were not read."),
]


class NotificationOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    kind = serializers.CharField()
    subject = serializers.CharField(source="__str__", help_text="In the caller's language.")
    body = serializers.CharField(source="body_text")
    url = serializers.CharField(help_text="A path of the portal.")
    project = serializers.CharField(source="project.slug", allow_null=True, default=None)
    created_at = serializers.DateTimeField()
    read_at = serializers.DateTimeField(allow_null=True)


class ReadIn(serializers.Serializer[Any]):
    id = serializers.IntegerField(required=False, min_value=1, max_value=2**63 - 1)
    kind = serializers.ChoiceField(choices=Kind.choices, required=False)


class ReadOut(serializers.Serializer[Any]):
    read = serializers.IntegerField(help_text="How many had not been read.")


class ChoiceOut(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(choices=Kind.choices)
    channel = serializers.ChoiceField(choices=Channel.choices)
    wanted = serializers.BooleanField()


@extend_schema_view(get=extend_schema(parameters=PARAMETERS, tags=["notifications"]))
class NotificationListView(ApiListView):
    """The caller's notifications, newest first."""

    required_scope = Scope.REQUESTS
    serializer_class = NotificationOut
    ordering: ClassVar[Sequence[str]] = ("-created_at", "-id")

    def get_queryset(self) -> QuerySet[Notification]:
        if getattr(self, "swagger_fake_view", False):
            return Notification.objects.none()
        kind = self.request.query_params.get("kind", "")
        if kind and kind not in Kind.values:
            raise exceptions.ValidationError({"kind": [_("There is no such kind.")]})
        rows = inbox.newest(self.person, kind=kind)
        return rows.unread() if self.request.query_params.get("unread") == "true" else rows


class NotificationReadView(ApiView):
    required_scope = Scope.REQUESTS

    @extend_schema(
        tags=["notifications"],
        request=ReadIn,
        responses=ReadOut,
        examples=[OpenApiExample("All about quotas", value={"kind": "quota"}, request_only=True)],
    )
    def post(self, request: Request) -> Response:
        """Mark one (`id`), all of a kind, or (with an empty object) all as read."""
        body = ReadIn(data=request.data)
        body.is_valid(raise_exception=True)
        given = body.validated_data
        if "id" in given:
            get_object_or_404(Notification.objects.of(self.person), pk=given["id"])
        count = inbox.read(
            person=self.person, now=timezone.now(), pk=given.get("id"), kind=given.get("kind", "")
        )
        return Response({"read": count})


class NotificationChoicesView(ApiView):
    required_scope = Scope.REQUESTS

    @extend_schema(tags=["notifications"], responses=ChoiceOut(many=True))
    def get(self, _request: Request) -> Response:
        """What the caller is told, by kind and channel."""
        return Response(self._told())

    @extend_schema(
        tags=["notifications"],
        request=ChoiceOut(many=True),
        responses=ChoiceOut(many=True),
        examples=[
            OpenApiExample(
                "Changes of my requests by mail, too",
                value={"kind": "request", "channel": "mail", "wanted": True},
                request_only=True,
            )
        ],
    )
    def put(self, request: Request) -> Response:
        """Change some of it; what is not named stays."""
        body = ChoiceOut(data=request.data, many=True)
        body.is_valid(raise_exception=True)
        offered = {(kind, channel) for kind in offered_kinds(self.person) for channel in offered_channels()}
        choices = {(Kind(one["kind"]), Channel(one["channel"])): one["wanted"] for one in body.validated_data}
        if strange := [f"{kind}/{channel}" for kind, channel in choices if (kind, channel) not in offered]:
            said = _("This is not offered to you: %(what)s.") % {"what": ", ".join(strange)}
            raise exceptions.ValidationError({"non_field_errors": [said]})
        choosing.choose(
            person=self.person, choices=choices, now=timezone.now(), source_ip=source_ip(request._request)
        )
        return Response(self._told())

    def _told(self) -> list[dict[str, Any]]:
        return [
            {"kind": cell.kind.value, "channel": cell.channel.value, "wanted": cell.wanted}
            for row in choosing.cells(self.person)
            for cell in row
        ]
