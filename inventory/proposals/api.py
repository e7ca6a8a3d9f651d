"""REST over proposals to change classes. Scope `administration`; administrators decide, auditors read.

A decision names the `revision` that was looked at: one about a drawing that is no longer there is refused.
"""

from collections.abc import Callable
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from inventory.api_clusters import Administered
from inventory.filters import clean_text
from inventory.models import ClassProposal, ClassVersion, Cluster, ProposalEntry, ProposalTarget
from inventory.proposals import deciding, drawing, reading, roll_out, rules
from portal.access import may_read_everything
from portal.accounts import audit
from portal.accounts.models import ApiToken
from portal.api import ApiListView, ApiView, Problem

# --- what is answered ---------------------------------------------------------------------------------


class ClassProposalRowOut(serializers.ModelSerializer[ClassProposal]):
    author = serializers.CharField(source="author.username")
    drawn_by = serializers.CharField(source="drawn_by.username", help_text="Who drew it last.")
    approved_by = serializers.CharField(source="approved_by.username", allow_null=True, default=None)
    clusters = serializers.SerializerMethodField(help_text="In the order of the roll-out.")

    class Meta:
        model = ClassProposal
        fields = (
            *("id", "kind", "name", "state", "reason", "author", "drawn_by", "approved_by", "revision"),
            *("direct", "take_over", "undoes", "clusters", "created_at", "changed_at", "given_up_at"),
        )
        read_only_fields = fields

    def get_clusters(self, proposal: ClassProposal) -> list[str]:
        return [target.cluster.name for target in proposal.targets.all()]


class DroppedFieldOut(serializers.Serializer[Any]):
    field = serializers.CharField()
    gate = serializers.CharField(help_text="The feature gate that is off there; empty where not known.")


class ProposalTargetOut(serializers.ModelSerializer[ProposalTarget]):
    cluster = serializers.CharField(source="cluster.name")
    base = serializers.JSONField(
        allow_null=True, help_text="The spec that it was drawn from; null: there was no class."
    )
    wanted = serializers.JSONField(allow_null=True, help_text="Null: the class is deleted.")
    wanted_labels = serializers.JSONField(allow_null=True, help_text="Null: they stay as they are.")
    wanted_annotations = serializers.JSONField(allow_null=True, help_text="Null: they stay as they are.")
    effect = serializers.JSONField(allow_null=True, help_text="As of the drawing; null: it was not kept.")
    answer = serializers.JSONField(allow_null=True, help_text="What the rehearsal answered.")
    users = serializers.ListField(child=serializers.CharField(), help_text="Of a deletion: who uses it.")
    dropped = DroppedFieldOut(many=True)
    managers = serializers.ListField(
        child=serializers.CharField(), help_text="Field managers that own what would change."
    )

    class Meta:
        model = ProposalTarget
        fields = (
            *("cluster", "position", "state", "outcome", "message", "base", "wanted", "wanted_labels"),
            "wanted_annotations",
            *("effect", "users", "answer", "dropped", "managers", "rehearsed_at", "done_at"),
        )
        read_only_fields = fields


class ProposalEntryOut(serializers.ModelSerializer[ProposalEntry]):
    person = serializers.CharField(
        source="person.username", allow_null=True, default=None, help_text="Null: the desk itself."
    )

    class Meta:
        model = ProposalEntry
        fields = ("kind", "person", "text", "revision", "at")
        read_only_fields = fields


class ClassProposalOut(ClassProposalRowOut):
    targets = ProposalTargetOut(many=True, read_only=True)
    entries = ProposalEntryOut(many=True, read_only=True)
    moved = serializers.SerializerMethodField(
        help_text="Clusters whose class is no longer what this was drawn from."
    )

    class Meta:
        model = ClassProposal
        fields = (*ClassProposalRowOut.Meta.fields, "targets", "entries", "moved")
        read_only_fields = fields

    def get_moved(self, proposal: ClassProposal) -> list[str]:
        waits = proposal.state in (ClassProposal.State.OPEN, ClassProposal.State.OUTDATED)
        if not waits and not roll_out.is_stopped(proposal):
            return []
        return [target.cluster.name for target in drawing.moved(proposal, list(proposal.targets.all()))]


# --- what is asked ------------------------------------------------------------------------------------


class ClassProposalIn(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=253)
    clusters = serializers.ListField(
        child=serializers.CharField(max_length=63),
        min_length=1,
        max_length=drawing.MAX_TARGETS,
        help_text="In the order of the roll-out.",
    )
    spec = serializers.JSONField(
        required=False, allow_null=True, help_text="As in resource.k8s.io/v1; null deletes the class."
    )
    version = serializers.IntegerField(
        required=False, min_value=1, max_value=2**63 - 1, help_text="Instead of a spec: back to this version."
    )
    labels = serializers.JSONField(
        required=False, allow_null=True, default=None, help_text="Null: they stay as they are."
    )
    annotations = serializers.JSONField(
        required=False, allow_null=True, default=None, help_text="Null: they stay as they are."
    )
    reason = serializers.CharField(max_length=drawing.MAX_REASON)
    take_over = serializers.BooleanField(
        default=False, help_text="Take over fields that another field manager owns."
    )
    confirmed = serializers.CharField(
        max_length=253, required=False, default="", allow_blank=True,
        help_text="The name again, to delete a class that is used.",
    )  # fmt: skip


