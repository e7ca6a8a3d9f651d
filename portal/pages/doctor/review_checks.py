"""How changes of device classes are reviewed, and whether there is somebody who may."""

from collections.abc import Iterator

from inventory.proposals import rules
from portal.accounts.models import User
from portal.pages.doctor.results import Result, bad, good

CHECK = "review of device classes"
# What `rules.WORDS` says, in the language of commands.
_SAID = {
    rules.Rule.NONE: "Administrators change classes at once (CLAIMDESK_CLASS_REVIEW=none).",
    rules.Rule.PROPOSAL: "Every change of a class is a proposal first (CLAIMDESK_CLASS_REVIEW=proposal).",
    rules.Rule.SECOND: "A second administrator approves changes of classes (CLAIMDESK_CLASS_REVIEW=second).",
}


def review_checks() -> Iterator[Result]:
    rule = rules.in_force()
    who = User.objects.filter(is_administrator=True, is_auditor=False, is_active=True).count()
    if rule is rules.Rule.SECOND and who < 2:
        yield bad(
            CHECK,
            f"A second administrator has to approve changes of classes, but there is only {who}.",
            "Make another person an administrator (People), or set CLAIMDESK_CLASS_REVIEW=proposal.",
        )
    else:
        yield good(CHECK, _SAID[rule])
