"""Who may ask for no project, and why: in none yet, or only in such as are archived."""

from collections.abc import Sequence

from portal.accounts.models import Membership, Project, User


def archived_of(user: User) -> Sequence[Project]:
    """Projects that the person is a member of and that are archived, by name: an administrator restores
    them."""
    mine = Membership.objects.filter(user=user).values("project")
    return list(Project.objects.filter(pk__in=mine).exclude(archived_at=None).order_by("name"))
