"""The pages of findings and diagnosis tasks: administrators act, auditors read, nobody else knows of them."""

import csv
import io
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from inventory.models import Cluster, Device, DiagnosisTask, Finding
from portal.accounts.models import AuditEntry, User
from tests.cast import Cast
from tests.inventory_findings.conftest import MINUTE, look, shown
from tests.inventory_pages.factories import hold

pytestmark = pytest.mark.django_db

READERS = ("administrator", "auditor")
OTHERS = ("member", "lead", "stranger", "finance")
XID = {"key": "gpu.nvidia.com/xid", "value": "43", "effect": "NoExecute"}


@pytest.fixture
def finding(healthy: Cluster) -> Finding:
    """A health fault of gpu-02's device."""
    Device.objects.filter(node_name="gpu-02").update(taints=[XID])
    look(healthy)
    return shown("health-fault")[0]


@pytest.fixture
def ada(cast: Cast) -> Client:
    return signed_in(cast.administrator)


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def addresses(finding: Finding) -> list[str]:
    task = DiagnosisTask.objects.get()
    return [
        *("/findings/", "/findings/export.csv", "/findings/checks/", f"/findings/{finding.pk}/"),
        *("/diagnosis/", f"/diagnosis/{task.pk}/", "/contracts/", "/clusters/berlin/contract/"),
    ]


@pytest.mark.parametrize("role", READERS)
def test_who_runs_or_audits_the_clusters_reads(role: str, cast: Cast, finding: Finding) -> None:
    client = signed_in(getattr(cast, role))
    for url in addresses(finding):
        assert client.get(url).status_code == 200, url


@pytest.mark.parametrize("role", OTHERS)
def test_nobody_else_does(role: str, cast: Cast, finding: Finding) -> None:
    client = signed_in(getattr(cast, role))
    for url in addresses(finding):
        assert client.get(url).status_code == 403, url
    assert "/findings/" not in client.get("/clusters/berlin/").content.decode()


@pytest.mark.parametrize("role", ["auditor", *OTHERS])
def test_only_administrators_act(role: str, cast: Cast, finding: Finding) -> None:
    client = signed_in(getattr(cast, role))
    task = DiagnosisTask.objects.get()
    assert client.post(f"/findings/{finding.pk}/handle/", {"action": "acknowledge"}).status_code == 403
    assert client.post(f"/diagnosis/{task.pk}/", {"state": "done"}).status_code == 403
    assert client.post("/clusters/berlin/contract/edit/", {"kubernetes": "1.36"}).status_code == 403
    finding.refresh_from_db()
    assert finding.acknowledged_at is None
    assert "What to do" not in client.get(f"/findings/{finding.pk}/").content.decode()


def test_the_list_says_what_and_where(ada: Client, finding: Finding) -> None:
    text = ada.get("/findings/").content.decode()
    device = Device.objects.get(node_name="gpu-02")
    assert "gpu.nvidia.com/xid=43:NoExecute" in text
    assert f'href="/devices/{device.pk}/"' in text
    assert f'href="/findings/{finding.pk}/"' in text


def test_what_was_found_is_text(ada: Client, healthy: Cluster) -> None:
    Device.objects.filter(node_name="gpu-02").update(taints=[XID | {"value": "<script>alert(1)</script>"}])
    look(healthy)
    assert "<script>alert" not in ada.get("/findings/").content.decode()


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", True),
        ("kind=health-fault", True),
        ("kind=overlap", False),
        ("kind=nonsense", False),
        ("severity=bad", True),
        ("severity=info", False),
        ("cluster=berlin", True),
        ("cluster=oslo", False),
        ("q=gpu-02", True),
        ("q=gpu-02+nvidia", True),
        ("q=gpu-99", False),
        ("q=%00", True),
        ("state=live", True),
        ("state=resolved", False),
        ("state=unknown", False),
        ("state=snoozed", False),
        ("state=nonsense", True),
        ("page=99", True),
    ],
)
def test_filters(query: str, found: bool, ada: Client, finding: Finding) -> None:
    response = ada.get(f"/findings/?{query}")
    assert response.status_code == 200
    assert (f"/findings/{finding.pk}/" in response.content.decode()) is found
    rows = list(csv.reader(io.StringIO(export(ada, query))))
    assert (len(rows) == 2) is found


