"""Whose work something on a cluster is: the request of the desk behind it, its project, whom to tell.

Who keeps requests knows which one is behind a claim or a Pod; the inventory only asks.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from inventory.holders import projects_of
from portal.accounts.models import Membership, Project, User


@dataclass(frozen=True)
class Concern:
    """What stands behind a claim or Pod. `key` None: no request; without a project nobody is told."""

    project: Project | None = None
    key: UUID | None = None
    # "2 × H100 (0d5f1c2e)", and its page.
    name: str = ""
    url: str = ""
    until: datetime | None = None
    people: Sequence[User] = field(default_factory=tuple)


# (cluster, uids of claims and Pods) to what is known of them.
Provider = Callable[[int, Collection[str]], Mapping[str, Concern]]
_providers: list[Provider] = []


def register(provider: Provider) -> None:
    """Let `concerns_of` ask this too; once, however often it is said."""
    if provider not in _providers:
        _providers.append(provider)


def concerns_of(
    cluster_id: int, things: Iterable[tuple[str, str]], *, now: datetime
) -> Mapping[str, Concern]:
    """What stands behind each (namespace, uid), by uid; a fixed number of queries. Without a request it is
    the project that the namespace belongs to, and its leads are told."""
    spaces = {uid: namespace for namespace, uid in things}
    found: dict[str, Concern] = {}
    for provider in _providers:
        found.update(provider(cluster_id, spaces.keys()) if spaces else {})
    left = {uid: space for uid, space in spaces.items() if uid not in found}
    projects = projects_of({(cluster_id, space) for space in left.values()}, at=now) if left else {}
    leads = _leads(projects.values())
    for uid, space in left.items():
        project = projects.get((cluster_id, space))
        found[uid] = Concern(project=project, people=leads.get(project.pk, ()) if project else ())
    return found


def _leads(projects: Iterable[Project]) -> Mapping[int, Sequence[User]]:
    rows = Membership.objects.filter(project__in={project.pk for project in projects}, role="lead")
    found: dict[int, list[User]] = {}
    for row in rows.select_related("user").order_by("pk"):
        found.setdefault(row.project_id, []).append(row.user)
    return found


def people_of(concerns: Iterable[Concern]) -> list[User]:
    """Everybody whom these concern, each once, in order of their names."""
    people = {person.pk: person for concern in concerns for person in concern.people if person.is_active}
    return sorted(people.values(), key=lambda person: person.username)
