"""While somebody writes charges no month is closed, and while one is closed nobody writes."""

import threading

import pytest
from django.db import connection, transaction

from claims.money.shutting import write_alone


@pytest.mark.postgresql
@pytest.mark.django_db(transaction=True)
def test_who_comes_second_waits() -> None:
    got = threading.Event()

    def take() -> None:
        try:
            with transaction.atomic():
                write_alone()
                got.set()
        finally:
            connection.close()

    second = threading.Thread(target=take)
    with transaction.atomic():
        write_alone()
        write_alone()
        second.start()
        assert not got.wait(0.3)
    assert got.wait(30)
    second.join()


@pytest.mark.django_db(transaction=True)
def test_a_lock_without_a_transaction_is_refused() -> None:
    with pytest.raises(AssertionError, match="transaction"):
        write_alone()
