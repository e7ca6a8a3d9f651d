"""What taints are on is counted, and a few of it named, however many devices a rule selects."""

from collections import Counter

import pytest
from django.db import connection
from django.db.models.signals import post_init
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from inventory.coverage import coverage_of_all
from inventory.models import ClaimDevice, Cluster, Device, DeviceTaintRule, Pool
from inventory.taints.listing import TaintFilter, TaintRow, add_places, taint_rows
from inventory.taints.many import NAMED, TAKEN
from tests.inventory_pages.factories import make_cluster, make_fleet, make_holders

pytestmark = pytest.mark.django_db


def make_rule(cluster: Cluster, name: str, **selector: str) -> None:
    names = {"driver": "driver", "pool": "pool_name", "device": "device_name"}
    DeviceTaintRule.objects.create(
        cluster=cluster, name=name, uid=name, resource_version="1", selects=True, key="a/b",
        effect="NoSchedule", spec={}, **{names[field]: value for field, value in selector.items()},
    )  # fmt: skip


def told() -> tuple[dict[str, TaintRow], int]:
    """Rules by cluster and name, and how many queries it took to know where they are."""
    now = timezone.now()
    rows = taint_rows(TaintFilter(), coverage=coverage_of_all(now=now))
    with CaptureQueriesContext(connection) as asked:
        add_places(rows, now=now)
    return {f"{row.coverage.cluster.name}/{row.rule}": row for row in rows}, len(asked)


def test_rules_that_select_many_say_what_looking_at_every_device_says() -> None:
    for name, nodes in (("berlin", 6), ("oslo", 2)):
        cluster = make_cluster(name)
        make_fleet(cluster, nodes=nodes, kinds=2)
        if name == "berlin":
            make_holders(cluster)
        pool = Pool.objects.filter(cluster=cluster).order_by("pk")[1]
        make_rule(cluster, "all")
        make_rule(cluster, "driver", driver=pool.driver)
        make_rule(cluster, "pool", pool=pool.name)
        make_rule(cluster, "both", driver=pool.driver, pool=pool.name)
        make_rule(cluster, "one", driver=pool.driver, pool=pool.name, device="gpu-1")
        make_rule(cluster, "elsewhere", driver="nobody.example.com")
    rows, _queries = told()
    assert len(rows) == 12
    for name, row in rows.items():
        assert row.selector is not None
        devices = Device.objects.filter(row.selector.of_devices(), cluster=row.coverage.cluster)
        assert row.count == devices.count(), name
        assert len(row.named) == min(row.count, NAMED), name
        assert {device.pk for device in row.named} <= set(devices.values_list("pk", flat=True)), name
        assert row.more == row.count - len(row.named)
        holds = ClaimDevice.objects.filter(device__in=devices.filter(state__in=TAKEN))
        assert row.held == len(set(holds.values_list("device", flat=True))), name
        assert (
            Counter(dict(row.projects)).total()
            == holds.values("device", "claim__namespace").distinct().count()
        )
    assert rows["berlin/all"].held > 0
    assert rows["berlin/elsewhere"].count == 0


def test_more_devices_and_rules_take_no_more_queries_and_few_devices_are_read() -> None:
    cluster = make_cluster("berlin")
    make_fleet(cluster, nodes=4)
    make_holders(cluster)
    make_rule(cluster, "all")
    _rows, few = told()
    make_fleet(make_cluster("oslo"), nodes=40)
    for number in range(5):
        make_rule(Cluster.objects.get(name="oslo"), f"all-{number}")

    read: list[int] = []

    def note(instance: Device, **_: object) -> None:
        read.append(instance.pk)

    post_init.connect(note, sender=Device)
    try:
        rows, many = told()
    finally:
        post_init.disconnect(note, sender=Device)
    assert many == few
    assert rows["oslo/all-3"].count == 320
    assert len(read) < 4 * NAMED
