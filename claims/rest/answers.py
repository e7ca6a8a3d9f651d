"""What several of the desk's REST views answer with: requests, amounts, problems."""

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiParameter, inline_serializer
from rest_framework import exceptions, serializers
from rest_framework.request import Request as ApiRequest

from claims.models import Request
from claims.money.expected import Cost
from claims.money.pricing import Statement
from portal import money


class RequestOut(serializers.Serializer[Any]):
    key = serializers.UUIDField()
    name = serializers.CharField(source="object_name", help_text="Name of the object on the cluster.")
    project = serializers.CharField(source="project.slug")
    requester = serializers.CharField(source="requester.username")
    cluster = serializers.CharField(source="cluster.name")
    namespace = serializers.CharField()
    flavor = serializers.CharField(source="flavor.slug", default=None, allow_null=True)
    backend = serializers.ChoiceField(choices=Request.Backend.choices)
    pool = serializers.CharField(help_text="The flavor's node pool; may be empty.")
    device_class = serializers.CharField(help_text="Empty with a Device Plugin.")
    extended_resource = serializers.CharField(help_text="Empty with DRA.")
    count = serializers.IntegerField()
    min_memory = serializers.CharField()
    options = serializers.DictField(help_text="What was chosen beyond that: alternatives, parts, …")
    shape = serializers.ChoiceField(choices=Request.Shape.choices)
    duration_hours = serializers.SerializerMethodField()
    purpose = serializers.CharField()
    state = serializers.ChoiceField(choices=Request.State.choices)
    reason = serializers.ChoiceField(
        choices=Request.Reason.choices, help_text="Why it is in that state; may be empty."
    )
    message = serializers.CharField(help_text="The same in the cluster's words.")
    hold = serializers.BooleanField(source="hold_wanted")
    created_at = serializers.DateTimeField()
    changed_at = serializers.DateTimeField()
    allocated_at = serializers.DateTimeField(allow_null=True)
    expires_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)

    def get_duration_hours(self, request: Request) -> int:
        return int(request.duration.total_seconds() // 3600)


class AmountOut(serializers.Serializer[Any]):
    currency = serializers.CharField()
    amount = serializers.CharField(help_text="A decimal, rounded to the currency's minor unit.")


# A function, because `errors` is the name of an attribute of serializer classes.
ProblemOut = inline_serializer(
    "Problem",
    {
        "type": serializers.CharField(),
        "title": serializers.CharField(),
        "status": serializers.IntegerField(),
        "code": serializers.CharField(),
        "detail": serializers.CharField(),
        "errors": serializers.ListField(
            child=serializers.DictField(child=serializers.CharField()),
            required=False,
            help_text='Per field: {"field", "message", "code"}.',
        ),
    },
)


def totals_of(told: Statement) -> list[dict[str, str]]:
    return [{"currency": currency, "amount": str(amount)} for currency, amount in told.totals.items()]


class CostRangeOut(serializers.Serializer[Any]):
    low = serializers.CharField(allow_null=True, help_text="At least; null: nothing has a price.")
    high = serializers.CharField(allow_null=True, help_text="At most; the same as `low` where it is known.")
    currency = serializers.CharField()
    unpriced = serializers.ListField(
        child=serializers.CharField(), help_text="Devices without a price, which are not in it."
    )
    role = serializers.CharField(help_text='"instead" of an alternative, "besides" of a further part.')


def range_of(cost: Cost) -> dict[str, Any]:
    """As `CostRangeOut` has it."""
    return {
        "low": None if cost.amount is None else amount_text(cost.amount.low, cost.currency),
        "high": None if cost.amount is None else amount_text(cost.amount.high, cost.currency),
        "currency": cost.currency,
        "unpriced": cost.unpriced,
        "role": cost.role,
    }


def amount_text(amount: Fraction, currency: str) -> str:
    """Rounded to the currency's minor unit."""
    return str(money.rounded(amount, currency=currency))


def refuse_unknown(request: ApiRequest, parameters: Iterable[OpenApiParameter]) -> None:
    """Raises ValidationError for what no parameter is called, and for what is said twice: amounts of another
    month, since the name of the parameter was misspelt or only the last one counted, would be booked before
    anybody noticed."""
    known = [one.name for one in parameters if one.location == OpenApiParameter.QUERY]
    said = _("Choose one of: %(choices)s.") % {"choices": ", ".join(known)}
    if wrong := {name: [said] for name in request.query_params if name not in (*known, "format")}:
        raise exceptions.ValidationError(wrong)
    told = request.query_params.lists()
    if twice := {name: [_("“%(key)s” is given twice") % {"key": name}] for name, of in told if len(of) > 1}:
        raise exceptions.ValidationError(twice)
