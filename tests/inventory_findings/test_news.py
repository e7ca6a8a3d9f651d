"""Administrators hear of new findings, once per evaluation."""

import pytest

from inventory.models import Cluster, Device
from portal.accounts.models import Notification
from portal.accounts.notifications.kinds import Kind
from tests.cast import Cast
from tests.inventory_findings.conftest import MINUTE, look
from tests.inventory_findings.test_storage import break_device

pytestmark = pytest.mark.django_db


def told() -> list[Notification]:
    return list(Notification.objects.filter(kind=Kind.FINDING).select_related("person").order_by("pk"))


def test_administrators_alone_hear_of_it_and_only_once(healthy: Cluster, cast: Cast) -> None:
    break_device()
    look(healthy)
    look(healthy, after=MINUTE)
    (note,) = told()
    assert note.person == cast.administrator
    assert "gpu" in str(note)
    assert note.url.startswith("/findings/")


def test_many_at_once_are_one_notification_that_counts_them(healthy: Cluster, cast: Cast) -> None:
    for node in Device.objects.order_by("node_name").values_list("node_name", flat=True).distinct():
        break_device(node=node)
    look(healthy)
    (note,) = told()
    assert "new findings on" in str(note)
    assert note.body_text
    assert f"cluster={healthy.name}" in note.url
