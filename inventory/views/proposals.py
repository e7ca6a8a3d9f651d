"""Proposals to change classes: the list, one of them, and what administrators decide about it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from inventory import describe
from inventory.models import ClassProposal, ProposalTarget
from inventory.proposals import deciding, drawing, roll_out, rules
from inventory.proposals.diffs import Row, diff_of
from portal import csvs, htmx, lists
from portal.access import may_administer, person, require_administrator, require_reader_of_everything
from portal.accounts import audit
from portal.accounts.models import User
from portal.lists import Choice, Column, Listing

State = ClassProposal.State
LISTING = Listing(
    "class-proposals",
    columns=(
        Column("name", gettext_lazy("Class"), order=("name", "-pk"), fixed=True),
        Column("kind", gettext_lazy("Change"), order=("kind", "-pk")),
        Column("state", gettext_lazy("State"), order=("state", "-pk")),
        Column("clusters", gettext_lazy("Clusters")),
        Column("author", gettext_lazy("Author"), order=("author__username", "-pk")),
        Column("reason", gettext_lazy("Why"), order=("reason", "-pk")),
        Column("created", gettext_lazy("Proposed"), order=("-created_at",), css="cd-nowrap"),
        Column("changed", gettext_lazy("Changed"), order=("-changed_at",), css="cd-nowrap", shown=False),
    ),
    facets=(
        Choice("state", gettext_lazy("State"), column="state", labels=dict(State.choices)),
        Choice("kind", gettext_lazy("Change"), column="kind", labels=dict(ClassProposal.Kind.choices)),
        Choice(
            "way",
            gettext_lazy("Way"),
            conditions={"reviewed": Q(direct=False), "direct": Q(direct=True)},
            labels={"reviewed": gettext_lazy("proposed"), "direct": gettext_lazy("made at once")},
        ),
    ),
    search=("name", "reason", "author__username"),
    sort="created",
)
CSV_HEADER = (
    *("id", "class", "change", "state", "clusters", "done", "author", "drawn_by", "approved_by"),
    *("reason", "direct", "created_at", "changed_at"),
)


@require_safe
@require_reader_of_everything
def proposal_list(request: HttpRequest) -> HttpResponseBase:
    """All proposals, the newest first."""
    if (back := LISTING.remembered(request)) is not None:
        return back
    state = LISTING.read(request)
    found = state.narrowed(_related(ClassProposal.objects.all()))
    if state.wants_csv:
        rows = state.ordered(found).iterator(chunk_size=200)
        return csvs.download("class-proposals.csv", CSV_HEADER, map(_line, rows))
    page = state.page(found)
    context = {
        "page": page,
        "rows": list(page.object_list),
        "facets": state.facets(ClassProposal.objects.all()),
        "rule": rules.WORDS[rules.in_force()],
        "may_administer": may_administer(person(request)),
    }
    return lists.answer(request, "inventory/proposal_list.html", context, state=state)


def _related(rows: QuerySet[ClassProposal]) -> QuerySet[ClassProposal]:
    done = Count("targets", filter=Q(targets__state=ProposalTarget.State.DONE))
    counted = rows.annotate(done_count=done)
    return counted.select_related("author", "drawn_by", "approved_by").prefetch_related("targets__cluster")


def _line(proposal: ClassProposal) -> tuple[Any, ...]:
    targets = proposal.targets.all()
    approver = proposal.approved_by
    return (
        *(proposal.pk, proposal.name, proposal.kind, proposal.state),
        *(" ".join(target.cluster.name for target in targets), roll_out.done_part(list(targets))),
        *(proposal.author.username, proposal.drawn_by.username, approver.username if approver else ""),
        *(proposal.reason, "yes" if proposal.direct else "no"),
        *(proposal.created_at.isoformat(), proposal.changed_at.isoformat()),
    )


# --- one of them --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ThreeWays:
    """One field as YAML; `clash`: changed by the proposal and by others, not alike."""

    field: str
    base: str
    now: str
    wanted: str
    clash: bool
    changed_now: bool

    @classmethod
    def of(cls, strand: drawing.Strand) -> "ThreeWays":
        return cls(
            field=strand.field,
            base=_as_text(strand.base),
            now=_as_text(strand.now),
            wanted=_as_text(strand.wanted),
            clash=strand.clash,
            changed_now=strand.changed_now,
        )


def _as_text(value: Any) -> str:
    return "–" if value is None else describe.as_yaml(value).removesuffix("...\n").strip()


@dataclass(frozen=True)
class TargetRow:
    """One cluster of a proposal as the page shows it."""

    target: ProposalTarget
    diff: Sequence[Row]
    # The class is no longer what the change was drawn from: three ways, field by field.
    moved: bool
    strands: Sequence[ThreeWays]


@require_safe
@require_reader_of_everything
def proposal_detail(request: HttpRequest, pk: int) -> HttpResponse:
    """What it would change, what came of it, and what was said."""
    return _page(request, _get(pk))


def _page(
    request: HttpRequest, proposal: ClassProposal, *, refused: deciding.UnableToDecide | None = None
) -> HttpResponse:
    user = person(request)
    targets = list(proposal.targets.select_related("cluster").defer("cluster__kubeconfig_encrypted"))
    waits = proposal.state in (State.OPEN, State.OUTDATED)
    watched = waits or roll_out.is_stopped(proposal)
    moved = {target.pk for target in drawing.moved(proposal, targets)} if watched else set()
    administers = may_administer(user)
    own = user.pk in (proposal.author_id, proposal.drawn_by_id)
    applied = proposal.state in (State.APPLIED, State.PARTLY)
    context = {
        "proposal": proposal,
        "rows": [_row(proposal, target, moved) for target in targets],
        "entries": proposal.entries.select_related("person"),
        "users": sorted({name for target in targets for name in target.users}),
        "is_outdated": bool(moved) and waits,
        "running": proposal.state in (State.APPROVED, State.APPLYING),
        "stopped": roll_out.is_stopped(proposal),
        "may_administer": administers,
        "may_decide": administers and waits,
        "may_approve": administers and waits and not moved and _may_approve(proposal, user),
        "may_withdraw": administers and waits and own and not any(t.done_at for t in targets),
        "may_redraw": administers and drawing.may_redraw(proposal) and bool(moved or not waits),
        "may_roll_back": administers and applied and any(t.done_at and not t.outcome for t in targets),
        "rule": rules.WORDS[rules.in_force()],
        "others": _others(proposal) if watched else [],
        "undone_by": proposal.undone_by.order_by("-pk").first(),
        "refused": refused,
        "typed": request.POST.get("comment", "") if refused else "",
    }
    status = 200 if refused is None else 422
    return htmx.render(request, "inventory/proposal_detail.html", context, partial="result", status=status)


def _row(proposal: ClassProposal, target: ProposalTarget, moved: set[int]) -> TargetRow:
    is_moved = target.pk in moved
    now = drawing.present_spec(target.cluster, proposal.name) if is_moved else None
    return TargetRow(
        target=target,
        diff=diff_of(target),
        moved=is_moved,
        strands=[ThreeWays.of(s) for s in drawing.strands(target.base, now, target.wanted)]
        if is_moved
        else (),
    )


def _may_approve(proposal: ClassProposal, user: User) -> bool:
    return rules.may_approve(
        user, author_id=proposal.author_id, drawn_by_id=proposal.drawn_by_id, rule=rules.in_force()
    )


def _others(proposal: ClassProposal) -> list[ClassProposal]:
    """Others about the same class that are not over."""
    living = [State.OPEN, State.OUTDATED, State.APPROVED, State.APPLYING]
    rows = ClassProposal.objects.filter(name=proposal.name, state__in=living).exclude(pk=proposal.pk)
    return list(rows.select_related("author").order_by("pk")[:5])


# --- decisions ----------------------------------------------------------------------------------------


@require_administrator
@require_POST
def proposal_approve(request: HttpRequest, pk: int) -> HttpResponse:
    """Agree, of the drawing that was looked at."""
    return _decide(
        request,
        pk,
        lambda common: deciding.approve(
            **common,
            revision=_revision(request),
            comment=request.POST.get("comment", ""),
            confirmed=request.POST.get("confirmed", ""),
            rule=rules.in_force(),
        ),
        _("Approved. It is rehearsed on every cluster now, and then applied."),
    )


@require_administrator
@require_POST
def proposal_reject(request: HttpRequest, pk: int) -> HttpResponse:
    """Turn it down; the comment says why."""
    return _decide(
        request,
        pk,
        lambda common: deciding.reject(
            **common, revision=_revision(request), comment=request.POST.get("comment", "")
        ),
        _("Rejected."),
    )


@require_administrator
@require_POST
def proposal_withdraw(request: HttpRequest, pk: int) -> HttpResponse:
    """Take one's own back."""
    return _decide(
        request,
        pk,
        lambda common: deciding.withdraw(**common, comment=request.POST.get("comment", "")),
        _("Withdrawn."),
    )


