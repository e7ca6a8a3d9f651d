"""Work that is spared the collector leaves it as it was."""

import gc

import pytest

from portal.garbage import uncollected


def test_nothing_is_collected_within_and_all_is_as_before_behind() -> None:
    assert gc.isenabled()
    with uncollected():
        assert not gc.isenabled()
        with uncollected():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_failure_leaves_the_collector_on() -> None:
    with pytest.raises(ValueError, match="odd"), uncollected():
        raise ValueError("odd")
    assert gc.isenabled()
