"""One box finds devices, requests, claims and projects, as far as the reader may see them."""

import pytest
from django.test import Client
from django.utils import timezone

from inventory.models import Claim, NamespaceBinding
from tests.cast import Cast
from tests.pages.fleet import cluster, devices, request

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(cast: Cast) -> Cast:
    where = cluster()
    devices(where, free=1)
    request(cast, purpose="coastal surge")
    NamespaceBinding.objects.create(
        cluster=where, namespace="tides", project=cast.project, valid_from=timezone.now()
    )
    for namespace in ("tides", "elsewhere"):
        Claim.objects.create(
            cluster=where,
            name=f"surge-{namespace}",
            namespace=namespace,
            uid=namespace,
            resource_version="1",
            spec={},
        )
    return cast


def found(client: Client, user: object, text: str) -> dict[str, int]:
    client.force_login(user)  # type: ignore[arg-type] # one of the cast
    context = client.get("/search/", {"q": text}).context
    return {kind: len(context[kind]) for kind in ("devices", "requests", "claims", "projects")}


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("member", {"devices": 0, "requests": 1, "claims": 1, "projects": 0}),
        ("stranger", {"devices": 0, "requests": 0, "claims": 0, "projects": 0}),
        ("finance", {"devices": 0, "requests": 0, "claims": 0, "projects": 0}),
        ("auditor", {"devices": 0, "requests": 1, "claims": 2, "projects": 0}),
    ],
)
def test_requests_and_claims_are_found_by_those_who_may_see_them(
    client: Client, world: Cast, role: str, expected: dict[str, int]
) -> None:
    assert found(client, getattr(world, role), "surge") == expected


def test_devices_are_found_by_everybody(client: Client, world: Cast) -> None:
    assert found(client, world.stranger, "beam")["devices"] == 1


def test_a_request_is_found_by_its_whole_key(client: Client, world: Cast) -> None:
    key = request(world).key

    assert found(client, world.member, str(key))["requests"] == 1


def test_projects_are_found_by_those_who_know_them(client: Client, world: Cast) -> None:
    assert found(client, world.finance, "tidal")["projects"] == 1
    assert found(client, world.stranger, "tidal")["projects"] == 0


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "%_'\"\\", "x" * 5000, "\x00", "研究"])
def test_no_text_breaks_the_page(client: Client, world: Cast, text: str) -> None:
    client.force_login(world.member)

    page = client.get("/search/", {"q": text})

    assert page.status_code == 200
    assert "<script>alert" not in page.content.decode()


def test_without_a_text_the_page_says_what_can_be_found(client: Client, world: Cast) -> None:
    client.force_login(world.member)

    assert "What are you looking for?" in client.get("/search/").content.decode()
