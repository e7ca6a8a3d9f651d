"""Quotas at the moments in which somebody asks for something: what would come of it, and whether it may.

Told before anything is sent (form, preview, approval), and settled inside the transaction that makes or moves
a request, with the project's row locked: of two that are asked for at the same moment, the second sees the
first.

With `notify` a request goes through, also where the flavor asks for no approval, and the leads are told. With
`block` and `release` it is refused. A request that waits for a decision counts as asked for; if the limit has
become too small meanwhile, an administrator may approve it knowingly, and nobody else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from django.utils.translation import gettext as _

from claims.asks.values import Ask, Reading, UnableToSubmit
from claims.models import Quota, Request, RequestChange
from claims.quotas.crossing import settle
from claims.quotas.facts import gather
from claims.quotas.standing import Standing
from claims.quotas.words import amount
from portal import access
from portal.accounts.models import Project, User

Kind = Quota.Kind
BINDING = (Quota.Action.BLOCK, Quota.Action.RELEASE)
# The field of an ask that a quota of the kind is about.
FIELDS = {Kind.DEVICES: "count", Kind.MEMORY: "count", Kind.HOURS: "duration", Kind.MONEY: "duration"}


class OverQuota(Exception):
    """It would be over a quota that refuses. `knowingly`: the person may go over it by saying so."""

    def __init__(self, message: str, *, knowingly: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.knowingly = knowingly


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a request means for a quota that it counts for."""

    quota: Quota
    before: Standing
    after: Standing

    @property
    def more(self) -> Fraction:
        """What the request takes."""
        return self.after.taken - self.before.taken

    @property
    def over(self) -> bool:
        return self.after.over

    @property
    def refuses(self) -> bool:
        return self.over and self.quota.action in BINDING

    @property
    def field(self) -> str:
        return FIELDS[Kind(self.quota.kind)]

    @property
    def what(self) -> str:
        """What is limited: "devices at once of H100"."""
        return what_of(self.quota)

    @property
    def left(self) -> str:
        """What may be asked for besides this."""
        return self._amount(self.before.left)

    @property
    def limit(self) -> str:
        return self._amount(self.before.limit)

    @property
    def takes(self) -> str:
        return self._amount(self.more)

    @property
    def words(self) -> str:
        """The verdict in a sentence."""
        told = {
            "what": self.what,
            "limit": self.limit,
            "used": self._amount(self.before.used),
            "asked": self._amount(self.before.asked),
            "more": self.takes,
        }
        if not self.over:
            return _("Quota (%(what)s): this takes %(more)s; the limit is %(limit)s.") % told
        return (
            _(
                "Over the quota (%(what)s): the limit is %(limit)s; %(used)s in use, %(asked)s asked for, "
                "and this takes %(more)s."
            )
            % told
        )

    def _amount(self, value: Fraction | None) -> str:
        return amount(value, kind=self.quota.kind, currency=self.quota.currency)


def what_of(quota: Quota) -> str:
    """What a quota limits, in words."""
    kind = Kind(quota.kind).label
    if quota.flavor is None:
        return str(kind)
    return _("%(kind)s of %(flavor)s") % {"kind": kind, "flavor": quota.flavor.name}


def verdicts(
    requests: Sequence[Request],
    *,
    now: datetime,
    replaced: Request | None = None,
    amended: Request | None = None,
) -> list[list[Verdict]]:
    """For each request (stored or not) what it means for the quotas of its project that it counts for:
    `replaced` gives its devices back as soon as it has its own, `amended` is what it was asked for as before.
    A fixed number of queries; one where no project has a quota."""
    projects = {request.project_id for request in requests}
    rows = Quota.objects.filter(project__in=projects).holding(now).select_related("flavor", "project")
    quotas = list(rows.order_by("pk"))
    if not quotas:
        return [[] for _request in requests]
    gathered = gather(quotas, now=now)
    told = []
    for request in requests:
        mine = [quota for quota in quotas if quota.project_id == request.project_id]
        # A request that is stored is among what is asked for: the question is what comes with it.
        without = [one.pk for one in (request, amended) if one is not None and one.pk is not None]
        both = [
            Verdict(
                quota=quota,
                before=gathered.standing(quota, without=without),
                after=gathered.standing(
                    quota, without=without, besides=[request], replaced=replaced.pk if replaced else None
                ),
            )
            for quota in mine
        ]
        told.append([one for one in both if one.more > 0 or one.after.unmeasured > one.before.unmeasured])
    return told