class ProposalRevisionIn(serializers.Serializer[Any]):
    revision = serializers.IntegerField(
        min_value=1, max_value=2**31 - 1, help_text="Of the drawing that was looked at."
    )


class ProposalCommentIn(serializers.Serializer[Any]):
    comment = serializers.CharField(max_length=deciding.MAX_COMMENT)


class ProposalRemarkIn(serializers.Serializer[Any]):
    comment = serializers.CharField(
        max_length=deciding.MAX_COMMENT, required=False, default="", allow_blank=True
    )


class ProposalApproveIn(ProposalRevisionIn, ProposalRemarkIn):
    confirmed = serializers.CharField(
        max_length=253, required=False, default="", allow_blank=True,
        help_text="The name of the class, to approve the deletion of one that is used.",
    )  # fmt: skip


class ProposalRejectIn(ProposalRevisionIn, ProposalCommentIn):
    pass


class ProposalRedrawIn(ProposalRevisionIn):
    take_over = serializers.BooleanField(required=False, allow_null=True, default=None)


# --- views --------------------------------------------------------------------------------------------


def _related() -> QuerySet[ClassProposal]:
    rows = ClassProposal.objects.select_related("author", "drawn_by", "approved_by")
    return rows.prefetch_related("targets__cluster")


def _told(pk: int) -> dict[str, Any]:
    rows = _related().prefetch_related("entries__person")
    return dict(ClassProposalOut(get_object_or_404(rows, pk=pk)).data)


class ReadByReviewers(ApiView):
    """Administrators and auditors read."""

    required_scope = ApiToken.Scope.ADMINISTRATION

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if not may_read_everything(self.person):
            raise PermissionDenied(_("Only administrators and auditors may see this."))


@extend_schema_view(
    get=extend_schema(
        parameters=[
            OpenApiParameter("state", str, enum=ClassProposal.State.values),
            OpenApiParameter("name", str, description="Of the class."),
        ],
        tags=["inventory"],
    )
)
class ProposalListView(ReadByReviewers, ApiListView):
    """Proposals, the newest first; those that were made at once, without a review, are among them."""

    serializer_class = ClassProposalRowOut
    ordering = "-id"

    def get_queryset(self) -> QuerySet[ClassProposal]:
        rows = _related()
        for parameter in ("state", "name"):
            if text := clean_text(self.request.GET.get(parameter, "")):
                rows = rows.filter(**{parameter: text})
        return rows

    @extend_schema(
        request=ClassProposalIn,
        responses={201: ClassProposalOut},
        tags=["inventory"],
        examples=[
            OpenApiExample(
                "change",
                value={
                    "name": "a100-80g",
                    "clusters": ["berlin", "paris"],
                    "spec": {
                        "selectors": [{"cel": {"expression": 'device.driver == "gpu.nvidia.com"'}}],
                        "extendedResourceName": "example.com/gpu",
                    },
                    "reason": "The new cards count too",
                },
                request_only=True,
            ),
            OpenApiExample(
                "roll back",
                value={"name": "a100-80g", "clusters": ["berlin"], "version": 12, "reason": "Too wide"},
                request_only=True,
            ),
        ],
    )
    def post(self, request: Request) -> Response:
        """Propose a change; nothing is changed before it is approved."""
        self.administrator()
        serializer = ClassProposalIn(data=request.data)
        serializer.is_valid(raise_exception=True)
        asked = serializer.validated_data
        try:
            spec, kind = _asked_spec(asked)
            labels, annotations = reading.read_marks(asked["labels"], asked["annotations"])
            proposal = drawing.propose(
                name=asked["name"],
                drafts=[
                    drawing.Draft(cluster, spec, labels, annotations)
                    for cluster in _clusters(asked["clusters"])
                ],
                author=self.person,
                now=timezone.now(),
                reason=asked["reason"],
                kind=kind,
                confirmed=asked["confirmed"],
                take_over=asked["take_over"],
                source_ip=audit.source_ip(request),
            )
        except drawing.UnableToPropose as refused:
            raise Problem(refused.message, code="not_proposed", field=refused.field) from refused
        return Response(_told(proposal.pk), status=201)


