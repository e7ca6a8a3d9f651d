"""REST of the charges as FOCUS: a file of some months, and what goes with it."""

from typing import Any

from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import exceptions, serializers
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims.focus.columns import LATEST, VERSIONS
from claims.focus.download import asked, download
from claims.focus.files import MEDIA_TYPES
from claims.focus.metadata import metadata
from claims.rest.answers import ProblemOut, refuse_unknown
from claims.rest.streams import CsvRenderer, Formats, etag_of, not_modified
from portal.accounts.models import ApiToken
from portal.api import ApiView


class ParquetRenderer(CsvRenderer):
    media_type, format = MEDIA_TYPES["parquet"], "parquet"
    charset = ""


class ColumnOut(serializers.Serializer[Any]):
    ColumnName = serializers.CharField()
    DataType = serializers.CharField()
    NumericPrecision = serializers.IntegerField(required=False, help_text="Of decimals.")
    NumberScale = serializers.IntegerField(required=False, help_text="Places of a decimal, at most.")
    StringEncoding = serializers.CharField(required=False)


class SchemaOut(serializers.Serializer[Any]):
    SchemaId = serializers.CharField(help_text="Another one whenever the columns are others.")
    DatasetInstanceId = serializers.CharField()
    FocusVersion = serializers.CharField()
    DataGeneratorVersion = serializers.CharField()
    CreationDate = serializers.DateTimeField()
    ColumnDefinition = ColumnOut(many=True)


class TimeSectorOut(serializers.Serializer[Any]):
    TimeSectorStart = serializers.DateTimeField()
    TimeSectorEnd = serializers.DateTimeField()
    TimeSectorComplete = serializers.BooleanField(help_text="All its statements are closed.")
    TimeSectorLastUpdated = serializers.DateTimeField()


class RecencyOut(serializers.Serializer[Any]):
    DatasetInstanceId = serializers.CharField()
    DatasetInstanceComplete = serializers.BooleanField()
    DatasetInstanceLastUpdated = serializers.DateTimeField()
    RecencyLastUpdated = serializers.DateTimeField()
    TimeSectors = TimeSectorOut(many=True)


class InstanceOut(serializers.Serializer[Any]):
    DatasetInstanceId = serializers.CharField()
    DatasetInstanceName = serializers.CharField()
    FocusDatasetId = serializers.CharField()


class GeneratorOut(serializers.Serializer[Any]):
    DataGenerator = serializers.CharField()


class InvoiceOut(serializers.Serializer[Any]):
    InvoiceId = serializers.CharField(help_text="Of a closed statement: month, project, currency.")
    BillingCurrency = serializers.CharField()
    BilledCost = serializers.CharField(help_text="What its rows add up to, to the last digit.")


class ProvisionalOut(serializers.Serializer[Any]):
    BillingCurrency = serializers.CharField()
    BilledCost = serializers.CharField(help_text="Of what is not closed yet.")


class FocusOut(serializers.Serializer[Any]):
    """As FOCUS names its metadata; what it does not know begins with x_."""

    DataGenerator = GeneratorOut()
    DatasetInstance = InstanceOut(many=True, required=False, help_text="Since 1.3.")
    Schema = SchemaOut(many=True)
    Recency = RecencyOut(many=True)
    x_Rows = serializers.IntegerField()  # noqa: N815 - FOCUS names what is not its own so
    x_Invoices = InvoiceOut(many=True)  # noqa: N815 - the same
    x_Provisional = ProvisionalOut(many=True)  # noqa: N815 - the same


_INSTANCE = "claimdesk-cost-and-usage-1.4"
_EXAMPLE = OpenApiExample(
    "A closed month",
    value={
        "DataGenerator": {"DataGenerator": "University of Example"},
        "Schema": [
            {
                "SchemaId": "claimdesk-1.4-0a1b2c3d4e5f", "DatasetInstanceId": _INSTANCE,
                "FocusVersion": "1.4", "DataGeneratorVersion": "Claimdesk 1",
                "CreationDate": "2026-11-30T00:00:00Z",
                "ColumnDefinition": [
                    {"ColumnName": "BilledCost", "DataType": "DECIMAL", "NumericPrecision": 38,
                     "NumberScale": 10},
                ],
            },
        ],
        "DatasetInstance": [
            {"DatasetInstanceId": _INSTANCE, "DatasetInstanceName": "Charges of University of Example",
             "FocusDatasetId": "CostAndUsage"},
        ],
        "Recency": [
            {
                "DatasetInstanceId": _INSTANCE, "DatasetInstanceComplete": True,
                "DatasetInstanceLastUpdated": "2026-04-02T09:00:00Z",
                "RecencyLastUpdated": "2026-04-12T00:00:00Z",
                "TimeSectors": [
                    {"TimeSectorStart": "2026-03-01T00:00:00Z", "TimeSectorEnd": "2026-04-01T00:00:00Z",
                     "TimeSectorComplete": True, "TimeSectorLastUpdated": "2026-04-02T09:00:00Z"},
                ],
            },
        ],
        "x_Rows": 4711,
        "x_Invoices": [
            {"InvoiceId": "2026-03-protein-folding-EUR", "BillingCurrency": "EUR", "BilledCost": "1250.40"},
        ],
        "x_Provisional": [],
    },
    response_only=True,
    media_type="application/json",
)  # fmt: skip


_PARAMETERS = [
    OpenApiParameter("version", enum=VERSIONS, default=LATEST, description="Of FOCUS."),
    OpenApiParameter("period", description="Month that is billed, such as 2026-03; else the last."),
    OpenApiParameter("through", description="The last month, of more than one; ten years at most."),
    OpenApiParameter("project", description="Slug; `unattributed`: what nobody is known to pay for."),
    OpenApiParameter("format", enum=["json", "csv", "parquet"],
                     description="`csv` and `parquet` are the file, of any size; `json` is its "
                     "metadata. `Accept` may ask for them, too."),
    OpenApiParameter("If-None-Match", location=OpenApiParameter.HEADER,
                     description="The `ETag` of an earlier answer: 304 where nothing has changed."),
]  # fmt: skip


class FocusView(ApiView):
    """Charges as FOCUS (FinOps Open Cost and Usage Specification) has them."""

    required_scope = ApiToken.Scope.CHARGEBACK
    renderer_classes = (JSONRenderer, CsvRenderer, ParquetRenderer)
    content_negotiation_class = Formats

    @extend_schema(
        tags=["chargeback"],
        parameters=_PARAMETERS,
        responses={
            (200, "application/json"): FocusOut,
            (200, "text/csv"): OpenApiTypes.STR,
            (200, "application/vnd.apache.parquet"): OpenApiTypes.BINARY,
            304: OpenApiResponse(description="Nothing has changed."),
            400: ProblemOut,
            404: ProblemOut,
        },
        examples=[_EXAMPLE],
    )  # fmt: skip
    def get(self, request: ApiRequest) -> HttpResponseBase:
        """A file of some months' charges, or what goes with it: columns, how complete the months are, what
        invoices come to."""
        refuse_unknown(request, _PARAMETERS)
        dataset = asked(request.query_params, viewer=self.person)
        if dataset.wanted.errors:
            said = {name: [text] for name, text in dataset.wanted.errors.items()}
            raise exceptions.ValidationError(said)
        form = request.accepted_renderer.format
        etag = etag_of(form, dataset.digest())
        if (known := not_modified(request, etag)) is not None:
            return known
        response: HttpResponseBase = (
            Response(metadata(dataset)) if form == "json" else download(dataset, form)
        )
        response["ETag"] = etag
        return response
