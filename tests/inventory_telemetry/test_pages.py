"""What administrators do about monitoring, by page and by REST, and what everybody reads of it."""

from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from claims.models import Allocation
from claims.readiness import evidence
from claims.readiness.seen import OPEN
from claims.utilisation import folding
from inventory.models import MetricQuery, MetricSource
from inventory.telemetry import configuring, problems, reading, slots
from portal.accounts.models import AuditEntry
from portal.pages.doctor.monitoring_checks import monitoring_checks
from portal.pages.metrics.fleet import FleetMetrics
from tests.inventory_telemetry.conftest import UUIDS, Lab
from tests.inventory_telemetry.rows import make_source, make_use
from tests.inventory_telemetry.servers import Asked, Fake, vector

pytestmark = pytest.mark.django_db
FORM = {"idle_percent": "5", "idle_hours": "0", "keep_days": "60", "enabled": "on"}


def edit(lab: Lab, **values: str) -> Any:
    """With `act` "try" by htmx, as the button does."""
    headers = {"HX-Request": "true"} if values.pop("by", "") == "htmx" else {}
    url = reverse("monitoring-edit", args=["berlin"])
    return lab.client("administrator").post(url, {**FORM, **values}, headers=headers)


def text_of(answer: Any) -> str:
    return " ".join(unescape(answer.content.decode()).split())


def test_what_is_saved_is_asked_and_the_token_is_in_no_page_and_no_record(lab: Lab, server: Fake) -> None:
    assert edit(lab, url=f"{server.url}/api/v1/", token="s3cret").status_code == 303
    source = MetricSource.objects.get()
    assert source.url == server.url
    assert b"s3cret" not in bytes(source.token_encrypted or b"")
    assert reading.address_of(source).token == "s3cret"
    assert source.queries.filter(kind=MetricQuery.Kind.USE).exists()
    assert reading.due(now=timezone.now()) == [source.pk]
    client = lab.client("administrator")
    pages = [client.get(reverse(name, args=["berlin"])) for name in ("monitoring-detail", "monitoring-edit")]
    pages.append(client.get(reverse("api-monitoring", args=["berlin"])))
    for page in pages:
        assert page.status_code == 200
        assert "s3cret" not in page.content.decode()
    assert "s3cret" not in str(list(AuditEntry.objects.values_list("before", "after")))
    # Empty: as it is.
    edit(lab, url=server.url)
    source.refresh_from_db()
    assert reading.address_of(source).token == "s3cret"
    edit(lab, url=server.url, without_token="on")
    source.refresh_from_db()
    assert source.token_encrypted is None


def test_a_token_goes_to_no_other_address(lab: Lab, server: Fake) -> None:
    edit(lab, url=server.url, token="s3cret")
    answer = edit(lab, url="http://elsewhere.example.org")
    assert answer.status_code == 422
    assert "type the token again" in text_of(answer)
    assert MetricSource.objects.get().url == server.url


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("url", ""),
        ("url", "ftp://x.example.org"),
        ("url", "http://"),
        ("url", "http://user:pass@x.example.org"),
        ("url", "http://x.example.org/?a=b"),
        ("url", "http://x.example.org:99999"),
        ("url", "http://x .example.org"),
        ("url", "http://%zz/"),
        ("url", "javascript:alert(1)"),
        ("token", "two words"),
        ("token", "ключ"),
        ("ca", "no PEM"),
        ("label", "a-b"),
        ("label", "cluster"),
        ("label_value", "berlin"),
        ("idle_percent", "0"),
        ("idle_hours", "-1"),
        ("idle_hours", "1e9"),
        ("keep_days", "1"),
        ("keep_days", "99999999999999999999"),
    ],
)
def test_what_is_wrong_is_told_at_its_field_and_nothing_is_saved(lab: Lab, field: str, value: str) -> None:
    answer = edit(lab, **{"url": "https://prometheus.example.org", field: value})
    assert answer.status_code == 422
    assert answer.context["form"].errors
    assert not MetricSource.objects.exists()
    body = {"url": "https://prometheus.example.org"} | {
        {"label": "cluster_label", "label_value": "cluster_value"}.get(field, field): value
    }
    answer = lab.client("administrator").put(
        reverse("api-monitoring", args=["berlin"]), body, content_type="application/json"
    )
    assert answer.status_code == 400
    assert answer.json()["code"] == "invalid"
    assert not MetricSource.objects.exists()


