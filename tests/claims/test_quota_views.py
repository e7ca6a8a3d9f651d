"""Pages and REST of quotas: who sees and changes them, and that nothing is saved that was not looked at."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from claims.models import Quota, QuotaObject
from claims.signals import quotas_due
from inventory.models import Cluster
from portal.accounts.models import AuditEntry, Project, User
from tests.claims import catalogue, quotas
from tests.claims.conftest import NOW, Cast
from tests.claims.test_api import JSON, client_of
from tests.claims.test_request_views import signed_in

Kind, Action = Quota.Kind, Quota.Action
LIST, CREATE = reverse("quota-list"), reverse("quota-create")
API = reverse("api-project-quota-list")


@pytest.fixture(autouse=True)
def queued() -> Any:
    """How often the workers were called."""
    calls: list[object] = []

    def listen(**_kwargs: Any) -> None:
        calls.append(None)

    quotas_due.connect(listen)
    yield calls
    quotas_due.disconnect(listen)


def page(answer: Any) -> str:
    return str(answer.content.decode())


def typed(**values: Any) -> dict[str, Any]:
    return {
        "version": "0",
        "project": "protein-folding",
        "flavor": "",
        "kind": "devices",
        "limit": "2",
        "action": "block",
        "note": "As agreed",
        **values,
    }


def looked(client: Client, url: str, values: dict[str, Any]) -> str:
    """What the page that shows the effect wants back."""
    answer = client.post(url, values)
    assert answer.status_code == 200, page(answer)
    return str(answer.context["form"]["looked"].value())


# --- pages ------------------------------------------------------------------------------------------


def test_nothing_is_saved_before_its_effect_was_seen(cast: Cast, project: Project, cluster: Cluster) -> None:
    quotas.asked(project, cluster, count=3)
    client = signed_in(cast.admin)
    answer = client.post(CREATE, typed(step="save"))
    assert (answer.status_code, Quota.objects.count()) == (200, 0)
    assert "Protein folding would be over it at once." in page(answer)
    seen = answer.context["form"]["looked"].value()
    # Changed after it was looked at: shown again.
    answer = client.post(CREATE, typed(step="save", looked=seen, limit="3"))
    assert (answer.status_code, Quota.objects.count()) == (200, 0)
    assert "Protein folding is within it." in page(answer)
    answer = client.post(
        CREATE, typed(step="save", looked=answer.context["form"]["looked"].value(), limit="3")
    )
    quota = Quota.objects.get()
    assert (answer.status_code, answer["Location"]) == (303, reverse("quota-detail", args=[quota.key]))
    assert (quota.limit, quota.action, quota.changed_by, quota.note) == (
        "3",
        "block",
        cast.admin,
        "As agreed",
    )
    entry = AuditEntry.objects.get(action="quota.create")
    assert (entry.actor, entry.project, (entry.after or {})["limit"]) == (cast.admin, project, "3")


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"project": ""}, "project"),
        ({"project": "nobody-knows"}, "project"),
        ({"flavor": "gone"}, "flavor"),
        ({"kind": "pieces"}, "kind"),
        ({"limit": ""}, "limit"),
        ({"limit": "-1"}, "limit"),
        ({"limit": "9" * 400}, "limit"),
        ({"limit": "1\x00"}, "limit"),
        ({"kind": "money", "currency": "euro"}, "currency"),
        ({"kind": "money", "currency": ""}, "currency"),
        ({"action": "explode"}, "action"),
        ({"kind": "memory", "limit": "1Ti", "enforced": "on"}, "enforced"),
        ({"valid_from": "tomorrow"}, "valid_from"),
        ({"valid_from": "2026-03-02", "valid_until": "2026-03-01"}, "valid_until"),
        ({"note": "x" * 501}, "note"),
    ],
)
def test_what_makes_no_sense_is_told_next_to_its_field_and_stays(
    cast: Cast, project: Project, values: dict[str, str], field: str
) -> None:
    answer = signed_in(cast.admin).post(CREATE, typed(**values))
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == [field]
    assert answer.context["form"]["note"].value() == values.get("note", "As agreed")
    assert not Quota.objects.exists()


def test_of_two_who_change_it_the_second_is_told_and_loses_nothing(cast: Cast, project: Project) -> None:
    quota = quotas.quota(project, "2")
    url, client = reverse("quota-edit", args=[quota.key]), signed_in(cast.admin)
    values = {"version": "1", "limit": "5", "action": "notify", "valid_from": "2026-09-01", "note": "mine"}
    seen = looked(client, url, values)
    Quota.objects.filter(pk=quota.pk).update(limit="4", version=2, changed_by=cast.admin)
    answer = client.post(url, values | {"looked": seen, "step": "save"})
    assert answer.status_code == 409
    assert "ada changed it meanwhile" in page(answer)
    assert answer.context["form"]["note"].value() == "mine"
    differs = dict(answer.context["differs"])
    assert (differs["Limit"], differs["When more is asked for"]) == ("4", Action.BLOCK.label)
    seen = looked(client, url, values | {"version": "2"})
    answer = client.post(url, values | {"looked": seen, "step": "save", "version": "2"})
    assert answer.status_code == 303
    quota.refresh_from_db()
    assert (quota.limit, quota.action, quota.version) == ("5", "notify", 3)
    entry = AuditEntry.objects.get(action="quota.change")
    assert ((entry.before or {})["limit"], (entry.after or {})["limit"]) == ("4", "5")


def test_its_times_are_the_readers_and_stay_as_they_are_when_nobody_touches_them(
    cast: Cast, project: Project
) -> None:
    begun = datetime(2026, 8, 31, 22, 0, 5, 123456, tzinfo=UTC)
    quota = quotas.quota(project, "2", valid_from=begun)
    User.objects.filter(pk=cast.admin.pk).update(time_zone="Europe/Berlin")
    url, client = reverse("quota-edit", args=[quota.key]), signed_in(cast.admin)
    told = page(client.get(url))
    assert 'type="datetime-local" name="valid_from" value="2026-09-01T00:00"' in told
    assert "In your time zone, Europe/Berlin." in told
    values = {
        "version": "1", "limit": "3", "action": "block", "valid_from": "2026-09-01T00:00",
        "valid_until": "2999-01-01T00:00",
    }  # fmt: skip
    client.post(url, values | {"looked": looked(client, url, values), "step": "save"})
    quota.refresh_from_db()
    assert (quota.limit, quota.valid_from) == ("3", begun)
    assert quota.valid_until == datetime(2998, 12, 31, 23, tzinfo=UTC)
    entry = AuditEntry.objects.get(action="quota.change")
    assert set(entry.after or {}) == {"limit", "valid_until"}
    # The clocks leave this one out.
    # … this one is there twice, and these are of no year of a form: 1970 begins in 1969 here.
    for typed in ("2026-03-29T02:30", "2026-10-25T02:30", "1970-01-01T00:00", "1999-12-31T23:59"):
        answer = client.post(url, values | {"valid_from": typed})
        assert (answer.status_code, list(answer.context["form"].errors)) == (422, ["valid_from"])


def test_a_minute_sent_by_a_program_is_meant_to_the_letter(cast: Cast, project: Project) -> None:
    quota = quotas.quota(project, "2", valid_from=datetime(2026, 9, 1, 0, 0, 5, tzinfo=UTC))
    body = {"limit": "2", "action": "block", "version": 1, "valid_from": "2026-09-01T00:00"}
    assert client_of(cast.admin).put(f"{API}{quota.key}/", body, content_type=JSON).status_code == 200
    quota.refresh_from_db()
    assert quota.valid_from == datetime(2026, 9, 1, tzinfo=UTC)


def test_what_a_quota_is_about_does_not_change(cast: Cast, project: Project, other_project: Project) -> None:
    quota = quotas.quota(project, "2")
    url = reverse("quota-edit", args=[quota.key])
    values = {
        "version": "1",
        "limit": "2",
        "action": "block",
        "project": other_project.slug,
        "kind": "memory",
    }
    answer = signed_in(cast.admin).post(url, values)
    assert answer.status_code == 422
    quota.refresh_from_db()
    assert (quota.project, quota.kind) == (project, "devices")


def test_it_is_ended_after_a_page_that_says_so_and_stays_in_the_list(
    cast: Cast, project: Project, queued: list[object], django_capture_on_commit_callbacks: Any
) -> None:
    quota = quotas.quota(project, "2")
    url, client = reverse("quota-end", args=[quota.key]), signed_in(cast.admin)
    assert client.get(url).status_code == 200
    with django_capture_on_commit_callbacks(execute=True):
        assert client.post(url)["Location"] == LIST
    assert queued
    quota.refresh_from_db()
    assert quota.valid_until is not None
    assert "1 that ended" in page(client.get(LIST))
    assert AuditEntry.objects.filter(action="quota.end").count() == 1
    # Harmless once more.
    client.post(url)
    assert AuditEntry.objects.filter(action="quota.end").count() == 1


@pytest.mark.parametrize(
    ("who", "list_says", "detail"),
    [
        ("owner", "Protein folding", 200), ("lead", "Protein folding", 200), ("stranger", "No quota", 404),
        ("finance", "Protein folding", 200), ("auditor", "Protein folding", 200),
    ],
)  # fmt: skip
def test_members_see_how_their_project_stands_and_change_nothing(  # noqa: PLR0917 - fixtures and cases
    cast: Cast, project: Project, cluster: Cluster, who: str, list_says: str, detail: int
) -> None:
    request = quotas.asked(project, cluster)
    quota = quotas.quota(project, "2")
    client = signed_in(getattr(cast, who))
    assert list_says in page(client.get(LIST))
    told = client.get(reverse("quota-detail", args=[quota.key]))
    assert told.status_code == detail
    if detail == 200:
        # Finance sees the numbers, and nobody's request.
        assert (request.object_name in page(told)) == (who != "finance")
    for name in ("quota-edit", "quota-end"):
        assert client.get(reverse(name, args=[quota.key])).status_code == 403
    assert client.post(CREATE, typed()).status_code == 403


def test_the_projects_page_tells_its_quotas(cast: Cast, project: Project, cluster: Cluster) -> None:
    quotas.asked(project, cluster)
    quotas.quota(project, "8")
    told = page(signed_in(cast.owner).get(reverse("project-detail", args=[project.slug])))
    assert "7 devices left" in told
    assert reverse("quota-list") + "?project=protein-folding" in told


def test_a_change_on_the_cluster_is_shown_and_written_again_only_by_an_administrator(
    cast: Cast, project: Project, cluster: Cluster, queued: list[object]
) -> None:
    quota = quotas.quota(project, "2", enforced=True)
    row = QuotaObject.objects.create(
        quota=quota, project=project, cluster=cluster, namespace="protein-folding", name="claimdesk-quota-x",
        wanted={"h100.deviceclass.resource.k8s.io/devices": "2"}, written={"x": "2"}, state="drift",
        message="h100.deviceclass.resource.k8s.io/devices: 9",
    )  # fmt: skip
    told = page(signed_in(cast.owner).get(reverse("quota-detail", args=[quota.key])))
    assert "There instead: h100.deviceclass.resource.k8s.io/devices: 9" in told
    url = reverse("quota-object-restore", args=[quota.key, row.pk])
    assert signed_in(cast.owner).post(url).status_code == 403
    assert signed_in(cast.admin).post(url).status_code == 303
    row.refresh_from_db()
    assert (row.state, row.written) == ("due", {})
    assert row.due_at is not None
    assert queued
    restored = AuditEntry.objects.get(action="quota.restore")
    assert (restored.after or {})["namespace"] == "protein-folding"


# --- REST -------------------------------------------------------------------------------------------


def sent(**values: Any) -> dict[str, Any]:
    return {"project": "protein-folding", "kind": "devices", "limit": "2", "action": "block", **values}


def test_rest_makes_changes_and_ends_a_quota(cast: Cast, project: Project, cluster: Cluster) -> None:
    flavor = catalogue.flavor()
    catalogue.placement(flavor, cluster)
    quotas.asked(project, cluster, count=3, flavor=flavor)
    client = client_of(cast.admin)
    effect = client.post(f"{API}effect/", sent(flavor="h100", enforced=True), content_type=JSON)
    assert effect.status_code == 200
    assert effect.json() | {"takers": []} == {
        "holds": True, "over": True, "used": "0", "asked": "3", "left": "0", "takers": [],
        "writes": [{
            "cluster": "main", "namespace": "protein-folding",
            "limits": {"h100.deviceclass.resource.k8s.io/devices": "2"},
        }],
        "not_enforceable": [],
    }  # fmt: skip
    assert not Quota.objects.exists()
    made = client.post(API, sent(flavor="h100", enforced=True), content_type=JSON)
    assert made.status_code == 201
    told = made.json()
    assert (told["limit"], told["used"], told["asked"], told["over"], told["version"]) == (
        "2", "0", "3", True, 1,
    )  # fmt: skip
    url = f"{API}{told['key']}/"
    assert (
        client.put(url, {"limit": "4", "action": "notify", "version": 7}, content_type=JSON).status_code
        == 409
    )
    changed = client.put(url, {"limit": "4", "action": "notify", "version": 1}, content_type=JSON)
    assert (changed.status_code, changed.json()["left"], changed.json()["enforced"]) == (200, "1", False)
    ended = client.post(f"{url}end/")
    assert (ended.status_code, ended.json()["holds"], ended.json()["used"]) == (200, False, None)
    listed = client.get(API, {"holding": "1"}).json()["results"]
    assert listed == []


def test_rest_tells_every_error_at_once_under_its_field(cast: Cast, project: Project) -> None:
    answer = client_of(cast.admin).post(
        API,
        {"project": 7, "kind": ["devices"], "limit": {"a": 1}, "action": None, "note": "\x00"},
        content_type=JSON,
    )
    assert answer.status_code == 400
    assert {error["field"] for error in answer.json()["errors"]} >= {"project", "kind", "action", "note"}
    assert client_of(cast.admin).post(API, [1], content_type=JSON).status_code == 400


@pytest.mark.parametrize(
    ("who", "seen", "takers"),
    [("owner", 200, 1), ("finance", 200, 0), ("auditor", 200, 1), ("stranger", 404, 0)],
)
def test_rest_shows_members_their_use_and_lets_only_administrators_write(  # noqa: PLR0917 - the same
    cast: Cast, project: Project, cluster: Cluster, who: str, seen: int, takers: int
) -> None:
    quotas.asked(project, cluster)
    quota = quotas.quota(project, "2")
    user: User = getattr(cast, who)
    client = client_of(user)
    told = client.get(f"{API}{quota.key}/")
    assert told.status_code == seen
    if seen == 200:
        assert (told.json()["asked"], len(told.json()["takers"])) == ("1", takers)
    assert len(client.get(API).json()["results"]) == (1 if seen == 200 else 0)
    assert client.post(API, sent(), content_type=JSON).status_code == 403
    assert client.post(f"{API}{quota.key}/end/").status_code in (403, 404)


def test_a_quota_that_does_not_hold_yet_has_no_standing(cast: Cast, project: Project) -> None:
    quota = quotas.quota(project, "2", valid_from=NOW + timedelta(days=3650))
    told = client_of(cast.owner).get(f"{API}{quota.key}/").json()
    assert (told["holds"], told["used"], told["left"], told["over"]) == (False, None, None, None)
