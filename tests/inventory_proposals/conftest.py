"""Two administrators, and two clusters that they change."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from inventory.models import ClassProposal
from inventory.proposals import deciding, drawing, roll_out, rules
from portal.accounts.models import User
from tests.inventory_pages.conftest import cast, cluster, fleet, project
from tests.inventory_proposals.builders import NAME, NOW
from tests.inventory_proposals.shelf import Shelf, World

__all__ = ["cast", "cluster", "fleet", "project"]


@dataclass
class Desk:
    """Who proposes (Ada) and who approves (Grace), and where."""

    ada: User
    grace: User
    world: World
    berlin: Shelf
    paris: Shelf

    def propose(
        self, spec: Any, *shelves: Shelf, labels: Mapping[str, str] | None = None, **more: Any
    ) -> ClassProposal:
        """Ada (or `author`) proposes a spec for these clusters."""
        drafts = [drawing.Draft(shelf.row, spec, labels) for shelf in shelves]
        return drawing.propose(name=NAME, drafts=drafts, now=NOW, **{"author": self.ada, **more})

    def approve(self, proposal: ClassProposal, **more: Any) -> None:
        """Grace (or `user`) approves what she looks at."""
        usual = {"user": self.grace, "revision": proposal.revision, "rule": rules.Rule.SECOND}
        deciding.approve(proposal=proposal, now=NOW, **{**usual, **more})

    def run(self, proposal: ClassProposal, *, runner: str = "one", now: datetime = NOW) -> str:
        """Roll out to the end, as the task does; the state that it ends in."""
        while roll_out.advance(
            proposal_id=proposal.pk, runner=runner, now=now, client_for=self.world.client_for
        ):
            pass
        proposal.refresh_from_db()
        return str(proposal.state)


@pytest.fixture
def desk(db: None) -> Desk:
    world = World()
    return Desk(
        ada=User.objects.create(username="ada", is_administrator=True),
        grace=User.objects.create(username="grace", is_administrator=True),
        world=world,
        berlin=world.add("berlin"),
        paris=world.add("paris"),
    )
