"""What others change about a request's objects is shown, with what can be done; nothing is written back."""

from typing import Any

import pytest
from django.urls import reverse

from claims.models import Request
from claims.requests import actions as requests
from claims.requests import pursuit
from claims.requests.drift import differences
from claims.requests.manifests import COST_CENTRE_ANNOTATION, PURPOSE_ANNOTATION, REQUEST_LABEL, metadata_of
from claims.requests.rehearsal import owner_of
from inventory.models import Claim, Pod
from tests.claims.conftest import IMAGE, NOW, Cast
from tests.claims.fakes import FakeCluster
from tests.claims.mirror import mirror_claim, mirror_pod
from tests.claims.test_request_views import page, signed_in


@pytest.fixture
def live(request_: Request, cast: Cast, fake: FakeCluster) -> Request:
    """A request with its claim and its hold Pod as the desk made them."""
    for hold in (False, True):
        if hold:
            requests.hold(request=request_, user=cast.owner, now=NOW)
        pursuit.pursue(request_id=request_.pk, now=NOW, hold_image=IMAGE, connect=lambda _cluster: fake)
        request_.refresh_from_db()
    for kind, name in (("resourceclaims", request_.object_name), ("pods", f"{request_.object_name}-hold")):
        made = fake.objects[kind, request_.namespace, name]["metadata"]
        columns = {key: made[key] for key in ("uid", "labels", "annotations")}
        if kind == "pods":
            mirror_pod(request_, "hold", **columns)
        else:
            mirror_claim(request_, **columns)
    return request_


def test_what_is_as_it_was_sent_is_no_drift(live: Request) -> None:
    Claim.objects.update(spec={**live.spec, "added": "by the server"})
    assert differences(live) == []


@pytest.mark.parametrize(
    ("changed", "path", "mends"),
    [
        ({"labels": {}}, f"metadata.labels[{REQUEST_LABEL}]", True),
        ({"annotations": {}}, f"metadata.annotations[{PURPOSE_ANNOTATION}]", True),
        ({"spec": {"devices": {"requests": []}}}, "spec.devices.requests[0]", False),
        ({"uid": "another"}, "metadata.uid", False),
    ],
)
def test_what_was_changed_is_named_with_its_remedy(
    live: Request, changed: dict[str, Any], path: str, mends: bool
) -> None:
    Claim.objects.update(**changed)
    found = {one.path: one for one in differences(live)}
    assert path in found
    assert bool(found[path].mend) is mends


def test_a_changed_value_shows_both(live: Request) -> None:
    Claim.objects.update(annotations=_annotations(live) | {COST_CENTRE_ANNOTATION: "0815"})
    (one,) = differences(live)
    assert (one.sent, one.found) == ("4711", "0815")
    assert one.mend.endswith(f"'{COST_CENTRE_ANNOTATION}=4711' --overwrite")


def test_a_purpose_that_was_changed_at_the_desk_is_no_drift(live: Request) -> None:
    live.purpose = "The April set"
    assert differences(live) == []


def test_a_command_cannot_be_broken_out_of(live: Request) -> None:
    live.purpose = "it's; rm -rf /"
    Claim.objects.update(annotations={})
    mends = [one.mend for one in differences(live) if PURPOSE_ANNOTATION in one.path]
    assert mends[0].endswith("'claimdesk.io/purpose=it'\\''s; rm -rf /' --overwrite")


def test_the_hold_pod_is_looked_at_too(live: Request) -> None:
    Pod.objects.update(labels={})
    assert {one.kind for one in differences(live)} == {"Pod"}


def test_the_page_shows_it(live: Request, cast: Cast) -> None:
    url = reverse("request-detail", args=[live.key])
    assert "not by the desk" not in page(signed_in(cast.owner), url)
    Claim.objects.update(labels={})
    text = page(signed_in(cast.owner), url)
    assert "Changed on the cluster, not by the desk" in text
    assert "kubectl -n protein-folding label resourceclaim" in text


def _annotations(request: Request) -> dict[str, str]:
    written = metadata_of(name=request.object_name, namespace=request.namespace, owner=owner_of(request))
    annotations: dict[str, str] = written["annotations"]
    return annotations
