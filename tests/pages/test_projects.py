"""Projects: who sees the page, and what leads and administrators change on it."""

import pytest
from django.test import Client
from django.utils import timezone

from inventory.models import NamespaceBinding
from portal.accounts.models import AuditEntry, Membership, Project
from tests.cast import Cast
from tests.pages.fleet import cluster, request

pytestmark = pytest.mark.django_db
PAGE = "/projects/tides/"


def membership(cast: Cast, who: str) -> Membership:
    return Membership.objects.get(project=cast.project, user=getattr(cast, who))


@pytest.mark.parametrize(
    ("role", "status", "sees_people"),
    [
        ("member", 200, True),
        ("lead", 200, True),
        ("stranger", 404, False),
        ("finance", 200, False),
        ("auditor", 200, True),
        ("administrator", 200, True),
    ],
)
def test_who_sees_what(client: Client, cast: Cast, role: str, status: int, sees_people: bool) -> None:
    request(cast, purpose="secret plans", requester=cast.teammate)
    client.force_login(getattr(cast, role))

    response = client.get(PAGE)

    assert response.status_code == status
    assert ("Tomas" in response.content.decode()) is sees_people
    assert ("secret plans" in response.content.decode()) is sees_people


def test_the_list_names_only_projects_that_one_may_know(client: Client, cast: Cast) -> None:
    client.force_login(cast.stranger)

    page = client.get("/projects/").content.decode()

    assert "Glacier flow" in page
    assert "Tidal models" not in page


def test_a_lead_adds_a_member_by_address(client: Client, cast: Cast) -> None:
    client.force_login(cast.lead)

    client.post(f"{PAGE}members/", {"username": "STIG@example.org", "role": "member"})

    assert membership(cast, "stranger").role == "member"
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.target_name, entry.actor) == ("member.add", "Stig", cast.lead)
    assert entry.source_ip == "127.0.0.1"


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"username": "nobody", "role": "member"}, "Nobody here has this user name"),
        ({"username": "mina", "role": "member"}, "is a member already"),
        ({"username": "stig", "role": "emperor"}, "not one of the available choices"),
        ({"username": "", "role": "member"}, "This field is required"),
    ],
)
def test_who_cannot_be_added_is_said_beside_the_field_and_kept(
    client: Client, cast: Cast, form: dict[str, str], message: str
) -> None:
    client.force_login(cast.lead)

    response = client.post(f"{PAGE}members/", form)

    assert response.status_code == 422
    assert message in response.content.decode()
    assert f'value="{form["username"]}"' in response.content.decode() or not form["username"]
    assert not AuditEntry.objects.exists()


def test_roles_change_and_the_last_lead_stays(client: Client, cast: Cast) -> None:
    client.force_login(cast.lead)

    client.post(f"{PAGE}members/{membership(cast, 'lead').pk}/role/", {"role": "member"})
    assert membership(cast, "lead").role == "lead"

    client.post(f"{PAGE}members/{membership(cast, 'member').pk}/role/", {"role": "lead"})
    client.post(f"{PAGE}members/{membership(cast, 'lead').pk}/role/", {"role": "member"})

    assert membership(cast, "member").role == "lead"
    assert membership(cast, "lead").role == "member"
    assert [entry.after for entry in AuditEntry.objects.order_by("pk")] == [
        {"role": "lead"},
        {"role": "member"},
    ]


def test_removing_asks_first(client: Client, cast: Cast) -> None:
    client.force_login(cast.lead)
    url = f"{PAGE}members/{membership(cast, 'teammate').pk}/remove/"

    assert "Remove Tomas from Tidal models" in client.get(url).content.decode()
    assert membership(cast, "teammate")

    client.post(url)

    assert not Membership.objects.filter(project=cast.project, user=cast.teammate).exists()
    assert AuditEntry.objects.get().action == "member.remove"


def test_the_last_lead_cannot_be_removed(client: Client, cast: Cast) -> None:
    client.force_login(cast.administrator)

    client.post(f"{PAGE}members/{membership(cast, 'lead').pk}/remove/")

    assert membership(cast, "lead")


def test_a_member_of_another_project_is_not_touched_through_ours(client: Client, cast: Cast) -> None:
    foreign = Membership.objects.get(project=cast.other)
    client.force_login(cast.lead)

    assert client.post(f"{PAGE}members/{foreign.pk}/remove/").status_code == 404
    assert Membership.objects.filter(pk=foreign.pk).exists()


