"""REST over taints and the rules that the desk writes.

Everybody reads taints (scope `inventory`); what a rule would do is for administrators and auditors, rules are
written by administrators (scope `administration`).
"""

from typing import Any

from django.core.exceptions import PermissionDenied
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from inventory.api_clusters import Administered
from inventory.coverage import coverage_of, coverage_of_all
from inventory.filters import clean_text
from inventory.models import Cluster, DeviceTaintRule, Effect
from inventory.taints import rules
from inventory.taints.api_answers import BlastOut, RuleOut, TaintOut, blast_answer, taint_answer
from inventory.taints.blast import Blast, blast_of
from inventory.taints.listing import KINDS, TaintFilter, add_places, taint_rows
from inventory.taints.rules import Deed, GoneElsewhere, UnableToTaint, WantedRule
from inventory.taints.selecting import Selector, Taint
from portal.access import may_read_everything
from portal.accounts import audit
from portal.accounts.models import ApiToken
from portal.api import ApiView, Problem

PAGE_SIZE = 100


class TaintIn(serializers.Serializer[Any]):
    driver = serializers.CharField(max_length=63, required=False, default="", allow_blank=True)
    pool = serializers.CharField(max_length=253, required=False, default="", allow_blank=True)
    device = serializers.CharField(max_length=63, required=False, default="", allow_blank=True)
    key = serializers.CharField(max_length=317)
    value = serializers.CharField(max_length=63, required=False, default="", allow_blank=True)
    effect = serializers.ChoiceField(choices=Effect.choices)


class TaintEffectIn(TaintIn):
    name = serializers.CharField(
        max_length=253,
        required=False,
        default="",
        allow_blank=True,
        help_text="Of the rule that it replaces.",
    )


class ChangeIn(TaintIn):
    reason = serializers.CharField(max_length=rules.MAX_REASON, required=False, default="", allow_blank=True)
    confirm = serializers.CharField(
        max_length=63, required=False, default="", allow_blank=True,
        help_text="The cluster's name, where the rule has no condition: it taints every device.",
    )  # fmt: skip
    looked = serializers.CharField(
        max_length=63, required=False, default="", allow_blank=True,
        help_text="The digest of the effect that was looked at: another by now is a conflict.",
    )  # fmt: skip
    dry_run = serializers.BooleanField(default=False, help_text="Only rehearse it on the cluster.")


class RuleIn(ChangeIn):
    name = serializers.CharField(max_length=253)


class RuleChangeIn(ChangeIn):
    resource_version = serializers.CharField(
        max_length=63, help_text="Of the rule that was looked at; another by now is a conflict."
    )


class TaintPageOut(serializers.Serializer[Any]):
    count = serializers.IntegerField()
    page = serializers.IntegerField()
    pages = serializers.IntegerField()
    results = TaintOut(many=True)


class DeletedOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    name = serializers.CharField()


EXAMPLE = {
    "name": "fans-of-gpu-01", "driver": "gpu.nvidia.com", "pool": "gpu-01", "key": "example.org/repair",
    "effect": "None", "reason": "new fans", "dry_run": True,
}  # fmt: skip


