"""REST of requests under /api/v1/.

The same domain functions as the pages: the same fields get the same messages, and what a person may not see,
their token may not see.
"""

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import exceptions, serializers, status
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims.asks import judging as asks
from claims.asks.again import values_of
from claims.asks.reading import WHOLE
from claims.asks.saved import get_saved_or_404
from claims.asks.values import UnableToSubmit
from claims.models import Request
from claims.requests import actions as requests
from claims.requests.actions import UnableToChange
from claims.requests.browse import filtered, get_request_or_404
from claims.requests.story import Story, story
from claims.rest.answers import AmountOut, ProblemOut, RequestOut, totals_of
from portal.accounts.audit import source_ip
from portal.accounts.models import ApiToken, User
from portal.api import ApiListView, ApiView, Problem

Scope = ApiToken.Scope


class RequestIn(serializers.Serializer[Any]):
    """What a request asks for. Judged by the same rules as the form."""

    project = serializers.CharField(help_text="Slug of the project that pays.")
    flavor = serializers.CharField(
        required=False, help_text="Slug of a flavor of the catalogue; else name a `device_class`."
    )
    cluster = serializers.CharField(
        required=False, help_text="May be left out with a flavor: the first that serves it to the project."
    )
    pool = serializers.CharField(required=False, help_text="A node pool of the flavor there.")
    namespace = serializers.CharField(
        required=False, help_text="One of the project's; may be left out if it has only one there."
    )
    device_class = serializers.CharField(
        required=False, help_text="Name of a DeviceClass of the cluster, without a flavor."
    )
    count = serializers.IntegerField(
        min_value=1, max_value=asks.MAX_COUNT, required=False, help_text="May be left out with a flavor."
    )
    min_memory = serializers.CharField(
        required=False, max_length=32, help_text='A Kubernetes quantity such as "40Gi"; empty for any.'
    )
    alternatives = serializers.ListField(
        child=serializers.DictField(),
        required=False,
        help_text='Flavors that would do instead, in order: {"flavor": …, "count": …}.',
    )
    parts = serializers.ListField(
        child=serializers.DictField(),
        required=False,
        help_text='Further devices in the same claim: {"device_class": …, "count": …}.',
    )
    same = serializers.CharField(required=False, help_text="Attribute that all devices share (domain/name).")
    different = serializers.CharField(required=False, help_text="Attribute in which all devices differ.")
    share = serializers.DictField(
        child=serializers.CharField(), required=False, help_text="How much of a shared device, by capacity."
    )
    tolerations = serializers.ListField(
        child=serializers.DictField(), required=False, help_text="Taints of devices, as in the API."
    )
    expression = serializers.CharField(required=False, help_text="CEL that must be true.")
    shape = serializers.ChoiceField(
        choices=Request.Shape.choices,
        required=False,
        help_text="May be left out with a flavor. A Device Plugin gives entitlements, DRA the others.",
    )
    duration = serializers.IntegerField(
        min_value=1, required=False, help_text="In units of `duration_unit`; may be left out with a flavor."
    )
    duration_unit = serializers.ChoiceField(choices=list(asks.UNITS), required=False, default="hours")
    purpose = serializers.CharField(max_length=asks.MAX_PURPOSE)
    queue = serializers.CharField(
        required=False,
        help_text="A LocalQueue of Kueue in the namespace. It admits templates and entitlements only.",
    )
    like = serializers.UUIDField(
        required=False, help_text="Key of a request: what is left out is as it was asked for there."
    )
    saved = serializers.UUIDField(
        required=False, help_text="Key of a saved request: what is left out is as it was saved."
    )
    key = serializers.UUIDField(
        required=False,
        help_text="Chosen by the client: sent again with it, it is the same request (200, not 201).",
    )


class DeviceHeldOut(serializers.Serializer[Any]):
    driver = serializers.CharField()
    pool = serializers.CharField()
    device = serializers.CharField(source="name")
    node = serializers.CharField()
    product = serializers.CharField()
    claim = serializers.CharField()


class PodOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    phase = serializers.CharField()
    node = serializers.CharField()
    hold = serializers.BooleanField(help_text="The desk's own Pod that keeps the device.")
    why = serializers.CharField(help_text="Why it has no node, in the scheduler's words.")


class RequestDetailOut(RequestOut):
    words = serializers.CharField(help_text="The state in a sentence.")
    in_step = serializers.BooleanField(help_text="Whether the desk knows the cluster's present state.")
    claims_allocated = serializers.IntegerField()
    claims_total = serializers.IntegerField()
    devices = DeviceHeldOut(many=True)
    pods = PodOut(many=True)
    cost = AmountOut(many=True)
    pod_snippet = serializers.CharField(help_text="YAML that a Pod needs to use it.")
    job = serializers.CharField(help_text="A whole Job that uses it, as YAML.")
    manifest = serializers.CharField(help_text="What is sent to the cluster; empty for an entitlement.")


EXAMPLE = OpenApiExample(
    "One GPU with 40 GiB for three days",
    value={
        "project": "protein-folding",
        "cluster": "main",
        "device_class": "gpu.nvidia.com",
        "count": 1,
        "min_memory": "40Gi",
        "shape": "claim",
        "duration": 3,
        "duration_unit": "days",
        "purpose": "Folding of the March set",
    },
    request_only=True,
)


