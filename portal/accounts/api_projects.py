"""REST of projects: closing one and opening it again, for administrators. Scope `administration`."""

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal import access
from portal.accounts.audit import source_ip
from portal.accounts.projects import archive_project
from portal.api import ApiView, Scope


class ProjectStateOut(serializers.Serializer[Any]):
    slug = serializers.SlugField()
    name = serializers.CharField()
    archived_at = serializers.DateTimeField(
        allow_null=True, help_text="Since when it takes no new requests; null: it takes them."
    )


EXAMPLE = OpenApiExample(
    "An archived project",
    value={"slug": "protein-folding", "name": "Protein folding", "archived_at": "2026-12-01T08:00:00Z"},
    response_only=True,
)


class _ProjectState(ApiView):
    required_scope = Scope.ADMINISTRATION

    def change(self, request: Request, slug: str, *, archived: bool) -> Response:
        project = access.get_project_or_404(self.person, slug, for_administrator=True)
        archive_project(
            project=project, archived=archived, actor=self.person, now=timezone.now(),
            source_ip=source_ip(request),
        )  # fmt: skip
        return Response(ProjectStateOut(project).data)


class ProjectArchiveView(_ProjectState):
    @extend_schema(tags=["projects"], request=None, responses=ProjectStateOut, examples=[EXAMPLE])
    def post(self, request: Request, slug: str) -> Response:
        """Take no new requests for the project. History and cost stay, and what runs goes on. Harmless when
        repeated."""
        return self.change(request, slug, archived=True)


class ProjectRestoreView(_ProjectState):
    @extend_schema(tags=["projects"], request=None, responses=ProjectStateOut, examples=[EXAMPLE])
    def post(self, request: Request, slug: str) -> Response:
        """Take requests for the project again."""
        return self.change(request, slug, archived=False)