@require_administrator
@require_POST
def proposal_comment(request: HttpRequest, pk: int) -> HttpResponse:
    """Write something about it."""

    def write(common: dict[str, Any]) -> None:
        deciding.comment(**common, text=request.POST.get("comment", ""))

    return _decide(request, pk, write, "")


@require_administrator
@require_POST
def proposal_redraw(request: HttpRequest, pk: int) -> HttpResponse:
    """Draw it anew over what classes are now."""

    def redraw(common: dict[str, Any]) -> None:
        try:
            drawing.redraw(
                **common,
                revision=_revision(request),
                take_over=True if "take_over" in request.POST else None,
            )
        except drawing.UnableToPropose as refused:
            raise deciding.UnableToDecide(refused.message) from refused

    return _decide(request, pk, redraw, _("It is drawn anew and waits for approval."))


@require_administrator
@require_POST
def proposal_resume(request: HttpRequest, pk: int) -> HttpResponse:
    """Go on where it stopped."""
    return _decide(request, pk, lambda common: roll_out.resume(**common), _("It goes on where it stopped."))


@require_administrator
@require_POST
def proposal_give_up(request: HttpRequest, pk: int) -> HttpResponse:
    """Leave it as it is."""
    return _decide(request, pk, lambda common: roll_out.give_up(**common), _("It stays as it is."))