@extend_schema_view(
    get=extend_schema(
        tags=["requests"],
        parameters=[
            OpenApiParameter("state", description="A state, `active` or `over`."),
            OpenApiParameter("project", description="Slug."),
            OpenApiParameter("mine", OpenApiTypes.BOOL, description="Only those of the caller."),
            OpenApiParameter("q", description="Part of name, class or purpose."),
        ],
    )
)
class RequestListView(ApiListView):
    """Requests of the caller's projects, newest first."""

    required_scope = Scope.REQUESTS
    serializer_class = RequestOut
    post_talks_to_cluster = True

    def get_queryset(self) -> QuerySet[Request]:
        if getattr(self, "swagger_fake_view", False):
            return Request.objects.none()
        rows = filtered(Request.objects.all().visible_to(self.person), self.request.query_params, self.person)
        return rows.select_related("project", "requester", "cluster", "flavor").defer(
            "cluster__kubeconfig_encrypted"
        )

    @extend_schema(
        tags=["requests"],
        request=RequestIn,
        responses={201: RequestOut, 200: RequestOut, 400: ProblemOut},
        examples=[EXAMPLE],
    )
    def post(self, request: ApiRequest) -> Response:
        """Ask for devices. The cluster judges it on trial first; nothing is stored when it refuses."""
        values = request.data
        if not isinstance(values, Mapping):
            raise exceptions.ParseError(_("The body must be a JSON object."))
        now = timezone.now()
        try:
            made = requests.submit(
                user=self.person,
                values={**_given(values, self.person), **values},
                key=values.get("key"),
                now=now,
                source_ip=source_ip(request),
                within=lambda made: self.keep(_created(made)),
            )
        except UnableToSubmit as error:
            raise exceptions.ValidationError(
                {("non_field_errors" if name == WHOLE else name): said for name, said in error.errors.items()}
            ) from error
        return _created(made) if made.created_at == now else Response(RequestOut(made).data)


class RequestDetailView(ApiView):
    """One request with its devices, Pods and cost so far."""

    required_scope = Scope.REQUESTS

    @extend_schema(tags=["requests"], responses={200: RequestDetailOut, 404: ProblemOut})
    def get(self, _request: ApiRequest, key: uuid.UUID) -> Response:
        found = get_request_or_404(self.person, key)
        return Response(_detail(story(request=found, now=timezone.now())))


class _ActionView(ApiView):
    """A POST that changes a request; its answer is the request as it is then."""

    required_scope = Scope.REQUESTS

    def act(
        self, request: ApiRequest, key: uuid.UUID, change: Callable[..., None], *, to_end: bool = False
    ) -> Response:
        found = get_request_or_404(self.person, key, for_write=not to_end, to_end=to_end)
        try:
            change(request=found, user=self.person, now=timezone.now(), source_ip=source_ip(request))
        except UnableToChange as error:
            raise Problem(error.message, code="not_now", status_code=status.HTTP_409_CONFLICT) from error
        found.refresh_from_db()
        return Response(RequestOut(found).data)


_ANSWERS = {200: RequestOut, 403: ProblemOut, 404: ProblemOut, 409: ProblemOut}


class RequestHoldView(_ActionView):
    @extend_schema(tags=["requests"], request=None, responses=_ANSWERS)
    def post(self, request: ApiRequest, key: uuid.UUID) -> Response:
        """Let the desk keep the device by a Pod of its own until release. Harmless when repeated."""
        return self.act(request, key, requests.hold)


class RequestReleaseView(_ActionView):
    @extend_schema(tags=["requests"], request=None, responses=_ANSWERS)
    def post(self, request: ApiRequest, key: uuid.UUID) -> Response:
        """Give the devices back. Pods of people stay: while some use it, it is `ending` and costs."""
        return self.act(request, key, requests.release, to_end=True)


class RequestCancelView(_ActionView):
    @extend_schema(tags=["requests"], request=None, responses=_ANSWERS)
    def post(self, request: ApiRequest, key: uuid.UUID) -> Response:
        """Give up a request that got nothing yet."""
        return self.act(request, key, requests.cancel, to_end=True)


class RequestRetryView(_ActionView):
    @extend_schema(tags=["requests"], request=None, responses=_ANSWERS)
    def post(self, request: ApiRequest, key: uuid.UUID) -> Response:
        """Start a failed request again under the same name."""
        return self.act(request, key, requests.retry)


def _given(values: Mapping[str, object], user: User) -> Mapping[str, str]:
    """What a request or a saved one that is named gives where nothing is said."""
    sources: Mapping[str, Callable[[uuid.UUID], Mapping[str, str]]] = {
        "like": lambda key: values_of(get_request_or_404(user, key)),
        "saved": lambda key: get_saved_or_404(user, key).values,
    }
    given: dict[str, str] = {}
    for name, read in sources.items():
        if (typed := values.get(name)) in (None, ""):
            continue
        try:
            given |= read(uuid.UUID(str(typed)))
        except ValueError:
            raise exceptions.ValidationError({name: [_("The key must be a UUID.")]}) from None
        except (Http404, PermissionDenied):
            raise exceptions.ValidationError({name: [_("There is none of this key for you.")]}) from None
    return given


def _created(made: Request) -> Response:
    return Response(RequestOut(made).data, status=status.HTTP_201_CREATED)


def _detail(told: Story) -> dict[str, Any]:
    return {
        **RequestOut(told.request).data,
        "words": told.words,
        "in_step": told.coverage.in_step,
        "claims_allocated": told.allocated,
        "claims_total": told.claims,
        "devices": DeviceHeldOut(told.devices, many=True).data,
        "pods": PodOut(told.pods, many=True).data,
        "cost": totals_of(told.cost),
        "pod_snippet": told.snippet,
        "job": told.job,
        "manifest": told.manifest,
    }
