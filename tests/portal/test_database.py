"""What connections to the database are told."""

import pytest
from django.db import connection, connections

pytestmark = pytest.mark.django_db


@pytest.mark.postgresql
def test_streams_are_planned_to_be_read_to_their_end() -> None:
    again = connections.create_connection("default")
    again.settings_dict = connection.settings_dict
    try:
        with again.cursor() as cursor:
            cursor.execute("SHOW cursor_tuple_fraction")
            assert cursor.fetchone() == ("1",)
    finally:
        again.close()