def test_a_trial_says_what_came_back_and_saves_nothing(lab: Lab, server: Fake) -> None:
    def answer(asked: Asked, _handler: Any) -> tuple[int, Any]:
        query = asked.fields["query"]
        if query == "vector(1)":
            return 200, vector(({}, 1))
        if "DCGM" in query:
            return 200, vector(({"UUID": UUIDS[0]}, 37), ({"UUID": "GPU-of-nobody"}, 5))
        if "dra_resource_claims_in_use" in query:
            return 200, vector(({"driver_name": "gpu.nvidia.com"}, 2))
        if "workqueue_depth" in query:
            return 400, {"status": "error", "errorType": "bad_data", "error": "parse error"}
        return 200, vector()

    server.answer = answer
    said = text_of(edit(lab, by="htmx", act="try", url=server.url, token="s3cret"))
    assert "It answers." in said
    assert "2 samples, of 1 device of the mirror." in said
    assert "Drivers: gpu.nvidia.com." in said
    assert "It rejects the query: bad_data: parse error" in said
    assert "No data: no such series." in said
    assert "s3cret" not in said
    assert server.asked[0].headers["Authorization"] == "Bearer s3cret"
    assert not MetricSource.objects.exists()
    # The whole page has the same, and what was typed (but the token).
    whole = edit(lab, act="try", url=server.url, token="s3cret")
    assert whole.status_code == 200
    assert f'value="{server.url}"' in whole.content.decode()
    assert "s3cret" not in whole.content.decode()


def test_a_trial_of_what_is_wrongly_typed_asks_nobody(lab: Lab, server: Fake) -> None:
    answer = edit(lab, by="htmx", act="try", url="ftp://x")
    assert answer.status_code == 200
    assert "It was not asked" in text_of(answer)
    assert server.asked == []


def test_a_trial_of_nobody_names_cause_and_cure(lab: Lab, server: Fake) -> None:
    server.answer = lambda _a, _h: (401, b"")
    answer = lab.client("administrator").post(
        reverse("api-monitoring-try", args=["berlin"]), {"url": server.url}, content_type="application/json"
    )
    (only,) = answer.json()["results"]
    assert only["state"] == "failed"
    assert "401" in only["said"]
    assert "token" in only["cure"]


def test_queries_are_administrators_data(lab: Lab, server: Fake) -> None:
    source = lab.source(server.url, label="cluster", label_value="berlin")
    client = lab.client("administrator")
    add = reverse("monitoring-query-create", args=["berlin"])
    query = {"name": "Queue", "kind": "drivers", "expression": "workqueue_depth", "unit": "number"}
    answer = client.post(add, query)
    assert answer.status_code == 422
    assert "$cluster" in str(answer.context["form"].errors["expression"])
    assert client.post(add, query | {"expression": "workqueue_depth{$cluster}"}).status_code == 303
    added = source.queries.get(name="Queue")
    change = reverse("monitoring-query-edit", args=["berlin", added.pk])
    use = query | {"kind": "use", "expression": "x{$cluster}", "enabled": "on"}
    assert "label" in client.post(change, use).context["form"].errors
    assert client.post(change, use | {"label": "gpu_uuid"}).status_code == 303
    added.refresh_from_db()
    assert (added.kind, added.unit, added.label) == ("use", "percent", "gpu_uuid")
    server.answer = lambda _a, _h: (200, vector(({"gpu_uuid": UUIDS[0]}, 0.5), ({"gpu_uuid": UUIDS[1]}, 130)))
    tried = client.post(change, use | {"label": "gpu_uuid", "act": "try"})
    assert "1 value is not between 0 and 100." in text_of(tried)
    assert server.asked[-1].fields["query"] == 'x{cluster="berlin"}'
    assert client.post(reverse("monitoring-query-remove", args=["berlin", added.pk])).status_code == 303
    assert not source.queries.filter(name="Queue").exists()
    assert AuditEntry.objects.filter(action="monitoring.query").count() == 3


def test_there_is_an_end_to_queries(lab: Lab, server: Fake) -> None:
    source = lab.source(server.url)
    wanted = configuring.WantedQuery(name="One more", expression="up")
    who: dict[str, Any] = {"actor": lab.cast.administrator, "now": timezone.now()}
    for _more in range(configuring.MAX_QUERIES - source.queries.count()):
        configuring.save_query(source=source, wanted=wanted, **who)
    with pytest.raises(configuring.UnableToConfigure):
        configuring.save_query(source=source, wanted=wanted, **who)
    assert source.queries.count() == configuring.MAX_QUERIES


def test_the_cluster_page_tells_by_driver_with_age_and_no_data_as_such(lab: Lab) -> None:
    client = lab.client("member")
    url = reverse("cluster-detail", args=["berlin"])
    assert "What drivers and Kubernetes say" not in text_of(client.get(url))
    make_source(lab.cluster, actor=lab.cast.administrator, now=timezone.now())
    said = text_of(client.get(url))
    assert "gpu-0.example.org" in said
    assert "method_name=NodePrepareResources" in said
    assert "250 ms" in said
    assert "No data, which is not zero: " in said
    # How it is asked is for those who run it.
    assert "prometheus.monitoring" not in said
    told = client.get(reverse("api-driver-metrics", args=["berlin"])).json()
    assert told["configured"]
    assert [row["value"] for row in told["results"]] == [0.25, 1.25]
    assert "Claims that the controller knows" in told["no_data"]


