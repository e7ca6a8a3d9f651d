"""What the REST of use and cost answers with."""

from typing import Any

from rest_framework import serializers

from claims.models import Charge


class TotalOut(serializers.Serializer[Any]):
    currency = serializers.CharField()
    amount = serializers.CharField(help_text="Rounded once; the rows of all pages add up to it.")
    exact_numerator = serializers.CharField()
    exact_denominator = serializers.CharField()


class QuantityOut(serializers.Serializer[Any]):
    unit = serializers.CharField()
    per = serializers.CharField(help_text='Of a capacity how much is one unit, such as "1Gi"; else empty.')
    unit_hours = serializers.CharField()


class UsageRowOut(serializers.Serializer[Any]):
    project = serializers.CharField(required=False, help_text="Empty: unattributed, and idle time.")
    cost_centre = serializers.CharField(required=False)
    person = serializers.CharField(required=False, help_text="Empty where the caller may not know persons.")
    cluster = serializers.CharField(required=False)
    product = serializers.CharField(required=False)
    profile = serializers.CharField(required=False)
    kind = serializers.ChoiceField(choices=Charge.Kind.choices, required=False)
    hour = serializers.CharField(required=False, help_text="When it begins, in UTC.")
    day = serializers.CharField(required=False, help_text="In the organisation's time zone.")
    month = serializers.CharField(required=False, help_text="Likewise.")
    unit = serializers.CharField(help_text="Different units are different rows.")
    per = serializers.CharField()
    unit_hours = serializers.CharField(help_text="A decimal with six places.")
    currency = serializers.CharField(allow_null=True, help_text="Null: no price.")
    amount = serializers.CharField(
        allow_null=True, help_text="Rounded so that the rows of a currency add up to its total."
    )
    exact_numerator = serializers.CharField(allow_null=True)
    exact_denominator = serializers.CharField(allow_null=True)

    def get_fields(self) -> dict[str, Any]:
        # "class" is no name that Python takes for an attribute.
        return super().get_fields() | {"class": serializers.CharField(required=False)}


class UsageOut(serializers.Serializer[Any]):
    start = serializers.DateTimeField(help_text="1970: whenever it was, since only `billed` was named.")
    end = serializers.DateTimeField()
    as_of = serializers.DateTimeField(help_text="What still runs is counted up to here.")
    billed = serializers.CharField(allow_null=True, help_text="The month of the statements; null: any.")
    group_by = serializers.ListField(child=serializers.CharField())
    next = serializers.URLField(allow_null=True)
    results = UsageRowOut(many=True)
    totals = TotalOut(many=True)
    quantities = QuantityOut(many=True)


class ChargeRowOut(serializers.Serializer[Any]):
    id = serializers.IntegerField(help_text="Of the charge's page, /charges/…/.")
    kind = serializers.ChoiceField(choices=Charge.Kind.choices)
    billed = serializers.CharField(help_text="The month of the statement.")
    closed = serializers.BooleanField(help_text="Its month is closed: it never changes again.")
    start = serializers.DateTimeField(help_text="Cut to the period.")
    end = serializers.DateTimeField()
    project = serializers.CharField(allow_null=True)
    cost_centre = serializers.CharField()
    person = serializers.CharField()
    cluster = serializers.CharField()
    driver = serializers.CharField()
    pool = serializers.CharField()
    device = serializers.CharField()
    hardware_id = serializers.CharField()
    device_class = serializers.CharField()
    product = serializers.CharField()
    profile = serializers.CharField()
    use = serializers.CharField()
    unit = serializers.CharField()
    per = serializers.CharField()
    quantity = serializers.CharField(help_text='An exact number such as "3/8".')
    unit_hours = serializers.CharField()
    list_price = serializers.CharField(allow_null=True, help_text="Per unit and hour.")
    percent_off = serializers.CharField()
    currency = serializers.CharField(allow_null=True)
    amount = serializers.CharField(
        allow_null=True, help_text="Six places, each by itself: add up the exact ones."
    )
    exact_numerator = serializers.CharField(allow_null=True)
    exact_denominator = serializers.CharField(allow_null=True)
    corrects = serializers.IntegerField(allow_null=True, help_text="The charge that it corrects.")
    note = serializers.CharField()


class ChargeOut(UsageRowOut):
    """One charge; or, with `group_by`, charges put together: then with what they are grouped by, and without
    what only a single one has."""

    def get_fields(self) -> dict[str, Any]:
        # Measured is either; what else there is depends on `group_by`.
        fields = super().get_fields()
        for name, field in ChargeRowOut().get_fields().items():
            if name not in fields:
                field.required = False
                fields[name] = field
        fields["project"] = serializers.CharField(required=False, allow_null=True)
        return fields


class ChargesOut(serializers.Serializer[Any]):
    start = serializers.DateTimeField(help_text="1970: whenever it was, since only `billed` was named.")
    end = serializers.DateTimeField()
    as_of = serializers.DateTimeField(help_text="What still runs is counted up to here.")
    billed = serializers.CharField(allow_null=True, help_text="The month of the statements; null: any.")
    group_by = serializers.ListField(child=serializers.CharField())
    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True, required=False)
    results = ChargeOut(many=True)
    totals = TotalOut(many=True, allow_null=True, help_text="Of all pages. Null: the first page has it.")
    quantities = QuantityOut(many=True, allow_null=True, help_text="Likewise.")
