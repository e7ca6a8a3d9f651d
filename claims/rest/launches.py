"""REST of launches under /api/v1/: templates, starting one on a request, how it is, stopping it."""

import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiExample, extend_schema, inline_serializer
from rest_framework import exceptions, serializers, status
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims.asks.reading import WHOLE
from claims.launches import launching as launches
from claims.launches import templates as launch_templates
from claims.launches.launching import UnableToLaunch
from claims.launches.templates import terms_of
from claims.launches.terms import UnableToChangeLaunch, read_launch_terms
from claims.launches.told import Told, offered_to, told_of
from claims.models import Launch, LaunchTemplate
from claims.requests.browse import get_request_or_404
from claims.rest.answers import ProblemOut
from portal import access
from portal.accounts.audit import source_ip
from portal.accounts.models import ApiToken
from portal.api import ApiView, Problem

Scope = ApiToken.Scope
T = TypeVar("T")


class VolumeIn(serializers.Serializer[Any]):
    path = serializers.CharField()
    claim = serializers.CharField(required=False, help_text="A PersistentVolumeClaim of the namespace.")
    size = serializers.CharField(required=False, help_text="Of an empty volume, instead of a claim.")


# A function, because `label` and `required` are names of attributes of fields.
ParameterIn = inline_serializer(
    "Parameter",
    {
        "name": serializers.CharField(help_text="Of the environment variable that it becomes."),
        "label": serializers.CharField(required=False),
        "default": serializers.CharField(required=False),
        "pattern": serializers.CharField(required=False, help_text="RE2, of the whole value."),
        "choices": serializers.ListField(child=serializers.CharField(), required=False),
        "required": serializers.BooleanField(required=False),
    },
)


class LaunchTemplateIn(serializers.Serializer[Any]):
    slug = serializers.CharField(max_length=40)
    name = serializers.CharField(max_length=80)
    description = serializers.CharField(required=False)
    kind = serializers.ChoiceField(choices=LaunchTemplate.Kind.choices)
    image = serializers.CharField(max_length=400)
    command = serializers.ListField(child=serializers.CharField(), required=False)
    args = serializers.ListField(child=serializers.CharField(), required=False)
    env = serializers.DictField(child=serializers.CharField(), required=False)
    cpu = serializers.CharField(help_text="A Kubernetes quantity; request and limit.")
    memory = serializers.CharField(help_text="The same.")
    volumes = serializers.ListField(child=VolumeIn(), required=False)
    port = serializers.IntegerField(required=False, allow_null=True, help_text="Of a notebook.")
    user_id = serializers.IntegerField(required=False, help_text="Never 0; 1000 by default.")
    parameters = serializers.ListField(child=ParameterIn, required=False)
    flavors = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="Only for these; empty: for any."
    )
    projects = serializers.ListField(child=serializers.CharField(), required=False, help_text="The same.")


class LaunchTemplateChangeIn(LaunchTemplateIn):
    version = serializers.IntegerField(help_text="The version that the change was made from.")


class LaunchTemplateOut(LaunchTemplateIn):
    version = serializers.IntegerField()
    archived = serializers.BooleanField()


class LaunchIn(serializers.Serializer[Any]):
    template = serializers.CharField(help_text="Its slug.")
    parameters = serializers.DictField(child=serializers.CharField(), required=False)
    key = serializers.UUIDField(
        required=False, help_text="Chosen by the client: sent again with it, it is the same launch."
    )


