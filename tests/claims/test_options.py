"""What is chosen beyond the ordinary: read alike from lines and JSON, judged by the mirror, sent as it should
be, and answered by the engine."""

from typing import Any

import pytest
from django.core.cache import cache
from django.urls import reverse

from claims.asks.judging import parse, read
from claims.asks.values import UnableToSubmit
from claims.models import Flavor, Placement, Request
from claims.money.pricing import price_list
from claims.preview.panel import preview
from claims.requests import actions as requests
from claims.requests import manifests
from inventory import snapshot
from inventory.models import Cluster, DeviceProfile
from portal.accounts.models import User
from tests.claims import catalogue
from tests.claims.conftest import NOW, Cast
from tests.claims.fakes import FakeCluster
from tests.claims.test_api import JSON, client_of
from tests.claims.test_request_views import page, signed_in

ASK: dict[str, Any] = {"project": "protein-folding", "flavor": "h100", "purpose": "Folding"}
PRODUCT = "gpu.nvidia.com/productName"


@pytest.fixture(autouse=True)
def fresh(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.clear()
    snapshot._cached.clear()
    monkeypatch.setitem(requests.submit.__kwdefaults__, "connect", lambda _cluster: fake)  # type: ignore[arg-type]


@pytest.fixture
def flavors(cluster: Cluster) -> None:
    for slug in ("h100", "a100"):
        catalogue.placement(catalogue.flavor(slug), cluster)


def spec(user: User, **typed: Any) -> manifests.Manifest:
    devices: manifests.Manifest = parse({**ASK, **typed}, user=user, now=NOW).spec["devices"]
    return devices


def refused(user: User, **typed: Any) -> dict[str, list[str]]:
    with pytest.raises(UnableToSubmit) as error:
        parse({**ASK, **typed}, user=user, now=NOW)
    return error.value.errors


@pytest.mark.usefixtures("flavors")
def test_alternatives_become_first_available_in_their_order(cast: Cast) -> None:
    Placement.objects.filter(flavor__slug="a100").update(
        config=[{"opaque": {"driver": "gpu.nvidia.com", "parameters": {"a": 1}}}]
    )
    devices = spec(cast.owner, alternatives="2 × a100")
    assert devices == spec(cast.owner, alternatives=[{"flavor": "a100", "count": 2}])
    (part,) = devices["requests"]
    assert part["name"] == "accelerator"
    assert [(one["name"], one["deviceClassName"], one["count"]) for one in part["firstAvailable"]] == [
        ("choice-1", "h100", 1), ("choice-2", "a100", 2),
    ]  # fmt: skip
    assert devices["config"][0]["requests"] == ["accelerator/choice-2"]


@pytest.mark.usefixtures("flavors")
def test_constraints_and_further_parts_are_in_the_one_claim(cast: Cast) -> None:
    devices = spec(cast.owner, count="2", parts="1 × a100\ngpu", same=PRODUCT)
    assert [part["name"] for part in devices["requests"]] == ["accelerator", "part-2", "part-3"]
    assert [part["exactly"]["count"] for part in devices["requests"]] == [2, 1, 1]
    assert devices["constraints"] == [{"matchAttribute": PRODUCT}]
    assert spec(cast.owner, different=PRODUCT)["constraints"] == [{"distinctAttribute": PRODUCT}]


@pytest.mark.usefixtures("flavors")
def test_a_share_tolerations_and_an_expression_are_of_the_first_part(cast: Cast) -> None:
    DeviceProfile.objects.update(allow_multiple_allocations=True)
    expression = 'device.driver == "gpu.nvidia.com"'
    devices = spec(
        cast.owner, share="memory=10Gi", tolerations="gpu.nvidia.com/xid:NoSchedule", expression=expression
    )
    exactly = devices["requests"][0]["exactly"]
    assert exactly["capacity"] == {"requests": {"memory": "10Gi"}}
    assert exactly["tolerations"] == [
        {"key": "gpu.nvidia.com/xid", "operator": "Exists", "effect": "NoSchedule"}
    ]
    assert exactly["selectors"] == [{"cel": {"expression": expression}}]


@pytest.mark.usefixtures("flavors")
@pytest.mark.parametrize(
    ("typed", "field", "said"),
    [
        ({"alternatives": "2 × h200"}, "alternatives", "no flavor “h200”"),
        ({"alternatives": "9 × a100"}, "alternatives", "1 to 4 devices"),
        ({"alternatives": "two of them"}, "alternatives", "write a number and a name"),
        ({"alternatives": ["a100"]}, "alternatives", "an object with"),
        ({"alternatives": [{"flavor": "a100", "count": True}]}, "alternatives", "an object with"),
        ({"alternatives": "\n".join(["a100"] * 8)}, "alternatives", "At most 7"),
        ({"parts": "1 × nothing"}, "parts", "no usable DeviceClass"),
        ({"parts": "33 × gpu"}, "parts", "from 1 to 32"),
        ({"parts": "32 × gpu"}, "parts", "At most 32 devices"),
        ({"same": "pcieRoot"}, "same", "domain/name"),
        ({"same": "resource.kubernetes.io/pcieRoot"}, "same", "No device that is asked for tells"),
        ({"same": PRODUCT, "different": PRODUCT}, "different", "same and different"),
        ({"share": "memory=10Gi"}, "share", "None of these devices can be shared"),
        ({"share": "memory"}, "share", "name=amount"),
        ({"tolerations": "a:Never"}, "tolerations", "The effect of a taint"),
        ({"expression": "device.driver = 1"}, "expression", "Line 1"),
        ({"expression": "x" * 10_300}, "expression", "at most 10 KiB"),
        ({"expression": 'device.attributes["a.b"].c == "x"'}, "expression", "the scheduler would give up"),
    ],
)
def test_what_makes_no_sense_is_told_at_its_field(
    cast: Cast, typed: dict[str, Any], field: str, said: str
) -> None:
    errors = refused(cast.owner, **typed)
    assert said in errors[field][0]


@pytest.mark.usefixtures("flavors")
@pytest.mark.parametrize(
    ("typed", "said"),
    [("memory=90Gi", "at most 80Gi"), ("cores=1", "no capacity"), ("memory=x", "not an amount")],
)
def test_a_share_is_a_part_of_what_there_is(cast: Cast, typed: str, said: str) -> None:
    DeviceProfile.objects.update(allow_multiple_allocations=True)
    assert said in refused(cast.owner, share=typed)["share"][0]


@pytest.mark.usefixtures("flavors")
def test_a_device_plugin_does_nothing_beyond_the_ordinary(cast: Cast) -> None:
    Placement.objects.update(device_class="", extended_resource="nvidia.com/gpu")
    errors = refused(cast.owner, alternatives="a100", same=PRODUCT)
    assert set(errors) == {"alternatives", "same"}
    assert "A Device Plugin cannot do this" in errors["same"][0]


@pytest.mark.usefixtures("flavors")
def test_an_alternative_brings_its_own_approval(cast: Cast) -> None:
    Flavor.objects.filter(slug="a100").update(approval="administrator")
    made = requests.submit(user=cast.owner, values={**ASK, "alternatives": "a100"}, now=NOW)
    assert (made.state, made.approval) == (Request.State.WAITING_FOR_APPROVAL, "administrator")
    by_class = requests.submit(user=cast.owner, values={**ASK, "parts": "a100"}, now=NOW)
    assert by_class.approval == "administrator"


@pytest.mark.usefixtures("flavors")
def test_the_engine_answers_and_the_cost_is_told_for_each(cast: Cast, prices: object) -> None:
    reading = read(
        {**ASK, "count": "4", "alternatives": "1 × a100", "parts": "1 × gpu"}, user=cast.owner, now=NOW
    )
    told = preview(reading, prices=price_list(), now=NOW)
    assert told.problem == ""
    assert [(line.role, line.count) for line in told.cost] == [
        ("", 4), ("instead", 1), ("besides", 1), ("besides", 1),
    ]  # fmt: skip
    assert "firstAvailable" in told.written[0].text


@pytest.mark.usefixtures("flavors")
def test_what_was_chosen_is_kept_told_and_shown(cast: Cast) -> None:
    body = {**ASK, "alternatives": [{"flavor": "a100", "count": 2}], "same": PRODUCT}
    answer = client_of(cast.owner).post(reverse("api-request-list"), body, content_type=JSON)
    assert answer.status_code == 201, answer.json()
    assert answer.json()["options"] == {"alternatives": [{"flavor": "a100", "count": 2}], "same": PRODUCT}
    html = page(signed_in(cast.owner), reverse("request-detail", args=[answer.json()["key"]]))
    assert "2 × a100" in html
    assert PRODUCT in html


@pytest.mark.usefixtures("flavors")
def test_wrong_choices_stay_typed_and_unfolded(cast: Cast) -> None:
    typed = {**ASK, "alternatives": "2 × h200", "share": "memory=1Gi", "expression": "1 +"}
    response = signed_in(cast.owner).post(reverse("request-create"), typed)
    html = response.content.decode()
    assert response.status_code == 422
    assert "2 × h200</textarea>" in html
    assert 'id="id_alternatives_error"' in html
    assert 'id="id_expression_error"' in html
    assert not Request.objects.exists()


def test_older_versions_get_alternatives_in_their_shape() -> None:
    wish = manifests.Wish(device_class="h100", count=1)
    owner = manifests.Owner(key="k", project="p", requester="r")
    made = manifests.claim(
        name="n",
        namespace="ns",
        owner=owner,
        spec=manifests.claim_spec(wish, alternatives=[wish], parts=[wish]),
    )
    first, second = manifests.for_version(made, "resource.k8s.io/v1beta1")["spec"]["devices"]["requests"]
    assert [one["name"] for one in first["firstAvailable"]] == ["choice-1", "choice-2"]
    assert (second["name"], second["deviceClassName"]) == ("part-2", "h100")
