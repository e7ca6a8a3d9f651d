"""What others change about a request's objects is shown, with what can be done; nothing is written back."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from claims.models import QuotaObject, Request
from claims.requests import actions as requests
from claims.requests import pursuit
from claims.requests.drift import differences
from claims.requests.drift_findings import findings
from claims.requests.manifests import (
    COST_CENTRE_ANNOTATION,
    PURPOSE_ANNOTATION,
    REQUEST_LABEL,
    ROLE_LABEL,
    metadata_of,
)
from claims.requests.rehearsal import owner_of
from inventory.findings import evaluation, words
from inventory.findings.thresholds import Thresholds
from inventory.models import Claim, Cluster, Finding, Pod, Stream
from portal.accounts.models import Notification, User
from tests.claims.conftest import IMAGE, NOW, Cast
from tests.claims.fakes import FakeCluster
from tests.claims.mirror import mirror_claim, mirror_pod
from tests.claims.quotas import quota
from tests.claims.test_request_views import page, signed_in

HOUR = timedelta(hours=1)


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
            uses = [{"container": "hold", "claim": "accelerator", "request": "", "image": IMAGE}]
            mirror_pod(request_, "hold", claim_uses=uses, **columns)
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


# --- told -----------------------------------------------------------------------------------------


def look(cluster: Cluster, now: datetime) -> list[Finding]:
    """The findings about the desk's objects, after the rules have looked twice."""
    Stream.objects.filter(cluster=cluster).update(heard_at=now)
    Cluster.objects.filter(pk=cluster.pk).update(contacted_at=now)
    cluster.refresh_from_db()
    for at in (now - timedelta(minutes=2), now):
        evaluation.evaluate(cluster=cluster, now=at, thresholds=Thresholds())
    return list(Finding.objects.filter(kind="object-changed", resolved_at=None))


def told(person: User) -> list[str]:
    rows = Notification.objects.of(person).filter(key__startswith="object-changed:").order_by("pk")
    return [f"{row} {row.body_text}" for row in rows]


def test_the_image_of_the_hold_is_the_one_that_the_cluster_accepted(live: Request) -> None:
    assert live.hold_pod_image == IMAGE
    uses = Pod.objects.get().claim_uses
    Pod.objects.update(claim_uses=[uses[0] | {"image": "registry.example.org/miner:1"}])
    (one,) = differences(live)
    assert (one.kind, one.path, one.sent, one.found) == (
        "Pod", "spec.containers[0].image", IMAGE, "registry.example.org/miner:1",
    )  # fmt: skip
    assert one.mend == f"kubectl -n protein-folding set image pod {live.object_name}-hold 'hold={IMAGE}'"
    # What was mirrored before images were kept tells nothing.
    Pod.objects.update(claim_uses=[{name: uses[0][name] for name in ("container", "claim", "request")}])
    assert differences(live) == []


def test_what_others_changed_is_a_finding_and_its_requester_hears_of_it_once_each_time(
    live: Request, cast: Cast
) -> None:
    cluster = live.cluster
    assert look(cluster, NOW + HOUR) == []
    Claim.objects.update(annotations={})
    Pod.objects.update(labels={})
    found = look(cluster, NOW + 2 * HOUR)
    assert sorted((one.object_kind, one.name) for one in found) == [
        ("claim", live.object_name), ("pod", f"{live.object_name}-hold"),
    ]  # fmt: skip
    assert "is not as the desk sent it" in words.in_words(found[0])
    assert len(told(cast.owner)) == 2
    assert "past the desk" in told(cast.owner)[0]
    assert "metadata" in told(cast.owner)[0]
    look(cluster, NOW + 3 * HOUR)
    assert len(told(cast.owner)) == 2, "it is told once"
    assert told(cast.stranger) == []

    made = metadata_of(name="x", namespace="x", owner=owner_of(live))
    Claim.objects.update(annotations=made["annotations"])
    Pod.objects.update(labels={**made["labels"], ROLE_LABEL: "hold"})
    assert look(cluster, NOW + 4 * HOUR) == []
    Claim.objects.update(annotations={})
    assert len(look(cluster, NOW + 5 * HOUR)) == 1
    assert len(told(cast.owner)) == 3, "and told again when it begins again"


def test_many_requests_cost_no_more_queries(
    live: Request, cast: Cast, values: dict[str, Any], fake: FakeCluster
) -> None:
    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            list(findings(live.cluster, NOW))
        return len(queries)

    one = count()
    for _number in range(3):
        made = requests.submit(user=cast.owner, values=values, now=NOW, connect=lambda _cluster: fake)
        pursuit.pursue(request_id=made.pk, now=NOW, hold_image=IMAGE, connect=lambda _cluster: fake)
        made.refresh_from_db()
        mirror_claim(made)
    assert count() == one


def test_a_resource_quota_that_others_changed_is_told_to_who_has_an_entitlement_or_leads(
    live: Request, cast: Cast
) -> None:
    common = {"cluster": live.cluster, "project": live.project, "namespace": live.namespace}
    drifted = QuotaObject.State.DRIFT
    QuotaObject.objects.create(name="entitled", state=drifted, message="4 instead of 2", **common)
    QuotaObject.objects.create(name="quota", state=drifted, quota=quota(live.project), **common)
    Request.objects.filter(pk=live.pk).update(shape=Request.Shape.ENTITLEMENT)

    found = look(live.cluster, NOW + HOUR)
    assert sorted(one.name for one in found) == ["entitled", "quota"]
    assert [("entitled" in text, "4 instead of 2" in text) for text in told(cast.owner)] == [(True, True)]
    assert ["/quota" in text for text in told(cast.lead)] == [True]