def test_what_is_old_is_called_old(lab: Lab) -> None:
    make_source(lab.cluster, actor=lab.cast.administrator, now=timezone.now() - timedelta(hours=2))
    told = lab.client("member").get(reverse("api-driver-metrics", args=["berlin"])).json()
    assert all(row["stale"] for row in told["results"])


def test_doctor_readiness_and_metrics_tell_how_asking_goes(lab: Lab) -> None:
    now = timezone.now()
    assert list(monitoring_checks(now=now)) == []
    make_source(lab.cluster, actor=lab.cast.administrator, now=now)
    (said,) = monitoring_checks(now=now)
    assert (said.state, "larger than 32 MiB" in said.said, bool(said.cure)) == ("warning", True, True)
    (late,) = monitoring_checks(now=now + timedelta(hours=1))
    assert (late.state, "worker" in late.cure) == ("bad", True)
    lines = [line.text for line in evidence.monitoring(lab.cluster, now).lines]
    assert any("tells how busy 1 devices are" in line for line in lines)
    problem = problems.timed_out(15).problem
    MetricSource.objects.update(problem=problem.as_json(), failures=3)
    (down,) = monitoring_checks(now=now)
    assert (down.state, "15 s" in down.said) == ("bad", True)
    assert evidence.monitoring(lab.cluster, now).verdict == OPEN
    told = {
        sample.name: (sample.labels, sample.value)
        for metric in FleetMetrics(now).collect()
        for sample in metric.samples
        if metric.name.startswith("claimdesk_monitoring")
    }
    assert told["claimdesk_monitoring_failures"] == ({"cluster": "berlin"}, 3)
    assert told["claimdesk_monitoring_query_errors"] == ({"cluster": "berlin", "cause": "too-large"}, 1)


def test_use_is_told_where_people_look_for_it(lab: Lab) -> None:
    now = timezone.now()
    end = slots.floor(now, slots.SLOT)
    start = end - timedelta(hours=2)
    make_source(lab.cluster, actor=lab.cast.administrator, now=now)
    make_use(lab.cluster, UUIDS[0], start=end - timedelta(hours=1), end=end, percent=37)
    device = lab.devices[0]
    allocation = Allocation.objects.create(
        cluster=lab.cluster, namespace="tides", claim_name="harmonics", claim_uid="uid-1", epoch=1,
        driver="gpu.nvidia.com", pool_name="gpu-01", device_name="gpu-0", request_name="gpu",
        hardware_id=UUIDS[0], node_name="gpu-01", started_at=start, start_source="observed",
        project=lab.cast.project,
    )  # fmt: skip
    folding.fold(cluster=lab.cluster)
    member, stranger = lab.client("member"), lab.client("stranger")
    page = text_of(member.get(reverse("device-detail", args=[device.pk])))
    assert "Mean 37 % over 1 h measured of the last 24 h" in page
    assert "no data" in page
    page = text_of(stranger.get(reverse("device-detail", args=[device.pk])))
    assert "37 %" not in page
    history = reverse("history") + "?columns=use"
    assert "37 %" in text_of(member.get(history))
    assert "37 %" not in text_of(stranger.get(history))
    assert "37 % busy: 1 device, 1 h measured" in text_of(
        member.get(reverse("project-detail", args=["tides"]))
    )
    (row,) = member.get(reverse("api-allocation-list"), {"device": "gpu-0"}).json()["results"]
    assert (row["use_mean_percent"], row["use_measured_seconds"]) == (37.0, 3600.0)
    (row,) = stranger.get(reverse("api-allocation-list")).json()["results"]
    assert row["use_mean_percent"] is None
    export: Any = member.get(reverse("history-export"))
    line = b"".join(export.streaming_content).decode().splitlines()[1]
    assert ",37.00,37.00,3600," in line
    told = member.get(reverse("api-device-use", args=[device.pk])).json()
    assert (told["mean_percent"], told["measured_seconds"]) == (37.0, 3600.0)
    assert {hour["mean_percent"] for hour in told["hours"]} == {None, 37.0}
    bad = member.get(reverse("api-device-use", args=[device.pk]), {"from": "2020-01-01"})
    assert bad.status_code == 400
    assert allocation.ended_at is None


def test_without_a_source_no_page_has_anything_more(lab: Lab) -> None:
    page = text_of(lab.client("administrator").get(reverse("device-detail", args=[lab.devices[0].pk])))
    assert "How busy it is" not in page
    told = lab.client("member").get(reverse("api-driver-metrics", args=["berlin"])).json()
    assert (told["configured"], told["results"]) == (False, [])
