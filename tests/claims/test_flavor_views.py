"""Pages of the catalogue: who sees and changes what, what stays typed, and what a conflict looks like."""

from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from claims.models import Flavor, Placement
from inventory.models import Cluster
from portal.accounts.models import User
from tests.claims import catalogue
from tests.claims.conftest import Cast
from tests.claims.test_flavors import PLACE, TYPED

HTMX: dict[str, Any] = {"HTTP_HX_REQUEST": "true"}


@pytest.fixture(autouse=True)
def fresh_cache() -> None:
    cache.clear()


@pytest.fixture
def served(cluster: Cluster) -> Placement:
    return catalogue.placement(catalogue.flavor(), cluster, extended_resource="nvidia.com/gpu")


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def page(client: Client, url: str, status: int = 200, **extra: Any) -> str:
    response = client.get(url, **extra)
    assert response.status_code == status, response.status_code
    return response.content.decode()


# --- who may ----------------------------------------------------------------------------------------


PAGES = {
    "flavor-list": {"admin": 200, "auditor": 200},
    "flavor-create": {"admin": 200},
    "flavor-derive": {"admin": 200},
    "flavor-edit": {"admin": 200},
    "placement-create": {"admin": 200},
    "placement-edit": {"admin": 200},
    "placement-remove": {"admin": 200},
    "catalogue": dict.fromkeys(("admin", "auditor", "owner", "lead", "stranger", "finance"), 200),
    "flavor-detail": dict.fromkeys(("admin", "auditor", "owner", "lead", "stranger", "finance"), 200),
}


def url_of(name: str, served: Placement) -> str:
    if name in ("flavor-list", "flavor-create", "flavor-derive", "catalogue"):
        return reverse(name)
    placed = name in ("placement-edit", "placement-remove", "placement-switch")
    arguments = [served.flavor.slug, served.pk] if placed else [served.flavor.slug]
    return reverse(name, args=arguments)


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("who", ["admin", "auditor", "owner", "lead", "stranger", "finance"])
def test_pages_are_for_whom_they_are(cast: Cast, served: Placement, name: str, who: str) -> None:
    response = signed_in(getattr(cast, who)).get(url_of(name, served))
    assert response.status_code == PAGES[name].get(who, 403)


@pytest.mark.parametrize(
    "name", ["flavor-create", "flavor-derive", "flavor-edit", "flavor-archive", "flavor-move",
             "placement-create", "placement-edit", "placement-remove", "placement-switch"],
)  # fmt: skip
@pytest.mark.parametrize("who", ["auditor", "owner", "lead", "finance"])
def test_only_administrators_change_the_catalogue(cast: Cast, served: Placement, name: str, who: str) -> None:
    before = list(Placement.objects.values()), list(Flavor.objects.values())
    response = signed_in(getattr(cast, who)).post(url_of(name, served), {**TYPED, **PLACE, "stage": "dra"})
    assert response.status_code == 403
    assert before == (list(Placement.objects.values()), list(Flavor.objects.values()))


def test_a_flavor_that_is_not_for_somebody_is_not_there_for_them(cast: Cast, served: Placement) -> None:
    Flavor.objects.update(visibility=Flavor.Visibility.LEADS)
    url = reverse("flavor-detail", args=["h100"])
    assert "H100" not in page(signed_in(cast.owner), reverse("catalogue"))
    assert signed_in(cast.owner).get(url).status_code == 404
    assert signed_in(cast.lead).get(url).status_code == 200


def test_what_changes_something_is_not_done_by_get(cast: Cast, served: Placement) -> None:
    client = signed_in(cast.admin)
    for name in ("flavor-archive", "flavor-move", "placement-switch"):
        assert client.get(url_of(name, served)).status_code == 405
    page(client, url_of("placement-remove", served))
    assert Placement.objects.filter(pk=served.pk).exists()


# --- the catalogue ----------------------------------------------------------------------------------


def test_the_catalogue_tells_what_is_free_what_it_costs_and_where(
    cast: Cast, served: Placement, prices: object
) -> None:
    html = page(signed_in(cast.owner), reverse("catalogue"))
    # The cluster of these tests was heard of a long time ago.
    assert "unknown" in html
    assert "free of 2" in html
    assert "2.50 EUR per device and hour" in html
    assert "no data yet" in html
    assert f"{reverse('request-create')}?flavor=h100" in html


def test_the_catalogue_refreshes_itself_in_part(cast: Cast, served: Placement) -> None:
    html = page(signed_in(cast.owner), reverse("catalogue"), **HTMX)
    assert html.lstrip().startswith('<div id="catalogue"')


