"""The fixtures of the mirror, for tests that feed it."""

from tests.inventory.conftest import cluster, mirror

__all__ = ["cluster", "mirror"]
