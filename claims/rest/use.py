"""REST over how busy a device was, hour by hour. Scope `inventory`; as much of it as the caller may know."""

from datetime import timedelta
from typing import Any

from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import exceptions, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from claims.history.intervals import parse_moment
from claims.utilisation.devices import history_of, is_measured
from inventory.models import Device
from portal.accounts.models import ApiToken
from portal.api import ApiView

DAY = timedelta(days=1)
LONGEST = timedelta(days=31)


class HourOfUseOut(serializers.Serializer[Any]):
    hour = serializers.DateTimeField(help_text="Its beginning.")
    measured_seconds = serializers.FloatField(help_text="0: no data, which is not a use of zero.")
    mean_percent = serializers.FloatField(allow_null=True)
    highest_percent = serializers.FloatField(allow_null=True)


class DeviceUseOut(serializers.Serializer[Any]):
    device = serializers.IntegerField()
    hardware_id = serializers.CharField()
    configured = serializers.BooleanField(help_text="Whether the cluster's Prometheus is asked at all.")
    measured_seconds = serializers.FloatField()
    mean_percent = serializers.FloatField(allow_null=True)
    highest_percent = serializers.FloatField(allow_null=True)
    hours = HourOfUseOut(many=True)


class DeviceUseView(ApiView):
    required_scope = ApiToken.Scope.INVENTORY

    @extend_schema(
        parameters=[
            OpenApiParameter("from", str, description="A date, or an ISO 8601 time; a day ago unless given."),
            OpenApiParameter("to", str, description="Exclusive; a date includes that day. At most 31 days."),
        ],
        responses=DeviceUseOut,
        tags=["monitoring"],
    )
    def get(self, request: Request, pk: int) -> Response:
        """How busy a device was, hour by hour. Administrators and auditors are told all of it, others the
        time in which projects of theirs held it."""
        device = get_object_or_404(Device, pk=pk)
        bounds = {}
        for name in ("from", "to"):
            try:
                bounds[name] = parse_moment(
                    request.query_params.get(name, "").replace("\0", "")[:64], end=name == "to"
                )
            except ValueError as error:
                raise exceptions.ValidationError({name: str(error)}) from None
        end = bounds["to"] or timezone.now()
        start = bounds["from"] or end - DAY
        if not start < end:
            raise exceptions.ValidationError({"to": _("The end must be later than the beginning.")})
        if end - start > LONGEST:
            raise exceptions.ValidationError({"from": _("At most %(n)d days at once.") % {"n": LONGEST.days}})
        found = history_of(device, viewer=self.person, start=start, end=end)
        told = {
            "device": device.pk,
            "hardware_id": device.hardware_id,
            "configured": is_measured(device.cluster_id),
            **_use(found.whole),
            "hours": [{"hour": hour.hour, **_use(hour.use)} for hour in found.hours],
        }
        return Response(DeviceUseOut(told).data)


def _use(use: Any) -> dict[str, float | None]:
    return {
        "measured_seconds": use.measured.total_seconds() if use else 0.0,
        "mean_percent": round(use.mean, 2) if use else None,
        "highest_percent": round(use.highest, 2) if use else None,
    }
