"""REST of the checklist of a cluster's readiness; for administrators and auditors."""

from typing import Any

from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import exceptions, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from claims.asks.reading import WrongValue, read_flag, read_text
from claims.readiness import notes
from claims.rest.answers import ProblemOut
from inventory.models import Cluster
from portal.api import ApiView, Scope


class ReadinessNoteOut(serializers.Serializer[Any]):
    settled = serializers.BooleanField(help_text="False: the word before it was taken back.")
    note = serializers.CharField()
    person = serializers.CharField(help_text="Who signed.")
    at = serializers.DateTimeField()


class ReadinessPointOut(serializers.Serializer[Any]):
    code = serializers.CharField()
    title = serializers.CharField()
    asks = serializers.CharField()
    state = serializers.ChoiceField(
        choices=list(notes.LABELS),
        help_text="met: seen; signed: not seen, but somebody's word; open: seen to be otherwise; unknown: not"
        " observed now; note: wants somebody's word.",
    )
    seen = serializers.ListField(child=serializers.CharField(), help_text="What was seen, in words.")
    note = ReadinessNoteOut(allow_null=True, help_text="The latest word for it.")


class ReadinessOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    as_of = serializers.DateTimeField()
    points = ReadinessPointOut(many=True)


class ReadinessSignIn(serializers.Serializer[Any]):
    point = serializers.CharField(max_length=40)
    note = serializers.CharField(max_length=notes.MAX_NOTE)
    settled = serializers.BooleanField(default=True)


_REFUSED = {400: ProblemOut, 403: ProblemOut, 404: ProblemOut}


class ReadinessView(ApiView):
    # Signing needs the scope of administration: `portal.rest_defaults`.
    required_scope = Scope.INVENTORY

    @extend_schema(tags=["inventory"], responses={200: ReadinessOut, 403: ProblemOut, 404: ProblemOut})
    def get(self, _request: Request, name: str) -> Response:
        """Whether a cluster is ready for production: each point with what was seen, or who signed for it."""
        self.reader()
        return self._answer(get_object_or_404(Cluster, name=name))

    @extend_schema(
        tags=["inventory"],
        request=ReadinessSignIn,
        responses={200: ReadinessOut, **_REFUSED},
        examples=[
            OpenApiExample(
                "Sign for a point",
                value={"point": "drivers", "note": "Reviewed on the change board, ticket OPS-118."},
                request_only=True,
            )
        ],
    )
    def post(self, _request: Request, name: str) -> Response:
        """Sign for a point, or take that back."""
        self.administrator()
        cluster = get_object_or_404(Cluster, name=name)
        body = self.values()
        field = "point"
        try:
            point = read_text(body, "point", limit=40)
            field = "note"
            note = read_text(body, "note", limit=notes.MAX_NOTE)
            field = "settled"
            settled = read_flag(body, "settled") if "settled" in body else True
            notes.sign(
                cluster=cluster,
                point=point,
                note=note,
                settled=settled,
                **self.who(),
            )
        except WrongValue as error:
            raise exceptions.ValidationError({field: [str(error)]}) from error
        except notes.UnableToSign as error:
            raise exceptions.ValidationError({error.field: [error.message]}) from error
        return self._answer(cluster)

    def _answer(self, cluster: Cluster) -> Response:
        now = timezone.now()
        return Response(notes.document(cluster, notes.checklist(cluster, now=now), now=now))
