"""Work that is spared the collector leaves it as it was."""

import gc

import pytest

from portal.garbage import settle, uncollected


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


def test_what_a_process_settles_with_is_not_walked_again() -> None:
    here: list[int] = []
    try:
        settle()
        assert gc.get_freeze_count() > 0
        assert not any(known is here for known in gc.get_objects())
    finally:
        gc.unfreeze()
    assert any(known is here for known in gc.get_objects())
