"""What holders are told of maintenance and of nodes that are being emptied."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

from django.urls import reverse
from django.utils.translation import gettext_noop

from inventory.models import Drain, DrainHolder, Effect, Maintenance, UpkeepEvent
from inventory.taints.concerned import Concern, people_of
from inventory.taints.history import note
from inventory.taints.holds import concerns_at
from inventory.taints.places import text_of
from portal.accounts.models import Project, User
from portal.accounts.notifications.kinds import Kind
from portal.accounts.notifications.telling import tell
from portal.accounts.notifications.texts import Text, as_written

HOUR = timedelta(hours=1)
# Reminders before the start, the nearest first.
STEPS = (HOUR, 24 * HOUR)
ROUND = timedelta(minutes=5)

_MAINTENANCE: Mapping[str, str] = {
    "planned": gettext_noop("Maintenance of %(place)s is planned from %(start)s to %(end)s."),
    "changed": gettext_noop("Maintenance of %(place)s is now planned from %(start)s to %(end)s."),
    "cancelled": gettext_noop("Maintenance of %(place)s, planned from %(start)s, does not take place."),
    "begun": gettext_noop("Maintenance of %(place)s has begun and lasts until %(end)s."),
    "ended": gettext_noop("Maintenance of %(place)s is over."),
}
_MEANING: Mapping[str, str] = {
    "": gettext_noop("%(reason)s – Do not count on these devices in that time."),
    Effect.NONE: gettext_noop("%(reason)s – Do not count on these devices in that time."),
    Effect.NO_SCHEDULE: gettext_noop("%(reason)s – What runs goes on, but nothing new starts there."),
    Effect.NO_EXECUTE: gettext_noop(
        "%(reason)s – Pods that still use these devices at the start are evicted."
    ),
}


def tell_holders(maintenance: Maintenance, what: str, *, now: datetime, besides: User | None = None) -> None:
    """Tell everybody who holds something there, once for each `what` and version."""
    subject = Text(
        _MAINTENANCE[what], place=text_of(maintenance), start=maintenance.starts_at, end=maintenance.ends_at
    )
    body = as_written(maintenance.reason) if what in ("cancelled", "ended") else _meaning(maintenance)
    _tell_all(
        concerns_at(maintenance, now=now),
        subject=subject,
        body=body,
        now=now,
        key=f"maintenance:{maintenance.key}:{what}:{maintenance.version}",
        url=reverse("maintenance-detail", args=[maintenance.key]),
        thread=str(maintenance.key),
        besides=besides,
        facts=facts_of(maintenance, what),
    )


def remind(*, now: datetime) -> None:
    """Remind those who hold something where maintenance begins soon: a day and an hour before, each once,
    and not of what was planned later than that."""
    soon = Maintenance.objects.filter(
        state=Maintenance.State.PLANNED, starts_at__gt=now, starts_at__lte=now + max(STEPS)
    )
    for maintenance in soon.select_related("cluster"):
        left = maintenance.starts_at - now
        step = next(step for step in STEPS if left <= step)
        mark = f"{maintenance.starts_at.isoformat()} {step // HOUR}"
        done = UpkeepEvent.objects.filter(maintenance=maintenance, what="reminded", note=mark)
        if maintenance.changed_at >= maintenance.starts_at - step or done.exists():
            continue
        shown = -(-left // ROUND) * ROUND
        subject = Text(
            gettext_noop("Maintenance of %(place)s begins in %(left)s, at %(start)s."),
            place=text_of(maintenance),
            left=shown,
            start=maintenance.starts_at,
        )
        _tell_all(
            concerns_at(maintenance, now=now),
            subject=subject,
            body=_meaning(maintenance),
            now=now,
            key=f"maintenance:{maintenance.key}:soon:{mark}"[:140],
            url=reverse("maintenance-detail", args=[maintenance.key]),
            thread=str(maintenance.key),
            facts=facts_of(maintenance, "soon"),
        )
        note(maintenance, "reminded", now=now, words=mark)


def ask_holders(
    drain: Drain,
    holders: Collection[DrainHolder],
    concerns: Mapping[str, Concern],
    *,
    message: str,
    now: datetime,
) -> int:
    """Ask those who hold something to leave; how many people were asked."""
    said = (
        gettext_noop("You are asked to leave %(place)s by %(by)s.")
        if drain.wanted_by
        else gettext_noop("You are asked to leave %(place)s.")
    )
    subject = Text(said, place=text_of(drain), **({"by": drain.wanted_by} if drain.wanted_by else {}))
    asked = [concerns[holder.uid] for holder in holders if holder.uid in concerns]
    _tell_all(
        asked,
        subject=subject,
        body=as_written(message or drain.reason),
        now=now,
        key=f"drain:{drain.key}:ask:{now.isoformat()}",
        url=reverse("drain-detail", args=[drain.key]),
        thread=str(drain.key),
        facts={
            "drain": str(drain.key),
            "cluster": drain.cluster.name,
            "node": drain.node_name,
            "wanted_by": drain.wanted_by.isoformat() if drain.wanted_by else None,
        },
    )
    return len(people_of(asked))


def tell_evicting(drain: Drain, concerns: Iterable[Concern], *, now: datetime) -> None:
    """Tell those who are still there that their Pods have to go now."""
    _tell_all(
        concerns,
        subject=Text(gettext_noop("Pods on %(place)s are evicted now."), place=text_of(drain)),
        body=as_written(drain.reason),
        now=now,
        key=f"drain:{drain.key}:evict:{drain.version}",
        url=reverse("drain-detail", args=[drain.key]),
        thread=str(drain.key),
        facts={"drain": str(drain.key), "cluster": drain.cluster.name, "node": drain.node_name},
    )


def tell_owner(drain: Drain, subject: Text, *, now: datetime, key: str) -> None:
    """Tell who empties it how that goes."""
    tell(
        people=[drain.created_by],
        kind=Kind.MAINTENANCE,
        subject=subject,
        now=now,
        url=reverse("drain-detail", args=[drain.key]),
        key=f"drain:{drain.key}:{key}"[:160],
        thread=str(drain.key),
    )


def facts_of(maintenance: Maintenance, what: str) -> dict[str, object]:
    """For programs."""
    return {
        "maintenance": str(maintenance.key),
        "what": what,
        "cluster": maintenance.cluster.name,
        "scope": maintenance.scope,
        "node": maintenance.node_name,
        "starts_at": maintenance.starts_at.isoformat(),
        "ends_at": maintenance.ends_at.isoformat(),
        "effect": maintenance.effect,
    }


# --- inside -------------------------------------------------------------------------------------------


def _meaning(maintenance: Maintenance) -> Text:
    return Text(_MEANING[maintenance.effect], reason=maintenance.reason)


def _tell_all(
    concerns: Iterable[Concern],
    *,
    subject: Text,
    body: Text,
    url: str,
    now: datetime,
    key: str,
    thread: str,
    facts: Mapping[str, object],
    besides: User | None = None,
) -> None:
    """Each project by itself, since its webhooks hear it too."""
    by_project: dict[int, tuple[Project, list[Concern]]] = {}
    for concern in concerns:
        if concern.project is not None:
            by_project.setdefault(concern.project.pk, (concern.project, []))[1].append(concern)
    for project, theirs in by_project.values():
        people = [person for person in people_of(theirs) if besides is None or person.pk != besides.pk]
        tell(
            people=people,
            kind=Kind.MAINTENANCE,
            subject=subject,
            body=body,
            url=url,
            now=now,
            project=project,
            key=f"{key}:{project.pk}"[:160],
            thread=thread,
            facts=facts,
        )