def test_an_empty_catalogue_shows_the_way_on(cast: Cast, cluster: Cluster) -> None:
    assert reverse("flavor-derive") in page(signed_in(cast.admin), reverse("catalogue"))
    html = page(signed_in(cast.owner), reverse("catalogue"))
    assert reverse("flavor-derive") not in html
    assert reverse("request-create") in html


def test_the_page_of_a_flavor_explains_how_it_is_served(cast: Cast, served: Placement) -> None:
    Placement.objects.update(kubernetes=">=1.34", stage=Placement.Stage.AUTOMATIC)
    html = page(signed_in(cast.owner), reverse("flavor-detail", args=["h100"]))
    assert "What a condition for DRA is about is not observed." in html
    assert "API server: &gt;=1.34 is asked for" in html


# --- making and changing ----------------------------------------------------------------------------


def test_a_flavor_is_made_and_then_placed(cast: Cast, cluster: Cluster) -> None:
    client = signed_in(cast.admin)
    response = client.post(reverse("flavor-create"), TYPED)
    assert response["Location"] == reverse("placement-create", args=["h100-80g"])
    response = client.post(response["Location"], {**PLACE, "version": "1"})
    assert response["Location"] == reverse("flavor-edit", args=["h100-80g"])
    html = page(client, response["Location"])
    # Nobody advertises the resource: a warning, next to the place.
    assert "No node of the cluster advertises this resource" in html


def test_what_was_typed_stays_with_the_messages_at_their_fields(cast: Cast, cluster: Cluster) -> None:
    client = signed_in(cast.admin)
    response = client.post(reverse("flavor-create"), {**TYPED, "slug": "H 100", "max_count": "99"})
    html = response.content.decode()
    assert response.status_code == 422
    assert 'value="H 100"' in html
    assert 'value="99"' in html
    assert 'id="id_slug_error"' in html
    assert 'id="id_max_count_error"' in html
    assert "80 GB\nNVLink" in html
    assert not Flavor.objects.exists()


def test_an_expression_that_does_not_compile_is_told_with_its_place(cast: Cast, served: Placement) -> None:
    typed = {**PLACE, "version": "1", "selectors": 'device.driver = "x"', "node_selector": "a=b"}
    response = signed_in(cast.admin).post(url_of("placement-edit", served), typed)
    html = response.content.decode()
    assert response.status_code == 422
    assert "Expression 1, line 1" in html
    assert "device.driver = &quot;x&quot;" in html
    assert "a=b</textarea>" in html
    assert Placement.objects.get().selectors == []


def test_a_conflict_keeps_both_and_shows_what_differs(cast: Cast, served: Placement) -> None:
    client = signed_in(cast.admin)
    url = url_of("flavor-edit", served)
    theirs = {**TYPED, "slug": "h100", "name": "H100 theirs", "version": "1"}
    mine = {**TYPED, "slug": "h100", "name": "H100 mine", "version": "1"}
    assert client.post(url, theirs).status_code == 303
    response = client.post(url, mine)
    html = response.content.decode()
    assert response.status_code == 409
    assert "changed it meanwhile" in html
    assert 'value="H100 mine"' in html
    assert "H100 theirs" in html
    assert 'name="version" value="2"' in html
    assert Flavor.objects.get().name == "H100 theirs"
    assert client.post(url, {**mine, "version": "2"}).status_code == 303
    assert Flavor.objects.get().name == "H100 mine"


def test_a_derived_flavor_is_one_click(cast: Cast, cluster: Cluster) -> None:
    client = signed_in(cast.admin)
    assert "Make a flavor" in page(client, reverse("flavor-derive"))
    response = client.post(reverse("flavor-derive"), {"key": "class:h100:"})
    assert response["Location"] == reverse("flavor-edit", args=["h100"])
    client.post(reverse("flavor-derive"), {"key": "class:gone:"})
    assert "No cluster has this any more." in page(client, reverse("flavor-derive"))


def test_switching_and_removing_a_place(cast: Cast, served: Placement) -> None:
    client = signed_in(cast.admin)
    client.post(url_of("placement-switch", served), {"stage": "device-plugin"})
    served.refresh_from_db()
    assert served.stage == "device-plugin"
    html = page(client, url_of("flavor-edit", served))
    assert "An administrator switched it to the Device Plugin." in html
    client.post(url_of("placement-remove", served))
    assert not Placement.objects.exists()


def test_a_place_of_another_flavor_is_not_found_under_this_one(cast: Cast, served: Placement) -> None:
    catalogue.flavor("other")
    url = reverse("placement-edit", args=["other", served.pk])
    assert signed_in(cast.admin).get(url).status_code == 404


def test_icons_are_offered_by_what_they_show(cast: Cast) -> None:
    client = Client()
    client.force_login(cast.admin)
    page = client.get(reverse("flavor-create")).content.decode()

    assert 'aria-label="Rocket"' in page
    assert "Icon 1" not in page
