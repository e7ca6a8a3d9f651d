"""The import over REST: the same tables, the same faults."""

from typing import Any

from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal import access
from portal.accounts.audit import source_ip
from portal.api import ApiView, Problem, Scope
from portal.pages.importing.doing import Outcome, run
from portal.pages.importing.reading import MAX_BYTES

_TABLES = {
    name: serializers.CharField(
        required=False, allow_blank=True, trim_whitespace=False, max_length=MAX_BYTES, default=""
    )
    for name in ("projects", "members", "namespaces")
}
ImportBody = inline_serializer(
    "Import",
    {
        **_TABLES,
        "apply": serializers.BooleanField(default=False, help_text="Without it nothing is changed."),
        "plan": serializers.CharField(
            required=False,
            max_length=64,
            help_text="The plan of a dry run: another one is then not done (409).",
        ),
    },
)
_CHANGE = inline_serializer(
    "ImportChange",
    {
        "table": serializers.CharField(),
        "line": serializers.IntegerField(),
        "kind": serializers.ChoiceField(choices=["new", "changed", "same"]),
        "text": serializers.CharField(),
    },
    many=True,
)
_INVITED = inline_serializer(
    "ImportInvitation",
    {"email": serializers.CharField(), "project": serializers.CharField(), "link": serializers.CharField()},
    many=True,
)
ImportAnswer = inline_serializer(
    "ImportOutcome",
    {
        "applied": serializers.BooleanField(),
        "plan": serializers.CharField(),
        "changes": _CHANGE,
        "invitations": _INVITED,
    },
)


class ImportView(ApiView):
    """Projects, members and namespaces as CSV. All of it is done or nothing."""

    required_scope = Scope.ADMINISTRATION

    @extend_schema(request=ImportBody, responses=ImportAnswer)
    def post(self, request: Request) -> Response:
        """Without `apply` a dry run, which tells what would be done. Administrators only."""
        access.demand_administrator(self.person)
        body = type(ImportBody)(data=request.data)
        body.is_valid(raise_exception=True)
        wanted: dict[str, Any] = body.validated_data
        outcome = run(
            tables={name: wanted[name] for name in _TABLES},
            actor=self.person,
            now=timezone.now(),
            apply=wanted["apply"],
            seen=wanted.get("plan"),
            source_ip=source_ip(request._request),
        )
        if outcome.faults:
            raise _faulty(outcome)
        if outcome.differs:
            raise Problem(
                _("The plan is another one by now. Nothing was changed."),
                code="plan_differs",
                status_code=409,
                plan=outcome.plan,
            )
        invitations = [
            {
                "email": one.email,
                "project": one.project,
                "link": request.build_absolute_uri(reverse("invitation-open", args=[one.secret])),
            }
            for one in outcome.invited
        ]
        return Response(
            {
                "applied": outcome.applied,
                "plan": outcome.plan,
                "changes": [
                    {"table": one.table, "line": one.line, "kind": one.kind, "text": one.text}
                    for one in outcome.changes
                ],
                "invitations": invitations,
            },
            # Whoever knows a link can use it: it is told once and kept nowhere.
            headers={"Cache-Control": "no-store"},
        )


def _faulty(outcome: Outcome) -> Problem:
    return Problem(
        _("Some lines cannot be imported. Nothing was changed."),
        code="faulty_lines",
        errors=[
            {
                "field": f"{fault.table}.{fault.line}.{fault.column}".rstrip("."),
                "message": fault.message,
                "code": "invalid",
            }
            for fault in outcome.faults
        ],
    )
