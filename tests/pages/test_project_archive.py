"""Closing a project: nothing new can be asked for, what was stays, and it can be opened again."""

import json

from django.urls import reverse

from claims.asks.judging import projects_for
from inventory.bindings import bind
from portal.accounts.models import AuditEntry, Project
from tests.access.world import make_booking, make_request
from tests.browser.sessions import signed_in
from tests.cast import NOW, Cast
from tests.claims import catalogue
from tests.inventory_pages.factories import make_cluster


def test_an_archived_project_is_no_choice_any_more_and_can_be_opened_again(cast: Cast) -> None:
    client = signed_in(cast.administrator)
    archive, restore = (reverse(name, args=["tides"]) for name in ("project-archive", "project-restore"))
    assert cast.project in projects_for(cast.member)
    client.post(archive)
    client.post(archive)

    assert cast.project not in projects_for(cast.member)
    page = signed_in(cast.member).get(reverse("project-detail", args=["tides"])).content.decode()
    assert "This project is archived" in page
    assert restore not in page
    assert restore in client.get(reverse("project-detail", args=["tides"])).content.decode()
    client.post(restore)
    assert cast.project in projects_for(cast.member)
    actions = AuditEntry.objects.filter(project=cast.project).order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["project.archive", "project.restore"]


def test_before_it_is_archived_the_page_says_what_goes_on(cast: Cast) -> None:
    cluster = make_cluster()
    bind(cluster=cluster, namespace="tides", project=cast.project, actor=cast.administrator, now=NOW)
    make_request(cast, cluster, state="in-use")
    flavor = catalogue.flavor()
    make_booking(cast, flavor, cluster)
    page = signed_in(cast.administrator).get(reverse("project-archive", args=["tides"])).content.decode()

    assert "1 request goes on until its end" in page
    assert "1 booking will not be started." in page
    assert Project.objects.get(slug="tides").archived_at is None


def test_only_administrators_archive_and_it_is_a_post(cast: Cast) -> None:
    path = reverse("project-archive", args=["tides"])

    assert signed_in(cast.lead).post(path).status_code == 403
    assert signed_in(cast.stranger).post(path).status_code == 404
    assert signed_in(cast.administrator).get(reverse("project-restore", args=["tides"])).status_code == 405
    assert Project.objects.get(slug="tides").archived_at is None


def test_programs_archive_and_restore(cast: Cast) -> None:
    client = signed_in(cast.administrator)
    done = client.post(reverse("api-project-archive", args=["tides"]), json.dumps({}), "application/json")
    assert done.json()["archived_at"] is not None
    done = client.post(reverse("api-project-restore", args=["tides"]), json.dumps({}), "application/json")

    assert done.json() == {"slug": "tides", "name": "Tidal models", "archived_at": None}
