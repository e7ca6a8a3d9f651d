"""Drawing a proposal from what classes are now, and drawing it anew when they are no longer that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from inventory import class_effect, classes
from inventory.class_users import flavors_of, users_of
from inventory.forms import DNS_SUBDOMAIN
from inventory.models import ClassProposal, Cluster, DeviceClass, ProposalEntry, ProposalTarget
from inventory.proposals import news
from inventory.proposals.trail import enter, record
from portal import access
from portal.accounts.models import User

Kind = ClassProposal.Kind
State = ClassProposal.State
Spec = Mapping[str, Any]
MAX_REASON = 1000
MAX_TARGETS = 100


class UnableToPropose(Exception):
    """Nothing was proposed. `field`: "name", "clusters", "spec", "confirmed" or "" for the whole."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


@dataclass(frozen=True)
class Draft:
    """What the class shall be on one cluster; spec None = no class, labels or annotations None = as they
    are."""

    cluster: Cluster
    spec: Spec | None
    labels: Mapping[str, str] | None = None
    annotations: Mapping[str, str] | None = None


def propose(
    *,
    name: str,
    drafts: Sequence[Draft],
    author: User,
    now: datetime,
    reason: str = "",
    kind: str = "",
    confirmed: str = "",
    take_over: bool = False,
    undoes: ClassProposal | None = None,
    source_ip: str | None = None,
) -> ClassProposal:
    """Propose to make a class what the drafts say, in their order; clusters where it is so already are left
    out. `kind` is found from the drafts unless given. Deleting what somebody uses needs the name of the class
    as `confirmed`. Raises UnableToPropose."""
    _check(name, drafts)
    targets = [target for draft in drafts if (target := draw(name, draft)) is not None]
    if not targets:
        raise UnableToPropose("", _("The class is so already: nothing would change."))
    if any(target.users for target in targets) and confirmed != name:
        raise UnableToPropose(
            "confirmed", _("It is used. Type the name of the class to propose it all the same.")
        )
    with transaction.atomic():
        proposal = ClassProposal.objects.create(
            kind=kind or _kind(targets),
            name=name,
            reason=reason[:MAX_REASON],
            author=author,
            drawn_by=author,
            take_over=take_over,
            undoes=undoes,
            created_at=now,
            changed_at=now,
        )
        for position, target in enumerate(targets, 1):
            target.proposal, target.position = proposal, position
        ProposalTarget.objects.bulk_create(targets)
        enter(proposal, ProposalEntry.Kind.PROPOSED, author, now=now, text=reason)
        record(proposal, "create", actor=author, now=now, source_ip=source_ip, after=told(proposal, targets))
        news.proposed(proposal, now=now)
    return proposal


def redraw(
    *,
    proposal: ClassProposal,
    user: User,
    revision: int,
    now: datetime,
    take_over: bool | None = None,
    source_ip: str | None = None,
) -> None:
    """Draw what is not done anew over what classes are now: what others changed meanwhile is kept where the
    proposal says nothing else about it. It has to be approved again. Raises UnableToPropose."""
    if access.only_looks():
        raise UnableToPropose("", access.why_only_looks())
    with transaction.atomic():
        proposal.refresh_from_db(from_queryset=ClassProposal.objects.select_for_update())
        if proposal.revision != revision:
            raise UnableToPropose("", _("It was drawn anew meanwhile. Look at it again."))
        if not may_redraw(proposal):
            raise UnableToPropose("", _("It cannot be drawn anew: it is “%(state)s”.") % {
                "state": proposal.get_state_display()
            })  # fmt: skip
        left = []
        for target in proposal.targets.select_related("cluster").exclude(state=ProposalTarget.State.DONE):
            spec = merged(target.base, present_spec(target.cluster, proposal.name), target.wanted)
            labels, annotations = marks_of(
                DeviceClass.objects.filter(cluster=target.cluster, name=proposal.name).first()
            )
            marks = (
                _merged_marks(target.base_labels, labels, target.wanted_labels),
                _merged_marks(target.base_annotations, annotations, target.wanted_annotations),
            )
            drawn = draw(proposal.name, Draft(target.cluster, spec, *marks))
            target.delete()
            if drawn is not None:
                drawn.proposal, drawn.position = proposal, target.position
                left.append(drawn)
        if not left:
            raise UnableToPropose("", _("The class is so already: nothing is left to change. Withdraw it."))
        ProposalTarget.objects.bulk_create(left)
        proposal.revision += 1
        proposal.state, proposal.drawn_by, proposal.approved_by = State.OPEN, user, None
        proposal.changed_at = now
        if take_over is not None:
            proposal.take_over = take_over
        proposal.save()
        enter(proposal, ProposalEntry.Kind.REDRAWN, user, now=now)
        record(proposal, "redraw", actor=user, now=now, source_ip=source_ip, after=told(proposal, left))
        news.proposed(proposal, now=now)