def export(client: Client, query: str = "") -> str:
    response: Any = client.get(f"/findings/export.csv?{query}")
    return b"".join(response.streaming_content).decode("utf-8-sig")


def test_csv_has_the_words_and_utc_times(ada: Client, finding: Finding) -> None:
    header, row = csv.reader(io.StringIO(export(ada)))
    told = dict(zip(header, row, strict=True))
    assert told["kind"] == "health-fault"
    assert "xid=43" in told["words"]
    assert told["first_seen_at"].endswith("Z")
    assert told["resolved_at"] == ""


def test_acknowledging_takes_it_off_the_list_and_is_audited(
    ada: Client, finding: Finding, cast: Cast
) -> None:
    url = f"/findings/{finding.pk}/"
    response = ada.post(f"{url}handle/", {"action": "acknowledge", "note": "RMA 77", "days": "7"})
    assert (response.status_code, response["Location"]) == (303, url)
    finding.refresh_from_db()
    assert (finding.acknowledged_by, finding.note) == (cast.administrator, "RMA 77")
    assert url not in ada.get("/findings/").content.decode()
    assert url in ada.get("/findings/?state=acknowledged").content.decode()
    entry = AuditEntry.objects.get(action="finding.acknowledge")
    assert entry.after is not None
    assert entry.after["note"] == "RMA 77"
    assert "RMA 77" in ada.get(url).content.decode()

    ada.post(f"{url}handle/", {"action": "reopen"})
    assert url in ada.get("/findings/").content.decode()


def test_it_comes_back_when_the_snooze_is_over(ada: Client, finding: Finding) -> None:
    url = f"/findings/{finding.pk}/"
    ada.post(f"{url}handle/", {"action": "snooze", "note": "", "days": "7"})
    assert url not in ada.get("/findings/").content.decode()
    assert url in ada.get("/findings/?state=snoozed").content.decode()
    Finding.objects.update(snoozed_until=timezone.now() - MINUTE)
    assert url in ada.get("/findings/").content.decode()


