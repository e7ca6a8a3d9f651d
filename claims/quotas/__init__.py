"""How much a project may have, and what happens when it has more."""