class TaintListView(ApiView):
    required_scope = ApiToken.Scope.INVENTORY

    @extend_schema(
        parameters=[
            OpenApiParameter("cluster", str),
            OpenApiParameter("kind", str, enum=list(KINDS)),
            OpenApiParameter("effect", str, enum=list(Effect.values)),
            OpenApiParameter("q", str, description="Part of key, value, rule, owner or node."),
            OpenApiParameter("page", int),
        ],
        responses=TaintPageOut,
        tags=["taints"],
    )
    def get(self, request: Request) -> Response:
        """Every taint, of drivers, rules and nodes, with owner, age and whose work is there."""
        params, now = request.query_params, timezone.now()
        asked_for = {name: clean_text(params.get(name, "")) for name in ("cluster", "kind", "effect", "q")}
        wanted = TaintFilter(
            cluster=asked_for["cluster"],
            kind=asked_for["kind"],
            effect=asked_for["effect"],
            q=asked_for["q"],
        )
        rows = taint_rows(wanted, coverage=coverage_of_all(now=now))
        asked = params.get("page", "1")
        pages = max(-(-len(rows) // PAGE_SIZE), 1)
        page = min(max(int(asked), 1), pages) if asked.isascii() and asked.isdigit() and len(asked) < 9 else 1
        shown = rows[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
        add_places(shown, now=now)
        told = {"count": len(rows), "page": page, "pages": pages}
        return Response(TaintPageOut(told | {"results": [taint_answer(row) for row in shown]}).data)


class TaintEffectView(ApiView):
    required_scope = ApiToken.Scope.ADMINISTRATION

    @extend_schema(
        request=TaintEffectIn,
        responses=BlastOut,
        tags=["taints"],
        examples=[
            OpenApiExample(
                "a node's pool",
                value={"pool": "gpu-01", "key": "example.org/repair", "effect": "NoExecute"},
                request_only=True,
            )
        ],
    )
    def post(self, request: Request, cluster: str) -> Response:
        """What a taint would do: devices, Pods that leave and when, claims that wait, whose work it is."""
        if not may_read_everything(self.person):
            raise PermissionDenied(_("Only administrators and auditors may see this."))
        values = _valid(TaintEffectIn, request)
        found = get_object_or_404(Cluster, name=cluster)
        blast = _blast(found, _wanted(values, values["name"]), instead_of=values["name"])
        return Response(BlastOut(blast_answer(blast)).data)


class TaintRuleCreateView(Administered):
    post_talks_to_cluster = True

    @extend_schema(
        request=RuleIn,
        responses={200: RuleOut, 201: RuleOut},
        tags=["taints"],
        examples=[OpenApiExample("only looked at", value=EXAMPLE, request_only=True)],
    )
    def post(self, request: Request, cluster: str) -> Response:
        """Make a rule after its rehearsal, and tell what it does. 200 after a rehearsal alone."""
        values = _valid(RuleIn, request)
        found = get_object_or_404(Cluster, name=cluster)
        wanted = _wanted(values, values["name"])
        blast = _looked(found, wanted, values["looked"])
        try:
            rules.create_rule(
                cluster=found, wanted=wanted, deed=_deed(self, request), confirmed=values["confirm"],
                rehearse_only=values["dry_run"],
            )  # fmt: skip
        except UnableToTaint as refused:
            raise _problem(refused) from refused
        return _told(found, wanted, blast, done=not values["dry_run"], status=201)


class TaintRuleView(Administered):
    @extend_schema(request=RuleChangeIn, responses=RuleOut, tags=["taints"])
    def put(self, request: Request, cluster: str, name: str) -> Response:
        """Change a rule after its rehearsal, if it is still the one that was looked at."""
        values = _valid(RuleChangeIn, request)
        found = get_object_or_404(Cluster, name=cluster)
        wanted = _wanted(values, name)
        blast = _looked(found, wanted, values["looked"], instead_of=name)
        try:
            rules.update_rule(
                cluster=found, wanted=wanted, seen_version=values["resource_version"],
                deed=_deed(self, request), confirmed=values["confirm"], rehearse_only=values["dry_run"],
            )  # fmt: skip
        except UnableToTaint as refused:
            raise _problem(refused) from refused
        return _told(found, wanted, blast, done=not values["dry_run"], status=200)

    @extend_schema(responses={200: DeletedOut}, tags=["taints"])
    def delete(self, request: Request, cluster: str, name: str) -> Response:
        """Take a rule away."""
        rule = get_object_or_404(
            DeviceTaintRule.objects.select_related("cluster"), cluster__name=cluster, name=name
        )
        try:
            rules.delete_rule(cluster=rule.cluster, name=name, deed=_deed(self, request), uid=rule.uid)
        except UnableToTaint as refused:
            raise _problem(refused) from refused
        return Response(DeletedOut({"cluster": cluster, "name": name}).data)


# --- inside -------------------------------------------------------------------------------------------


def _valid(kind: type[serializers.Serializer[Any]], request: Request) -> dict[str, Any]:
    serializer = kind(data=request.data)
    serializer.is_valid(raise_exception=True)
    values: dict[str, Any] = serializer.validated_data
    return values


def _wanted(values: dict[str, Any], name: str) -> WantedRule:
    return WantedRule(
        name=name,
        selector=Selector(values["driver"], values["pool"], values["device"]),
        taint=Taint(values["key"], values["value"], values["effect"]),
        reason=values.get("reason", ""),
    )


def _blast(cluster: Cluster, wanted: WantedRule, *, instead_of: str = "") -> Blast:
    now = timezone.now()
    return blast_of(
        cluster=cluster, selectors=[wanted.selector], taint=wanted.taint, now=now, instead_of=instead_of,
        coverage=coverage_of(cluster, cluster.streams.all(), now=now),
    )  # fmt: skip


def _looked(cluster: Cluster, wanted: WantedRule, looked: str, *, instead_of: str = "") -> Blast:
    blast = _blast(cluster, wanted, instead_of=instead_of)
    if looked and looked != blast.digest:
        raise Problem(
            _("What it would do has changed since it was looked at."), code="effect_changed", field="looked",
            status_code=409,
        )  # fmt: skip
    return blast


def _deed(view: ApiView, request: Request) -> Deed:
    return Deed(actor=view.person, now=timezone.now(), source_ip=audit.source_ip(request))


def _problem(refused: UnableToTaint) -> Problem:
    status = 404 if isinstance(refused, GoneElsewhere) else 409
    return Problem(refused.message, code="rule_refused", field=refused.field, status_code=status)


def _told(cluster: Cluster, wanted: WantedRule, blast: Blast, *, done: bool, status: int) -> Response:
    told = {"cluster": cluster.name, "name": wanted.name, "done": done, "effect": blast_answer(blast)}
    return Response(RuleOut(told).data, status=status if done else 200)