def foretell(
    reading: Reading, *, now: datetime, replaced: Request | None = None, amended: Request | None = None
) -> list[Verdict]:
    """What an ask as far as it could be read would mean; `replaced` and `amended` as in `verdicts`."""
    request = _of_reading(reading)
    if request is None:
        return []
    return verdicts([request], now=now, replaced=replaced, amended=amended)[0]


def refuse_early(
    ask: Ask, *, now: datetime, replaced: Request | None = None, amended: Request | None = None
) -> None:
    """Raises UnableToSubmit, at the fields, where the ask is over a quota that refuses: before the cluster is
    asked about it. `replaced` and `amended` as in `verdicts`."""
    request = Request(
        project=ask.project, cluster=ask.cluster, flavor=ask.flavor, pool=_pool(ask),
        device_class=ask.device_class, extended_resource=_resource(ask), count=ask.count,
        min_memory=ask.min_memory, options=ask.options.as_dict(), duration=ask.duration, shape=ask.shape,
    )  # fmt: skip
    _refuse(verdicts([request], now=now, replaced=replaced, amended=amended)[0])


def admit(request: Request, *, now: datetime, replaced: Request | None = None) -> None:
    """Let a new request (not stored yet) in, or raise UnableToSubmit. Inside the transaction that stores it:
    locks the project, so that whoever asks at the same moment waits and sees it. `replaced` as in
    `verdicts`."""
    lock(request.project)
    told = verdicts([request], now=now, replaced=replaced)[0]
    _refuse(told)
    for one in told:
        settle(one.quota, one.after, now=now)


def admit_again(request: Request, *, now: datetime) -> None:
    """The same for a request that failed and is tried again. Raises OverQuota."""
    lock(request.project)
    place = RequestChange.objects.filter(successor=request, release=RequestChange.Release.WHEN_SERVED)
    replaced = Request.objects.active().filter(pk__in=place.values("request")).first()
    told = verdicts([request], now=now, replaced=replaced)[0]
    refused = [one for one in told if one.refuses]
    if refused:
        raise OverQuota(" ".join(one.words for one in refused))


def approve(request: Request, *, user: User, knowingly: bool, now: datetime) -> list[Verdict]:
    """Whether `user` may approve a request as it stands now; answers the quotas that it goes over. Raises
    OverQuota. Inside the transaction that decides."""
    over = [one for one in verdicts([request], now=now)[0] if one.refuses]
    if not over:
        return []
    words = " ".join(one.words for one in over)
    if not access.may_administer(user):
        raise OverQuota(words + " " + _("Only an administrator may approve it all the same."))
    if not knowingly:
        raise OverQuota(words + " " + _("Say that you approve it all the same."), knowingly=True)
    return over


def lock(project: Project) -> None:
    """Wait for whoever settles something about the project's quotas. Before any of its requests is locked, so
    that nobody waits for each other."""
    Project.objects.select_for_update().get(pk=project.pk)


# --- inside -----------------------------------------------------------------------------------------


def _refuse(told: Sequence[Verdict]) -> None:
    errors: dict[str, list[str]] = {}
    for one in told:
        if one.refuses:
            errors.setdefault(one.field, []).append(one.words)
    if errors:
        raise UnableToSubmit(errors)


def _of_reading(seen: Reading) -> Request | None:
    if seen.project is None or seen.cluster is None or seen.count is None or seen.duration is None:
        return None
    if not seen.choice_made:
        return None
    by_plugin = seen.backend == Request.Backend.PLUGIN
    placed = seen.placement
    return Request(
        project=seen.project, cluster=seen.cluster, flavor=seen.flavor, pool=placed.pool if placed else "",
        device_class="" if by_plugin or seen.device_class is None else seen.device_class.name,
        extended_resource=placed.extended_resource if placed and by_plugin else "", count=seen.count,
        min_memory=seen.min_memory, options=seen.options.as_dict(), duration=seen.duration, shape=seen.shape,
    )  # fmt: skip


def _pool(ask: Ask) -> str:
    return ask.placement.pool if ask.placement else ""


def _resource(ask: Ask) -> str:
    by_plugin = ask.backend == Request.Backend.PLUGIN
    return ask.placement.extended_resource if ask.placement and by_plugin else ""
