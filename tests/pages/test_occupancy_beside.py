"""The chart of occupancy says what it leaves out."""

from django.urls import reverse

from claims.history.occupancy_beside import beside
from inventory.models import CountedUnits
from tests.browser.sessions import signed_in
from tests.cast import Cast
from tests.inventory_pages.factories import make_cluster, make_device, make_profile


def test_the_occupancy_says_what_it_leaves_out(cast: Cast) -> None:
    cluster = make_cluster()
    part = make_profile("H100 MIG 1g.10gb", kind="partition", memory="10Gi")
    for number in range(3):
        make_device(cluster, f"mig-{number}", profile=part, state="held" if number else "free")
    CountedUnits.objects.create(
        cluster=cluster, node_name="old", resource="nvidia.com/gpu", product="Tesla T4", capacity=4,
        allocatable=4, used=3, free=1,
    )  # fmt: skip
    CountedUnits.objects.create(
        cluster=cluster, node_name="new", resource="nvidia.com/gpu", product="Tesla A2", capacity=2,
        allocatable=2, used=None, free=2,
    )  # fmt: skip

    told = [(row.product, row.held, row.total) for row in beside()]
    assert told == [("H100 MIG 1g.10gb", 2, 3), ("Tesla A2", None, 2), ("Tesla T4", 3, 4)]
    assert [row.product for row in beside(product="Tesla T4")] == ["Tesla T4"]
    assert beside(cluster="elsewhere") == []
    page = signed_in(cast.member).get(reverse("chart-occupancy")).content.decode()
    assert "What the chart leaves out" in page
