"""Who may change classes how: the rule of the installation (CLAIMDESK_CLASS_REVIEW)."""

from enum import StrEnum

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from portal.accounts.models import User


class Rule(StrEnum):
    """`NONE`: administrators change classes at once, and may approve what they propose. `PROPOSAL`: every
    change is a proposal first, which its author may approve. `SECOND`: somebody else approves it."""

    NONE = "none"
    PROPOSAL = "proposal"
    SECOND = "second"


WORDS = {
    Rule.NONE: gettext_lazy("Administrators change classes at once; a proposal is an offer."),
    Rule.PROPOSAL: gettext_lazy("Every change of a class is a proposal first, which its author may approve."),
    Rule.SECOND: gettext_lazy("Every change of a class is a proposal that a second administrator approves."),
}


def in_force() -> Rule:
    return Rule(settings.CLASS_REVIEW)


def permits_direct() -> bool:
    """Whether a class may be changed at once."""
    return in_force() is Rule.NONE


def why_no_direct() -> str:
    """What to say instead of changing."""
    return _("Changes of classes are reviewed here (CLAIMDESK_CLASS_REVIEW): propose it instead.")


def may_approve(user: User, *, author_id: int, drawn_by_id: int, rule: Rule) -> bool:
    """Of an administrator: whether this proposal may be theirs to approve. Who drew it anew is an author
    too."""
    return rule is not Rule.SECOND or user.pk not in (author_id, drawn_by_id)