def may_redraw(proposal: ClassProposal) -> bool:
    """Whether there is something left to draw anew, as far as its state tells."""
    stopped = proposal.state in (State.PARTLY, State.FAILED) and proposal.given_up_at is None
    return stopped or proposal.state in (State.OPEN, State.OUTDATED)


def draw(name: str, draft: Draft) -> ProposalTarget | None:
    """The change on one cluster from what the mirror knows; None where nothing would change."""
    cluster = draft.cluster
    found = DeviceClass.objects.filter(cluster=cluster, name=name).first()
    base = found.spec if found else None
    labels, annotations = marks_of(found)
    spec = None if draft.spec is None else dict(draft.spec)
    asked, noted = (None if m is None or spec is None else dict(m) for m in (draft.labels, draft.annotations))
    if spec == base and asked in (None, labels) and noted in (None, annotations):
        return None
    effect = class_effect.effect_of(cluster=cluster, name=name, before=base, after=spec)
    return ProposalTarget(
        cluster=cluster,
        base=base,
        base_labels=labels,
        base_annotations=annotations,
        base_uid=found.uid if found else "",
        base_version=found.resource_version if found else "",
        wanted=spec,
        wanted_labels=asked,
        wanted_annotations=noted,
        effect=class_effect.as_json(effect),
        users=users_named(found) if found is not None and spec is None else [],
    )


def marks_of(found: DeviceClass | None) -> tuple[dict[str, str], dict[str, str]]:
    """Labels and annotations, without what tools keep for themselves."""
    if found is None:
        return {}, {}
    kept = {key: text for key, text in found.annotations.items() if key not in classes.TOOLS}
    return dict(found.labels), kept


