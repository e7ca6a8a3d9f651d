"""REST of the manifests of a request: ready for ``kubectl apply -f -``."""

import uuid
from typing import Any

from django.http import Http404, HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims.requests.browse import get_request_or_404
from claims.requests.bundle import file_of, ways_of
from claims.rest.answers import ProblemOut
from portal.accounts.models import ApiToken
from portal.api import ApiView

Scope = ApiToken.Scope


class FileOut(serializers.Serializer[Any]):
    slug = serializers.CharField(help_text="Of its address under `files/`.")
    title = serializers.CharField()
    filename = serializers.CharField()
    backend = serializers.CharField(help_text="`dra` or `device-plugin`.")
    used = serializers.BooleanField(help_text="Whether the request is served that way.")
    kubectl = serializers.BooleanField(help_text="Whether kubectl can apply it as it is.")
    text = serializers.CharField(help_text="YAML.")


class RequestFilesView(ApiView):
    required_scope = Scope.REQUESTS

    @extend_schema(tags=["requests"], responses={200: FileOut(many=True), 404: ProblemOut})
    def get(self, _request: ApiRequest, key: uuid.UUID) -> Response:
        """What is sent to the cluster and what to copy (Pod, Job, Kueue, JupyterHub), by the way that is
        used and by the other where the flavor has both."""
        found = get_request_or_404(self.person, key)
        files = [
            {
                "slug": file.slug if way.used else f"other-{file.slug}",
                "title": file.title,
                "filename": file.filename,
                "backend": way.backend,
                "used": way.used,
                "kubectl": file.kubectl,
                "text": file.text,
            }
            for way in ways_of(found)
            for file in way.files
        ]
        return Response(FileOut(files, many=True).data)


class RequestFileView(ApiView):
    required_scope = Scope.REQUESTS

    @extend_schema(
        tags=["requests"], responses={(200, "application/yaml"): OpenApiTypes.ANY, 404: ProblemOut}
    )
    def get(self, _request: ApiRequest, key: uuid.UUID, slug: str) -> HttpResponse:
        """One of the files as YAML."""
        file = file_of(get_request_or_404(self.person, key), slug)
        if file is None:
            raise Http404
        return HttpResponse(file.text, content_type="application/yaml; charset=utf-8")
