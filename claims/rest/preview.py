"""REST of the preview under /api/v1/: what an ask would get, before anything is sent."""

from collections.abc import Mapping
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import exceptions, serializers
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims.asks import judging as asks
from claims.money.expected import digits
from claims.money.pricing import price_list
from claims.preview.outlook import Expected
from claims.preview.panel import Preview, preview
from claims.preview.verdicts import Verdict
from claims.rest.answers import CostRangeOut, ProblemOut, amount_text, range_of
from claims.rest.requests import RequestIn
from portal.accounts.models import ApiToken
from portal.api import ApiView


class PreviewIn(RequestIn):
    """As for a request; what is not known yet may be left out."""

    project = serializers.CharField(required=False, help_text="Slug of the project that pays.")
    purpose = serializers.CharField(required=False, max_length=asks.MAX_PURPOSE)


class SuggestionOut(serializers.Serializer[Any]):
    code = serializers.CharField(
        help_text="fewer, memory, without-…, node-taint, device-taint, pool, cluster or flavor."
    )
    words = serializers.CharField()
    change = serializers.DictField(
        child=serializers.CharField(),
        help_text="Fields of the ask and their other values; empty where only an administrator can do it.",
    )


class AutoscalerOut(serializers.Serializer[Any]):
    reported_by = serializers.CharField(source="source")
    group = serializers.CharField(source="group.name")
    minimum = serializers.IntegerField(source="group.minimum")
    maximum = serializers.IntegerField(
        source="group.maximum", allow_null=True, help_text="Null: it names no bound."
    )
    current = serializers.IntegerField(source="group.current", allow_null=True)
    stuck = serializers.CharField(source="group.stuck", help_text="Why it does not grow now; empty: nothing.")
    at = serializers.DateTimeField(help_text="As of when.")


class GrowthOut(serializers.Serializer[Any]):
    pool = serializers.CharField(source="pool.name")
    nodes = serializers.IntegerField(help_text="Those that are there.")
    max_nodes = serializers.IntegerField(source="pool.max_nodes")
    more = serializers.IntegerField(help_text="How many further nodes it may get.")
    autoscaler = AutoscalerOut(
        source="report", allow_null=True, help_text="What its autoscaler says; null: nothing is known."
    )
    devices = serializers.IntegerField(source="pool.devices", help_text="That each further node brings.")
    product = serializers.CharField(source="pool.product")
    note = serializers.CharField(source="pool.note")


class HeldOut(serializers.Serializer[Any]):
    project = serializers.CharField(help_text="Empty: a namespace of no project.")
    devices = serializers.IntegerField()
    until = serializers.DateTimeField(allow_null=True, help_text="Null: nobody said.")
    request = serializers.UUIDField(allow_null=True, help_text="Only for those who see the request.")


class ExpectedOut(serializers.Serializer[Any]):
    typical_seconds = serializers.SerializerMethodField(
        help_text="Half waited at most so long; null: no data."
    )
    most_seconds = serializers.SerializerMethodField(help_text="Nine of ten; null: cannot be said yet.")
    cases = serializers.IntegerField()

    def get_typical_seconds(self, expected: Expected) -> float | None:
        return None if expected.typical is None else expected.typical.total_seconds()

    def get_most_seconds(self, expected: Expected) -> float | None:
        return None if expected.most is None else expected.most.total_seconds()


class CostLineOut(serializers.Serializer[Any]):
    product = serializers.CharField()
    count = serializers.IntegerField()
    hours = serializers.CharField()
    price_per_device_hour = serializers.CharField(allow_null=True, help_text="Null: no price.")
    currency = serializers.CharField()
    amount = serializers.CharField(allow_null=True, help_text="Rounded to the currency's minor unit.")
    units = serializers.CharField(
        help_text="What one device counts as, where its price is by parts or amounts."
    )
    use = serializers.CharField(help_text='"unused": the price of what is held without being used.')
    role = serializers.CharField(help_text='"instead" of an alternative, "besides" of a further part.')


class PlacedDeviceOut(serializers.Serializer[Any]):
    product = serializers.CharField()
    count = serializers.IntegerField()


class PlacedOut(serializers.Serializer[Any]):
    nodes = serializers.ListField(child=serializers.CharField())
    devices = PlacedDeviceOut(many=True)
    cost = CostRangeOut()


class PreviewQuotaOut(serializers.Serializer[Any]):
    what = serializers.CharField()
    left = serializers.CharField()
    limit = serializers.CharField()
    takes = serializers.CharField()
    over = serializers.BooleanField()
    refuses = serializers.BooleanField()


