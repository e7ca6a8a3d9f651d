"""The page of Pods' devices: who tells of which node, why not, and the nodes' tokens."""

import csv
import io
import re
from datetime import timedelta

import pytest
from django.utils import timezone

from inventory.models import Cluster, CountedUnits, PodDeviceNode, PodDeviceToken
from inventory.node_reports import UnableToAccept
from inventory.podresources import intake, tokens
from portal.accounts.models import AuditEntry
from tests.inventory_pages.conftest import INSIDERS, OUTSIDERS, Cast
from tests.inventory_pages.factories import make_cluster, make_node
from tests.inventory_podresources.conftest import GPU, OTHER_GPU, Issue, pod_devices, report

pytestmark = pytest.mark.django_db

PAGE = "/clusters/berlin/pod-devices/"
FORM = f"{PAGE}token/"
READERS = {"administrator", "auditor"}


def page(cast: Cast, path: str = PAGE, role: str = "administrator") -> str:
    response = cast.client(role).get(path)
    assert response.status_code == 200
    return response.content.decode()


def text(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def rows(html: str) -> str:
    """What the table says."""
    return text(html.split("<tbody>")[1].split("</tbody>", maxsplit=1)[0])


@pytest.fixture
def reported(token: PodDeviceToken) -> PodDeviceNode:
    now = timezone.now()
    body = report(pod_devices("work", GPU, OTHER_GPU), sent_at=now - timedelta(seconds=2), collector="1.4")
    return intake.accept(token=token, body=body, now=now).node


@pytest.mark.parametrize("role", [*INSIDERS, *OUTSIDERS])
def test_it_is_for_administrators_and_auditors(role: str, cast: Cast, reported: PodDeviceNode) -> None:
    client = cast.client(role)
    assert client.get(PAGE).status_code == (200 if role in READERS else 403)
    assert (PAGE in client.get("/clusters/berlin/").content.decode()) == (role in READERS)


def test_a_node_is_shown_with_what_it_tells(cast: Cast, cluster: Cluster, reported: PodDeviceNode) -> None:
    assert "the desk sees no such node" in rows(page(cast))
    make_node(cluster, "gpu-01")
    html = page(cast)
    said = rows(html)
    assert "/nodes/berlin/gpu-01/" in html
    assert "gpu-01 the kubelet (PodResources) current" in said
    assert " 2 -2,000 ms ahead of the desk 1.4 " in said
    assert "unknown since" not in said


def test_a_token_that_is_sent_after_its_end_is_shown_with_since_when(
    cast: Cast, issue: Issue, reported: PodDeviceNode
) -> None:
    token, plain = issue("gpu-02")
    since = timezone.now() - timedelta(minutes=50)
    tokens.revoke(token=token, actor=None, now=since)
    assert "still sent" not in rows(page(cast))
    assert tokens.find(plain, now=since + timedelta(minutes=1)) is None
    assert tokens.find(plain, now=since + timedelta(minutes=40)) is None
    said = rows(page(cast, f"{PAGE}?refused=yes"))
    assert "reports are refused: the token that it is sent with was revoked." in said
    assert "revoked" in said
    assert "still sent" in said
    assert "gpu-01" not in said
    noted = PodDeviceNode.objects.get(name="gpu-02")
    assert noted.refused_at == since + timedelta(minutes=1)
    # Auditors see why, and no tokens.
    assert "still sent" not in rows(page(cast, role="auditor"))
    assert "was revoked" in rows(page(cast, role="auditor"))


def test_a_silent_node_is_told_from_one_that_never_reported(
    cast: Cast, issue: Issue, reported: PodDeviceNode
) -> None:
    issue("gpu-02")
    PodDeviceNode.objects.filter(pk=reported.pk).update(received_at=timezone.now() - timedelta(hours=1))
    silent, never = (rows(page(cast, f"{PAGE}?state={state}")) for state in ("silent", "never"))
    assert "gpu-01" in silent
    assert "unknown since" in silent
    assert "gpu-02" not in silent
    assert "gpu-02" in never
    assert "never reported" in never
    assert "gpu-01" not in never
    assert "No node matches" in page(cast, f"{PAGE}?state=current")


def test_why_a_report_was_refused_is_shown_until_one_is_accepted(cast: Cast, token: PodDeviceToken) -> None:
    now = timezone.now()
    with pytest.raises(UnableToAccept):
        intake.accept(token=token, body=report(sent_at=now - timedelta(minutes=12)), now=now)
    assert "A report was refused" in rows(page(cast))
    assert "clock is minutes behind" in rows(page(cast, f"{PAGE}?refused=yes"))
    intake.accept(token=token, body=report(sent_at=now), now=now)
    assert "refused" not in rows(page(cast))


def test_metrics_are_a_source_without_tokens(cast: Cast, cluster: Cluster) -> None:
    now = timezone.now()
    PodDeviceNode.objects.create(
        cluster=cluster, name="gpu-05", source="dcgm", created_at=now, received_at=now, interval_seconds=300
    )
    html = page(cast)
    assert "gpu-05" in rows(html)
    assert "metrics of the DCGM exporter" in rows(html)
    assert f"{FORM}?node=" not in html


def test_other_clusters_have_their_own(cast: Cast, reported: PodDeviceNode) -> None:
    make_cluster("oslo")
    assert "gpu-01" not in page(cast, "/clusters/oslo/pod-devices/")
    assert cast.client("administrator").get("/clusters/paris/pod-devices/").status_code == 404


def test_an_empty_page_says_how_to_deploy_the_collector(cast: Cast, cluster: Cluster) -> None:
    html = page(cast)
    assert "deploy/podresources-collector" in html
    assert FORM in html
    assert FORM not in page(cast, role="auditor")


def test_nodes_of_device_plugins_that_nobody_tells_of_are_counted(
    cast: Cast, cluster: Cluster, reported: PodDeviceNode
) -> None:
    for name in ("gpu-01", "gpu-02"):
        for resource in ("nvidia.com/gpu", "nvidia.com/mig-1g.5gb"):
            CountedUnits.objects.create(
                cluster=cluster, node_name=name, resource=resource, product="GPU", kind="gpu", capacity=2,
                allocatable=2,
            )  # fmt: skip
    assert "1 node with a Device Plugin has neither a collector nor metrics" in page(cast)


def test_it_is_had_as_a_table_without_tokens(cast: Cast, reported: PodDeviceNode) -> None:
    response = cast.client("administrator").get(f"{PAGE}?format=csv")
    content = b"".join(response.streaming_content).decode("utf-8-sig")  # type: ignore[attr-defined] # it streams
    (line,) = csv.DictReader(io.StringIO(content))
    assert (line["node"], line["state"], line["devices"]) == ("gpu-01", "current", "2")
    assert "pdnode_" not in content


# --- tokens ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", [role for role in [*INSIDERS, *OUTSIDERS] if role != "administrator"])
def test_only_administrators_issue_and_revoke_tokens(role: str, cast: Cast, token: PodDeviceToken) -> None:
    client = cast.client(role)
    assert client.get(FORM).status_code == 403
    assert client.post(FORM, {"node": "gpu-01", "lifetime": "30"}).status_code == 403
    assert client.post(f"{PAGE}tokens/{token.pk}/revoke/").status_code == 403
    assert PodDeviceToken.objects.get().revoked_at is None
    assert role not in READERS or token.prefix not in page(cast, role=role)


def test_a_token_is_shown_once(cast: Cast, cluster: Cluster) -> None:
    response = cast.client("administrator").post(FORM, {"node": "gpu-01", "lifetime": "30"})
    html = response.content.decode()
    found = re.search(rf"{tokens.PREFIX}[\w-]{{43}}", html)
    assert found is not None
    assert response["Cache-Control"].startswith("max-age=0, no-cache, no-store")
    assert "deploy/podresources-collector" in html
    assert f"{PAGE}?q=gpu-01" in html
    token = PodDeviceToken.objects.get()
    assert tokens.find(found[0], now=timezone.now()) == token
    assert found[0] not in str(list(PodDeviceToken.objects.values())) + str(list(AuditEntry.objects.values()))
    shown = page(cast)
    assert found[0] not in shown
    assert token.prefix in shown
    entry = AuditEntry.objects.get(action="pod-device-token.create")
    assert (entry.actor, entry.target_name) == (cast.administrator, "berlin/gpu-01")


def test_what_is_wrong_with_a_node_is_said_beside_it(cast: Cast, cluster: Cluster) -> None:
    response = cast.client("administrator").post(FORM, {"node": "GPU 1", "lifetime": "30"})
    assert response.status_code == 422
    assert "no name that a node can have" in response.content.decode()
    assert not PodDeviceNode.objects.exists()


def test_a_node_without_a_live_token_leads_to_a_new_one(cast: Cast, token: PodDeviceToken) -> None:
    assert f"{FORM}?node=gpu-01" not in page(cast)
    tokens.revoke(token=token, actor=cast.administrator, now=timezone.now())
    assert f"{FORM}?node=gpu-01" in page(cast)
    assert 'value="gpu-01"' in page(cast, f"{FORM}?node=gpu-01")


def test_a_token_is_revoked_after_a_question(cast: Cast, issue: Issue) -> None:
    token, plain = issue()
    path = f"{PAGE}tokens/{token.pk}/revoke/"
    assert path in page(cast)
    client = cast.client("administrator")
    assert "cannot be undone" in client.get(path).content.decode()
    assert tokens.find(plain, now=timezone.now()) is not None
    assert client.post(path)["Location"] == PAGE
    assert tokens.find(plain, now=timezone.now()) is None
    assert AuditEntry.objects.filter(action="pod-device-token.revoke").count() == 1


def test_a_token_is_revoked_on_the_page_of_its_own_cluster_only(cast: Cast, token: PodDeviceToken) -> None:
    make_cluster("oslo")
    path = f"/clusters/oslo/pod-devices/tokens/{token.pk}/revoke/"
    assert cast.client("administrator").post(path).status_code == 404
    assert PodDeviceToken.objects.get().revoked_at is None