class LaunchOut(serializers.Serializer[Any]):
    key = serializers.UUIDField(source="launch.key")
    template = serializers.CharField(source="launch.template.slug")
    kind = serializers.CharField(source="launch.manifest.kind", help_text="Job or Pod.")
    name = serializers.CharField(source="launch.object_name", help_text="Of the object on the cluster.")
    person = serializers.CharField(source="launch.person.username")
    parameters = serializers.DictField(source="launch.parameters", child=serializers.CharField())
    state = serializers.ChoiceField(source="launch.state", choices=Launch.State.choices)
    message = serializers.CharField(source="launch.message", help_text="In the cluster's words.")
    words = serializers.CharField(help_text="How it is, in a sentence.")
    pods = serializers.SerializerMethodField()
    logs = serializers.CharField(help_text="A line for a terminal; may be empty.")
    forward = serializers.CharField(help_text="How to reach its port; may be empty.")
    created_at = serializers.DateTimeField(source="launch.created_at")

    def get_pods(self, told: Told) -> list[dict[str, str]]:
        return [{"name": pod.name, "phase": pod.phase, "node": pod.node_name} for pod in told.pods]


LAUNCH_EXAMPLE = OpenApiExample(
    "A training run of 20 epochs",
    value={"template": "train", "parameters": {"EPOCHS": "20", "SET": "march"}},
    request_only=True,
)
_REFUSED = {400: ProblemOut, 403: ProblemOut, 404: ProblemOut, 409: ProblemOut}


# --- templates --------------------------------------------------------------------------------------


class _Templates(ApiView):
    required_scope = Scope.INVENTORY

    def template(self, slug: str) -> LaunchTemplate:
        rows = LaunchTemplate.objects.all()
        if access.may_read_everything(self.person):
            return get_object_or_404(rows, slug=slug)
        found = next((row for row in offered_to(self.person) if row.slug == slug), None)
        if found is None:
            raise Http404
        return found