@require_administrator
@require_POST
def proposal_roll_back(request: HttpRequest, pk: int) -> HttpResponse:
    """Propose to take back what is done."""
    made: list[int] = []

    def roll_back(common: dict[str, Any]) -> None:
        reason = deciding.read_comment(request.POST.get("comment", ""))
        made.append(roll_out.roll_back(**common, reason=reason).pk)

    answer = _decide(request, pk, roll_back, _("This proposal takes back what was done."))
    return htmx.redirect(request, "class-proposal-detail", made[0]) if made else answer


def _decide(request: HttpRequest, pk: int, act: Callable[[dict[str, Any]], None], done: str) -> HttpResponse:
    proposal = _get(pk)
    common = {
        "proposal": proposal,
        "user": person(request),
        "now": timezone.now(),
        "source_ip": audit.source_ip(request),
    }
    try:
        act(common)
    except deciding.UnableToDecide as refused:
        # What was typed stays, next to what is wrong with it.
        return _page(request, _get(pk), refused=refused)
    if done:
        messages.success(request, done)
    return htmx.redirect(request, "class-proposal-detail", pk)


def _revision(request: HttpRequest) -> int:
    """The drawing that was looked at; one that there is not when the form says none."""
    text = request.POST.get("revision", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0


def _get(pk: int) -> ClassProposal:
    rows = ClassProposal.objects.select_related("author", "drawn_by", "approved_by", "undoes")
    return get_object_or_404(rows, pk=pk)