def differs(
    target: ProposalTarget, spec: Spec | None, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> bool:
    """Whether a class that is so now is no longer what the target was drawn from, as far as it matters."""
    if spec != target.base:
        return True
    if spec is None:
        return False
    return (target.wanted_labels is not None and dict(labels) != target.base_labels) or (
        target.wanted_annotations is not None and dict(annotations) != target.base_annotations
    )


def users_named(found: DeviceClass) -> list[str]:
    """Who uses a class, by kind and name."""
    users = [f"{user.kind} {user.namespace}/{user.name}" for user in users_of(found)]
    return users + [f"Flavor {name}" for name in flavors_of(found)]


# --- three ways ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Strand:
    """One field of a spec in its base, as it is now and as it is wanted; `clash`: both changed it, and not
    alike."""

    field: str
    base: Any
    now: Any
    wanted: Any

    @property
    def clash(self) -> bool:
        return self.now not in (self.base, self.wanted) and self.wanted != self.base

    @property
    def changed_now(self) -> bool:
        return bool(self.now != self.base)

    @property
    def changed_here(self) -> bool:
        return bool(self.wanted != self.base)


def strands(base: Spec | None, now: Spec | None, wanted: Spec | None) -> list[Strand]:
    """The fields in which the three are not all the same."""
    names = sorted({*(base or {}), *(now or {}), *(wanted or {})})
    found = [Strand(n, *((spec or {}).get(n) for spec in (base, now, wanted))) for n in names]
    return [strand for strand in found if strand.changed_now or strand.changed_here]


def merged(base: Spec | None, now: Spec | None, wanted: Spec | None) -> Spec | None:
    """The wanted change over what is now: field by field, and where both changed one, as wanted."""
    if base is None or now is None or wanted is None:
        return wanted
    names = {*base, *now, *wanted}
    taken = {n: (now if wanted.get(n) == base.get(n) else wanted).get(n) for n in sorted(names)}
    return {name: value for name, value in taken.items() if value is not None}


def _merged_marks(
    base: Mapping[str, str], now: Mapping[str, str], wanted: Mapping[str, str] | None
) -> Mapping[str, str] | None:
    """The same for labels or annotations; None = they stay as they are."""
    return None if wanted is None else merged(base, now, wanted)


def present_spec(cluster: Cluster, name: str) -> Spec | None:
    """What the class is by the mirror; None where there is none."""
    found: Spec | None = (
        DeviceClass.objects.filter(cluster=cluster, name=name).values_list("spec", flat=True).first()
    )
    return found


def moved(proposal: ClassProposal, targets: Sequence[ProposalTarget]) -> list[ProposalTarget]:
    """Targets, not done yet, whose class is no longer what they were drawn from, by the mirror."""
    rows = DeviceClass.objects.filter(name=proposal.name, cluster__in=[t.cluster_id for t in targets])
    present = {row.cluster_id: row for row in rows.only("cluster_id", "spec", "labels", "annotations")}
    found = []
    for target in targets:
        row = present.get(target.cluster_id)
        if target.state != ProposalTarget.State.DONE and differs(
            target, row.spec if row else None, *marks_of(row)
        ):
            found.append(target)
    return found


# --- inside -------------------------------------------------------------------------------------------


def check_name(name: str) -> None:
    """A name that Kubernetes takes. Raises UnableToPropose."""
    if len(name) > 253 or not DNS_SUBDOMAIN.fullmatch(name):
        said = _("Lower-case letters, digits, hyphens and dots; it starts and ends with a letter or digit.")
        raise UnableToPropose("name", said)


def _check(name: str, drafts: Sequence[Draft]) -> None:
    if access.only_looks():
        raise UnableToPropose("", access.why_only_looks())
    check_name(name)
    if not drafts or len(drafts) > MAX_TARGETS:
        raise UnableToPropose("clusters", _("Choose at least one cluster."))
    if len({draft.cluster.pk for draft in drafts}) < len(drafts):
        raise UnableToPropose("clusters", _("A cluster is named twice."))
    for draft in drafts:
        if not draft.cluster.enabled:
            said = _("%(cluster)s is not followed: follow it again first.") % {"cluster": draft.cluster.name}
            raise UnableToPropose("clusters", said)
        if draft.spec is not None:
            try:
                classes.check_wanted(draft.cluster, classes.Wanted.of_spec(draft.spec))
            except classes.UnableToChangeClass as refused:
                raise UnableToPropose("spec", f"{draft.cluster.name}: {refused.message}") from refused


def _kind(targets: Sequence[ProposalTarget]) -> str:
    if all(target.wanted is None for target in targets):
        return Kind.DELETE
    return Kind.CREATE if all(target.base is None for target in targets) else Kind.EDIT


def told(proposal: ClassProposal, targets: Sequence[ProposalTarget]) -> dict[str, Any]:
    """What the audit trail keeps of a drawing."""
    return {
        "reason": proposal.reason,
        "revision": proposal.revision,
        "wanted": {target.cluster.name: target.wanted for target in targets},
    }