@pytest.mark.parametrize(
    "data",
    [
        {"action": "acknowledge", "note": "x" * 1001, "days": "7"},
        {"action": "snooze", "note": "kept text", "days": "8000"},
        {"action": "snooze", "note": "kept text", "days": "-1"},
        {"action": "explode", "note": "kept text", "days": "7"},
        {"note": "kept text", "days": "7"},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_and_nothing_typed_is_lost(
    data: dict[str, str], ada: Client, finding: Finding
) -> None:
    response = ada.post(f"/findings/{finding.pk}/handle/", data)
    assert response.status_code == 422
    assert data["note"][:40] in response.content.decode()
    finding.refresh_from_db()
    assert finding.acknowledged_by is None
    assert not AuditEntry.objects.exists()


def test_what_no_longer_holds_cannot_be_acknowledged(ada: Client, finding: Finding, healthy: Cluster) -> None:
    Device.objects.update(taints=[])
    look(healthy, after=MINUTE)
    response = ada.post(f"/findings/{finding.pk}/handle/", {"action": "acknowledge", "days": "7"})
    assert response.status_code == 422
    assert "no longer holds" in response.content.decode()
    assert ada.get(f"/findings/{finding.pk}/").status_code == 200


@pytest.mark.parametrize("url", ["/findings/999/", "/diagnosis/999/", "/clusters/nowhere/contract/"])
def test_what_there_is_not_is_not_found(url: str, ada: Client) -> None:
    assert ada.get(url).status_code == 404


def test_what_waits_to_become_a_finding_is_shown_to_nobody(ada: Client, healthy: Cluster) -> None:
    healthy.pools.filter(name="gpu-01").update(complete=False)
    look(healthy)
    waiting = Finding.objects.get()
    assert ada.get(f"/findings/{waiting.pk}/").status_code == 404
    assert "Nothing to be looked at" in ada.get("/findings/?state=new").content.decode()


def test_the_list_says_what_cannot_be_checked(ada: Client, finding: Finding, healthy: Cluster) -> None:
    healthy.streams.filter(resource="resourceslices").update(state="not-permitted")
    look(healthy, after=MINUTE)
    assert "cannot be made now" in ada.get("/findings/").content.decode()
    assert "resourceslices are not observed" in ada.get("/findings/checks/").content.decode()
    assert "nobody can say whether it still holds" in ada.get(f"/findings/{finding.pk}/").content.decode()


def test_a_link_leads_only_where_something_is(ada: Client, finding: Finding, healthy: Cluster) -> None:
    device = Device.objects.get(node_name="gpu-02")
    Device.objects.filter(pk=device.pk).delete()
    assert f"/devices/{device.pk}/" not in ada.get("/findings/?state=live").content.decode()


# --- diagnosis tasks ---------------------------------------------------------------------------------


def test_a_task_goes_from_open_to_done(ada: Client, finding: Finding, cast: Cast) -> None:
    task = DiagnosisTask.objects.get()
    url = f"/diagnosis/{task.pk}/"
    assert url in ada.get("/diagnosis/").content.decode()
    assert ada.post(url, {"state": "in-work", "owner": "", "note": ""}).status_code == 303
    task.refresh_from_db()
    assert task.owner == cast.administrator  # whoever begins has it
    ada.post(url, {"state": "done", "owner": "anouk", "note": "reseated the card"})
    task.refresh_from_db()
    assert task.done_at is not None
    assert url not in ada.get("/diagnosis/").content.decode()
    assert url in ada.get("/diagnosis/?state=done").content.decode()
    assert "reseated the card" in ada.get(url).content.decode()
    assert AuditEntry.objects.filter(action="diagnosis.change").count() == 2


@pytest.mark.parametrize(
    "data",
    [
        {"state": "lost", "note": "kept text"},
        {"state": "open", "owner": "mina", "note": "kept text"},
        {"state": "open", "owner": "nobody", "note": "kept text"},
        {"note": "kept text"},
    ],
    ids=str,
)
def test_a_task_refuses_what_makes_no_sense(data: dict[str, str], ada: Client, finding: Finding) -> None:
    task = DiagnosisTask.objects.get()
    response = ada.post(f"/diagnosis/{task.pk}/", data)
    assert response.status_code == 422
    assert "kept text" in response.content.decode()
    task.refresh_from_db()
    assert (task.state, task.note) == ("open", "")


def test_a_done_task_is_not_opened_again_beside_its_successor(
    ada: Client, finding: Finding, healthy: Cluster
) -> None:
    task = DiagnosisTask.objects.get()
    ada.post(f"/diagnosis/{task.pk}/", {"state": "done", "note": ""})
    Device.objects.update(taints=[])
    look(healthy, after=MINUTE)
    Device.objects.update(taints=[XID])
    look(healthy, after=2 * MINUTE)
    response = ada.post(f"/diagnosis/{task.pk}/", {"state": "open", "note": ""})
    assert response.status_code == 422
    assert "a later task is about it" in response.content.decode()


# --- cost and languages ------------------------------------------------------------------------------


def test_the_list_takes_the_same_queries_whatever_is_on_it(ada: Client, healthy: Cluster) -> None:
    def count() -> int:
        ada.get("/findings/?state=live")
        with CaptureQueriesContext(connection) as captured:
            ada.get("/findings/?state=live")
        return len(captured)

    devices = list(Device.objects.all())
    Device.objects.filter(pk=devices[0].pk).update(taints=[XID])
    hold(devices[0], namespace="a", claim="one", at=timezone.now())
    look(healthy)
    look(healthy, after=timedelta(minutes=45))
    few = count()
    Device.objects.update(taints=[XID])
    for n in range(5):
        hold(devices[1], namespace="b", claim=f"c-{n}", at=timezone.now())
    look(healthy, after=timedelta(minutes=46))
    look(healthy, after=timedelta(minutes=90))
    assert len(Finding.objects.filter(opened_at__isnull=False)) > 5
    assert count() == few


def test_in_chinese(cast: Cast, finding: Finding) -> None:
    cast.administrator.language = "zh-hans"
    cast.administrator.save()
    text = signed_in(cast.administrator).get("/findings/").content.decode()
    assert "健康故障" in text