@pytest.mark.parametrize(
    ("role", "status"), [("member", 403), ("finance", 403), ("auditor", 403), ("stranger", 404)]
)
@pytest.mark.parametrize("path", ["members/", "namespaces/"])
def test_others_change_nothing(client: Client, cast: Cast, role: str, status: int, path: str) -> None:
    client.force_login(getattr(cast, role))
    form = {"username": "stig", "role": "member", "cluster": cluster().pk, "namespace": "x"}

    response = client.post(PAGE + path, form)

    # Binding is refused before the project is looked for: an administrator's page does not say what exists.
    assert response.status_code in {status, 403}
    assert not AuditEntry.objects.exists()


def test_an_administrator_makes_a_project(client: Client, cast: Cast) -> None:
    client.force_login(cast.administrator)

    response = client.post(
        "/create-project/", {"name": "Ocean floor", "slug": "ocean-floor", "cost_centre": "OC-9"}
    )

    assert response["Location"] == "/projects/ocean-floor/"
    assert Project.objects.get(slug="ocean-floor").cost_centre == "OC-9"
    assert AuditEntry.objects.get().action == "project.create"


@pytest.mark.parametrize("slug", ["new", "edit", "members", "admin"])
def test_any_short_name_leads_to_its_project(client: Client, cast: Cast, slug: str) -> None:
    client.force_login(cast.administrator)

    made = client.post("/create-project/", {"name": "Ocean floor", "slug": slug, "cost_centre": "OC-9"})

    assert client.get(made["Location"]).context["project"].slug == slug


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"name": "Tidal models", "slug": "new"}, "Another project has this already"),
        ({"name": "New", "slug": "tides"}, "Another project has this already"),
        ({"name": "New", "slug": "not a slug"}, "valid “slug”"),
        ({"name": "x" * 121, "slug": "new"}, "at most 120 characters"),
    ],
)
def test_a_project_that_cannot_be_made_is_explained(
    client: Client, cast: Cast, form: dict[str, str], message: str
) -> None:
    client.force_login(cast.administrator)

    page = client.post("/create-project/", form)

    assert page.status_code == 200
    assert message in page.content.decode()
    assert Project.objects.count() == 2


def test_editing_keeps_the_short_name(client: Client, cast: Cast) -> None:
    client.force_login(cast.administrator)

    client.post(
        f"{PAGE}edit/",
        {"name": "Tides and surges", "slug": "other", "description": "", "cost_centre": "OC-7"},
    )

    project = Project.objects.get(slug="tides")
    assert project.name == "Tides and surges"
    entry = AuditEntry.objects.get()
    assert (entry.before, entry.after) == ({"name": "Tidal models"}, {"name": "Tides and surges"})


def test_a_refused_change_leaves_no_trace(client: Client, cast: Cast) -> None:
    client.force_login(cast.administrator)

    page = client.post(f"{PAGE}edit/", {"name": "Glacier flow", "description": "", "cost_centre": ""})

    assert "Another project has this already" in page.content.decode()
    assert Project.objects.get(slug="tides").name == "Tidal models"


def test_a_namespace_is_bound_and_the_binding_ended(client: Client, cast: Cast) -> None:
    client.force_login(cast.administrator)

    client.post(f"{PAGE}namespaces/", {"cluster": cluster().pk, "namespace": "tides"})
    binding = NamespaceBinding.objects.get()
    assert (binding.project, binding.valid_until) == (cast.project, None)

    url = f"{PAGE}namespaces/{binding.pk}/end/"
    assert "Take tides on harbour" in client.get(url).content.decode()
    client.post(url)

    ended_at = NamespaceBinding.objects.get().valid_until
    assert ended_at is not None
    assert ended_at <= timezone.now()
    assert list(AuditEntry.objects.order_by("pk").values_list("action", flat=True)) == [
        "namespace.bind",
        "namespace.unbind",
    ]


@pytest.mark.parametrize("namespace", ["", "Not_A_Namespace", "x" * 64, "-x"])
def test_what_is_no_namespace_is_refused(client: Client, cast: Cast, namespace: str) -> None:
    client.force_login(cast.administrator)

    response = client.post(f"{PAGE}namespaces/", {"cluster": cluster().pk, "namespace": namespace})

    assert response.status_code == 422
    assert "cd-field-error" in response.content.decode()


def test_a_namespace_of_another_project_is_not_taken(client: Client, cast: Cast) -> None:
    NamespaceBinding.objects.create(
        cluster=cluster(), namespace="ice", project=cast.other, valid_from=timezone.now()
    )
    client.force_login(cast.administrator)

    response = client.post(f"{PAGE}namespaces/", {"cluster": cluster().pk, "namespace": "ice"})

    assert response.status_code == 422
    assert "Glacier flow" in response.content.decode()