def _asked_spec(asked: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """What the class shall be, and the kind of change where it is a particular one."""
    if "version" in asked:
        if "spec" in asked:
            raise drawing.UnableToPropose("version", _("Give a spec or a version, not both."))
        version = ClassVersion.objects.filter(pk=asked["version"], name=asked["name"]).first()
        if version is None:
            raise drawing.UnableToPropose("version", _("The class has no such version."))
        return dict(version.spec), ClassProposal.Kind.ROLL_BACK
    if "spec" not in asked:
        raise drawing.UnableToPropose("spec", _("Give a spec or a version."))
    if asked["spec"] is None:
        return None, ""
    return reading.read_spec(asked["name"], asked["spec"]), ""


def _clusters(names: list[str]) -> list[Cluster]:
    found = {cluster.name: cluster for cluster in Cluster.objects.filter(name__in=names)}
    for name in names:
        if name not in found:
            raise drawing.UnableToPropose(
                "clusters", _("There is no cluster “%(name)s”.") % {"name": name[:63]}
            )
    return [found[name] for name in names]


class ProposalDetailView(ReadByReviewers):
    @extend_schema(responses=ClassProposalOut, tags=["inventory"])
    def get(self, _request: Request, pk: int) -> Response:
        """One proposal with its effect, its results per cluster and its discussion."""
        return Response(_told(pk))


class Decision(Administered):
    """What administrators do about a proposal; answered with what it is then."""

    # An outdated proposal is kept as such though the approval is refused.
    post_talks_to_cluster = True
    serializer_class: type[serializers.Serializer[Any]] | None = None

    def decide(self, request: Request, pk: int, act: Callable[..., Any]) -> Response:
        """Call `act` with the proposal, who decides and what was sent."""
        serializer_class = self.serializer_class or serializers.Serializer
        serializer = serializer_class(data=request.data)
        serializer.is_valid(raise_exception=True)
        proposal = get_object_or_404(ClassProposal, pk=pk)
        try:
            made = act(
                proposal=proposal,
                user=self.person,
                now=timezone.now(),
                source_ip=audit.source_ip(request),
                **serializer.validated_data,
            )
        except deciding.UnableToDecide as refused:
            status = 422 if refused.field else 409
            raise Problem(
                refused.message, code=refused.code, field=refused.field, status_code=status
            ) from refused
        except drawing.UnableToPropose as refused:
            raise Problem(refused.message, code="not_possible", status_code=409) from refused
        return Response(_told(made.pk if isinstance(made, ClassProposal) else pk))


class ProposalApproveView(Decision):
    serializer_class = ProposalApproveIn

    @extend_schema(request=ProposalApproveIn, responses=ClassProposalOut, tags=["inventory"])
    def post(self, request: Request, pk: int) -> Response:
        """Approve it: it is rehearsed on every cluster, then applied one after the other. Conflict
        `outdated`: a class is no longer what it was drawn from."""

        def approve(**arguments: Any) -> None:
            deciding.approve(**arguments, rule=rules.in_force())

        return self.decide(request, pk, approve)


class ProposalRejectView(Decision):
    serializer_class = ProposalRejectIn

    @extend_schema(request=ProposalRejectIn, responses=ClassProposalOut, tags=["inventory"])
    def post(self, request: Request, pk: int) -> Response:
        """Turn it down, and say why."""
        return self.decide(request, pk, deciding.reject)


class ProposalWithdrawView(Decision):
    serializer_class = ProposalRemarkIn

    @extend_schema(request=ProposalRemarkIn, responses=ClassProposalOut, tags=["inventory"])
    def post(self, request: Request, pk: int) -> Response:
        """Take one's own proposal back."""
        return self.decide(request, pk, deciding.withdraw)


class ProposalCommentView(Decision):
    serializer_class = ProposalCommentIn

    @extend_schema(request=ProposalCommentIn, responses=ClassProposalOut, tags=["inventory"])
    def post(self, request: Request, pk: int) -> Response:
        """Write something about it."""

        def write(*, comment: str, **arguments: Any) -> None:
            deciding.comment(**arguments, text=comment)

        return self.decide(request, pk, write)


class ProposalRedrawView(Decision):
    serializer_class = ProposalRedrawIn

    @extend_schema(request=ProposalRedrawIn, responses=ClassProposalOut, tags=["inventory"])
    def post(self, request: Request, pk: int) -> Response:
        """Draw it anew over what classes are now; it has to be approved again."""
        return self.decide(request, pk, drawing.redraw)


class ProposalResumeView(Decision):
    @extend_schema(request=None, responses=ClassProposalOut, tags=["inventory"])
    def post(self, request: Request, pk: int) -> Response:
        """Go on where the roll-out stopped; what is done is not done again."""
        return self.decide(request, pk, roll_out.resume)


class ProposalGiveUpView(Decision):
    @extend_schema(request=None, responses=ClassProposalOut, tags=["inventory"])
    def post(self, request: Request, pk: int) -> Response:
        """Leave it as it is: what is done stays, the rest is never done."""
        return self.decide(request, pk, roll_out.give_up)


class ProposalRollBackView(Decision):
    serializer_class = ProposalRemarkIn

    @extend_schema(request=ProposalRemarkIn, responses=ClassProposalOut, tags=["inventory"])
    def post(self, request: Request, pk: int) -> Response:
        """Propose to take back what is done of it; answered with that proposal."""

        def roll_back(*, comment: str, **arguments: Any) -> ClassProposal:
            return roll_out.roll_back(**arguments, reason=comment)

        return self.decide(request, pk, roll_back)