class LaunchTemplateListView(_Templates):
    @extend_schema(tags=["launches"], responses={200: LaunchTemplateOut(many=True)})
    def get(self, _request: ApiRequest) -> Response:
        """What the desk can start for the caller, by name; to administrators and auditors everything."""
        return Response([_template(row) for row in offered_to(self.person)])

    @extend_schema(
        tags=["launches"], request=LaunchTemplateIn, responses={201: LaunchTemplateOut, **_REFUSED}
    )
    def post(self, request: ApiRequest) -> Response:
        """Make one; it is offered at once."""
        self.administrator()
        values = _object(request)
        made = _judged(
            lambda: launch_templates.create(
                terms=read_launch_terms(values),
                user=self.person,
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        )
        return Response(_template(made), status=status.HTTP_201_CREATED)


class LaunchTemplateDetailView(_Templates):
    @extend_schema(tags=["launches"], responses={200: LaunchTemplateOut, 404: ProblemOut})
    def get(self, _request: ApiRequest, slug: str) -> Response:
        """One launch template."""
        return Response(_template(self.template(slug)))

    @extend_schema(
        tags=["launches"], request=LaunchTemplateChangeIn, responses={200: LaunchTemplateOut, **_REFUSED}
    )
    def put(self, request: ApiRequest, slug: str) -> Response:
        """Write it anew: what is left out gets its default. What was started with it goes on."""
        self.administrator()
        template, values = self.template(slug), _object(request)
        version = values.get("version")
        if type(version) is not int:
            raise exceptions.ValidationError({"version": [_("Say which version the change was made from.")]})
        _judged(
            lambda: launch_templates.update(
                template=template,
                terms=read_launch_terms(values),
                seen_version=version,
                user=self.person,
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        )
        template.refresh_from_db()
        return Response(_template(template))

    @extend_schema(tags=["launches"], responses={204: None, **_REFUSED})
    def delete(self, request: ApiRequest, slug: str) -> Response:
        """No longer offer it. What was started with it goes on."""
        self.administrator()
        launch_templates.archive(
            template=self.template(slug),
            archived=True,
            user=self.person,
            now=timezone.now(),
            source_ip=source_ip(request),
        )
        return Response(status=status.HTTP_204_NO_CONTENT)


# --- on a request -----------------------------------------------------------------------------------


class RequestLaunchesView(ApiView):
    """What was started on a request, the latest first."""

    required_scope = Scope.REQUESTS
    post_talks_to_cluster = True

    @extend_schema(tags=["launches"], responses={200: LaunchOut(many=True), 404: ProblemOut})
    def get(self, _request: ApiRequest, key: uuid.UUID) -> Response:
        found = get_request_or_404(self.person, key)
        return Response(LaunchOut(told_of(found), many=True).data)

    @extend_schema(
        tags=["launches"],
        request=LaunchIn,
        responses={201: LaunchOut, 200: LaunchOut, **_REFUSED},
        examples=[LAUNCH_EXAMPLE],
    )
    def post(self, request: ApiRequest, key: uuid.UUID) -> Response:
        """Start a template. The cluster judges it on trial first; nothing is stored when it refuses."""
        found = get_request_or_404(self.person, key, for_write=True)
        values, now = _object(request), timezone.now()
        slug, filled = values.get("template"), values.get("parameters", {})
        # No name has a NUL, and PostgreSQL fails where one is looked for.
        slug = str(slug).replace("\0", "")[:40]
        template = LaunchTemplate.objects.for_request(found).filter(slug=slug).first()
        if template is None:
            raise exceptions.ValidationError({"template": [_("This is not offered for the request.")]})
        if not isinstance(filled, Mapping):
            raise exceptions.ValidationError({"parameters": [_("This must be an object.")]})
        made = _judged(
            lambda: launches.start(
                request=found,
                template=template,
                user=self.person,
                values=filled,
                key=values.get("key"),
                now=now,
                source_ip=source_ip(request),
                within=lambda launch: self.keep(_launch(launch, status.HTTP_201_CREATED)),
            )
        )
        return _launch(made, status.HTTP_201_CREATED if made.created_at == now else status.HTTP_200_OK)


class LaunchDetailView(ApiView):
    required_scope = Scope.REQUESTS

    @extend_schema(tags=["launches"], responses={200: LaunchOut, 404: ProblemOut})
    def get(self, _request: ApiRequest, key: uuid.UUID, launch: uuid.UUID) -> Response:
        """One launch, with the Pods that the desk sees of it."""
        found = get_request_or_404(self.person, key)
        return _launch(get_object_or_404(Launch, key=launch, request=found), status.HTTP_200_OK)


class LaunchStopView(ApiView):
    required_scope = Scope.REQUESTS

    @extend_schema(tags=["launches"], request=None, responses={200: LaunchOut, **_REFUSED})
    def post(self, request: ApiRequest, key: uuid.UUID, launch: uuid.UUID) -> Response:
        """Remove it from the cluster, with its Pods. Harmless when repeated; the request goes on."""
        found = get_request_or_404(self.person, key, for_write=True)
        row = get_object_or_404(Launch, key=launch, request=found)
        _judged(
            lambda: launches.stop(
                launch=row, user=self.person, now=timezone.now(), source_ip=source_ip(request)
            )
        )
        return _launch(row, status.HTTP_200_OK)


def _launch(launch: Launch, code: int) -> Response:
    told = next(one for one in told_of(launch.request) if one.launch.pk == launch.pk)
    return Response(LaunchOut(told).data, status=code)


def _template(template: LaunchTemplate) -> dict[str, Any]:
    return terms_of(template).as_dict() | {
        "version": template.version,
        "archived": template.archived_at is not None,
    }


def _object(request: ApiRequest) -> Mapping[str, Any]:
    if not isinstance(request.data, Mapping):
        raise exceptions.ParseError(_("The body must be a JSON object."))
    return request.data


def _judged(act: Callable[[], T]) -> T:
    """The act, or a problem that names the fields (or parameters) that it is about."""
    try:
        return act()
    except UnableToLaunch as error:
        told: dict[str, Any] = {name: said for name, said in error.errors.items() if name != WHOLE}
        raise exceptions.ValidationError(
            ({"parameters": told} if told else {}) | {"non_field_errors": error.errors.get(WHOLE, [])}
        ) from error
    except UnableToChangeLaunch as error:
        if error.conflict:
            message = " ".join(error.errors.get(WHOLE, []))
            raise Problem(message, code="conflict", status_code=status.HTTP_409_CONFLICT) from error
        raise exceptions.ValidationError(dict(error.errors)) from error
