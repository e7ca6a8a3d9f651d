"""Who may be told of what is a project's own: now, and still when it is delivered."""

from collections.abc import Mapping

from portal.accounts.models import Delivery, Membership, Project, User


def insiders(people: Mapping[int, User], project: Project) -> dict[int, User]:
    """Those of them who may see the project's own things; the rule is that of `access.may_see_details`."""
    outside = [pk for pk, person in people.items() if not (person.is_administrator or person.is_auditor)]
    members: set[int] = set()
    if outside:
        rows = Membership.objects.filter(project=project, user__in=outside)
        members = set(rows.values_list("user_id", flat=True))
    return {pk: person for pk, person in people.items() if pk not in outside or pk in members}


def may_still_hear(delivery: Delivery) -> bool:
    """Whether a person whom something was told may still see it: attempts go on for most of a day, and
    meanwhile somebody may have left the project. A project's own webhook is called in any case."""
    note = delivery.notification
    if note is None or note.project is None:
        return True
    return bool(insiders({note.person_id: note.person}, note.project))
