"""A cluster with two GPUs of known uuids, and who may set what it is asked."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from inventory.models import Cluster, Device, MetricQuery, MetricSource
from inventory.telemetry import configuring
from inventory.telemetry.configuring import WantedSource
from tests.cast import Cast, cast, cheap_passwords
from tests.inventory_pages.factories import make_cluster, make_device, make_node
from tests.inventory_telemetry.servers import Fake, fake

__all__ = ["cast", "cheap_passwords"]

NOW = datetime(2026, 11, 30, 9, 12, 40, tzinfo=UTC)
UUIDS = ("GPU-8a10b6f7-0000-0000-0000-000000000000", "GPU-8a10b6f7-0000-0000-0000-000000000001")


@dataclass
class Lab:
    cast: Cast
    cluster: Cluster
    devices: list[Device]

    def source(self, url: str, **fields: Any) -> MetricSource:
        """As an administrator would have saved it."""
        wanted = WantedSource(url=url, **fields)
        return configuring.save(cluster=self.cluster, wanted=wanted, actor=self.cast.administrator, now=NOW)

    def only(self, source: MetricSource, kind: str) -> MetricQuery:
        """The first query of a kind; all others are off."""
        query = source.queries.filter(kind=kind).order_by("position").first()
        assert query is not None
        source.queries.exclude(pk=query.pk).update(enabled=False)
        return query

    def client(self, role: str) -> Client:
        client = Client()
        client.force_login(getattr(self.cast, role))
        return client


@pytest.fixture
def lab(cast: Cast) -> Lab:
    berlin = make_cluster()
    make_node(berlin, "gpu-01")
    devices = [make_device(berlin, f"gpu-{number}") for number in range(2)]
    for device, uuid in zip(devices, UUIDS, strict=True):
        device.hardware_id = uuid
        device.identity = {
            "gpu.nvidia.com/uuid": {"string": uuid},
            "resource.kubernetes.io/pciBusID": {"string": f"0000:10:1{device.name[-1]}.0"},
        }
        device.save()
    return Lab(cast, berlin, devices)


@pytest.fixture
def server() -> Iterator[Fake]:
    with fake() as told:
        yield told
