"""What stands against a device, on its page and over REST: rules that taint it, and drivers that share it."""

from datetime import timedelta

from django.utils import timezone

from inventory.models import DeviceTaintRule, Twin
from tests.inventory_pages.conftest import Cast, Fleet
from tests.inventory_pages.factories import make_device, make_profile


def test_a_device_shows_the_rules_that_taint_it_and_since_when(cast: Cast, fleet: Fleet) -> None:
    since = timezone.now() - timedelta(hours=3)
    for name, device in (("fan", fleet.free.name), ("other", "no-such-device")):
        DeviceTaintRule.objects.create(
            cluster=fleet.cluster, name=name, uid=name, resource_version="1", selects=True,
            driver=fleet.free.pool.driver, device_name=device, pool_name=fleet.free.pool.name,
            key=f"example.com/{name}", value="loud", effect="NoSchedule", added_at=since, spec={},
        )  # fmt: skip
    client = cast.client("stranger")
    html = client.get(f"/devices/{fleet.free.pk}/").content.decode()
    assert "example.com/fan=loud" in html
    assert "by the rule fan" in html
    assert "example.com/other" not in html
    (told,) = client.get(f"/api/v1/devices/{fleet.free.pk}/").json()["rule_taints"]
    assert (told["name"], told["key"], told["effect"]) == ("fan", "example.com/fan", "NoSchedule")


def test_a_device_says_who_else_publishes_its_hardware(cast: Cast, fleet: Fleet) -> None:
    other = make_device(
        fleet.cluster,
        "gpu-vfio-0",
        node=fleet.free.node_name,
        profile=make_profile(driver="vfio.example.com"),
    )
    client = cast.client("stranger")
    assert "may be handed out twice" not in client.get(f"/devices/{fleet.free.pk}/").content.decode()
    for device in (fleet.free, other):
        # As the mirror settles it.
        Twin.objects.create(cluster=fleet.cluster, device=device, piece=fleet.free.pk, counts=device == other)
    html = client.get(f"/devices/{fleet.free.pk}/").content.decode()
    assert "may be handed out twice" in html
    assert f'href="/devices/{other.pk}/"' in html