class PreviewOut(serializers.Serializer[Any]):
    verdict = serializers.ChoiceField(choices=Verdict.choices)
    in_step = serializers.BooleanField(help_text="Whether the desk knows the cluster's present state.")
    as_of = serializers.DateTimeField(allow_null=True)
    why_not_in_step = serializers.CharField(source="why")
    feasible = serializers.BooleanField(
        allow_null=True, help_text="Placed now if it were sent; null: unknown."
    )
    matching = serializers.IntegerField(allow_null=True)
    free = serializers.IntegerField(allow_null=True)
    products = serializers.ListField(child=serializers.CharField())
    nodes = serializers.ListField(
        child=serializers.CharField(), allow_null=True, help_text="Where it would be placed now."
    )
    room = serializers.IntegerField(allow_null=True, help_text="How many such requests fit now.")
    room_exact = serializers.BooleanField(help_text="False: at least so many.")
    reasons = serializers.ListField(child=serializers.CharField(), help_text="Why it does not fit now.")
    problem = serializers.CharField(help_text="Why it cannot be decided; empty when it can.")
    suggestions = SuggestionOut(many=True, help_text="What would fit now, confirmed by the engine.")
    growth = GrowthOut(many=True, help_text="Node pools that would bring it.")
    held = HeldOut(many=True, help_text="Who holds what would do, the first to end first.")
    waiting = serializers.IntegerField(
        allow_null=True, help_text="Requests that wait for the same before it."
    )
    expected_wait = ExpectedOut(source="expected", allow_null=True)
    priority = serializers.CharField(
        source="priority_words", help_text="What the hold's priority class means; empty without one."
    )
    booked = serializers.CharField(help_text="What of it others have booked; empty: nothing.")
    maintenance = serializers.ListField(
        child=serializers.CharField(), help_text="Maintenance that it would run into, in words."
    )
    quotas = PreviewQuotaOut(many=True)
    approval = serializers.CharField(help_text="Who would have to agree; empty: nobody.")
    cost = CostLineOut(many=True, help_text="The arithmetic, one line for each price that may apply.")
    cost_ranges = CostRangeOut(many=True, help_text="What it comes to, whichever device it will be.")
    placed = PlacedOut(
        many=True,
        help_text="Where that is a range and it fits: what it would be on up to five nodes, if now.",
    )
    warnings = serializers.ListField(child=serializers.CharField())
    refusals = serializers.DictField(
        child=serializers.ListField(child=serializers.CharField()),
        help_text="What would be refused, by field; fields that were left out are not among it.",
    )


EXAMPLE = OpenApiExample(
    "Would two GPUs with 40 GiB fit now?",
    value={
        "project": "protein-folding",
        "cluster": "main",
        "device_class": "gpu.nvidia.com",
        "count": 2,
        "min_memory": "40Gi",
        "duration": 3,
        "duration_unit": "days",
    },
    request_only=True,
)


class RequestPreviewView(ApiView):
    """What an ask would get. Nothing is stored or sent, and nothing is promised: somebody else may be
    faster."""

    # Nothing is changed by this POST: it carries a question that no address could.
    required_scope = ApiToken.Scope.REQUESTS

    @extend_schema(
        tags=["requests"],
        request=PreviewIn,
        responses={200: PreviewOut, 400: ProblemOut, 403: ProblemOut},
        examples=[EXAMPLE],
    )
    def post(self, request: ApiRequest) -> Response:
        """Ask what a request would get: the same answer as the panel beside the form."""
        values = request.data
        if not isinstance(values, Mapping):
            raise exceptions.ParseError(_("The body must be a JSON object."))
        now = timezone.now()
        reading = asks.read({"shape": "claim", **values}, user=self.person, now=now)
        told = preview(reading, prices=price_list(), now=now, viewer=self.person)
        return Response(_answer(told, values))


def _answer(told: Preview, values: Mapping[str, object]) -> dict[str, Any]:
    answer = dict(PreviewOut(_Answer(told, values)).data)
    answer["nodes"] = None if told.nodes is None else list(told.nodes)
    return answer


class _Answer:
    """A preview as the serializer reads it."""

    def __init__(self, told: Preview, values: Mapping[str, object]) -> None:
        self._told = told
        # What is left out is no mistake in a question.
        self.refusals = {
            name: said for name, said in told.reading.errors.items() if values.get(name) not in (None, "")
        }
        self.cost = [
            {
                "product": line.product,
                "count": line.count,
                "hours": f"{float(line.hours):g}",
                "price_per_device_hour": None if line.hourly is None else digits(line.hourly),
                "currency": line.currency,
                "amount": None if line.amount is None else amount_text(line.amount, line.currency),
                "units": line.units or "1",
                "use": line.use,
                "role": line.role,
            }
            for line in told.cost
        ]
        self.cost_ranges = [range_of(cost) for cost in told.costs]
        self.placed = [
            {
                "nodes": list(one.nodes),
                "devices": [{"product": product, "count": count} for product, count in one.devices],
                "cost": range_of(one.cost),
            }
            for one in told.placed
        ]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._told, name)
