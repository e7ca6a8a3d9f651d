"""While somebody writes charges no month is closed, and while one is closed nobody writes."""

import threading
from collections.abc import Callable

import pytest
from django.db import connection, transaction

from claims.money.shutting import correct_alone, keep_months_open, stop_writers

Lock = Callable[[], None]


def held_by_another(lock: Lock) -> threading.Event:
    """Set once another connection has it."""
    got = threading.Event()

    def take() -> None:
        try:
            with transaction.atomic():
                lock()
                got.set()
        finally:
            connection.close()

    threading.Thread(target=take).start()
    return got


@pytest.mark.postgresql
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(keep_months_open, stop_writers), (stop_writers, keep_months_open), (correct_alone, correct_alone)],
    ids=["closing waits for writers", "writers wait for closing", "corrections one after the other"],
)
def test_who_comes_second_waits(ours: Lock, theirs: Lock) -> None:
    with transaction.atomic():
        ours()
        got = held_by_another(theirs)
        assert not got.wait(0.3)
    assert got.wait(30)


@pytest.mark.postgresql
@pytest.mark.django_db(transaction=True)
def test_writers_do_not_wait_for_each_other() -> None:
    with transaction.atomic():
        keep_months_open()
        assert held_by_another(keep_months_open).wait(30)


@pytest.mark.django_db(transaction=True)
def test_a_lock_without_a_transaction_is_refused() -> None:
    with pytest.raises(AssertionError, match="transaction"):
        keep_months_open()
