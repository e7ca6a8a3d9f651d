"""Who may see and do what: the table of `portal.access`, row by row."""

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.test import RequestFactory

from portal import access
from portal.accounts.models import Project
from tests.cast import NOW, Cast

pytestmark = pytest.mark.django_db

# role: sees the project, sees its people, works in it, leads it
TABLE = {
    "member": (True, True, True, False),
    "lead": (True, True, True, True),
    "stranger": (False, False, False, False),
    "finance": (True, False, False, False),
    "auditor": (True, True, False, False),
    "administrator": (True, True, True, True),
}


@pytest.mark.parametrize("role", TABLE)
def test_the_table(cast: Cast, role: str) -> None:
    user, project = getattr(cast, role), cast.project

    assert (
        access.may_see(user, project),
        access.may_see_details(user, project),
        access.may_work_in(user, project),
        access.may_lead(user, project),
    ) == TABLE[role]


@pytest.mark.parametrize("role", TABLE)
def test_querysets_agree_with_the_questions(cast: Cast, role: str) -> None:
    user = getattr(cast, role)
    sees, details, works, _leads = TABLE[role]

    assert Project.objects.visible_to(user).filter(slug="tides").exists() is sees
    assert Project.objects.detailed_to(user).filter(slug="tides").exists() is details
    assert Project.objects.workable_by(user).filter(slug="tides").exists() is works


def test_a_stranger_gets_404_and_a_reader_403(cast: Cast) -> None:
    with pytest.raises(Http404):
        access.get_project_or_404(cast.stranger, "tides")
    with pytest.raises(Http404):
        access.get_project_or_404(cast.member, "no-such-project")
    with pytest.raises(PermissionDenied):
        access.get_project_or_404(cast.auditor, "tides", for_write=True)
    with pytest.raises(PermissionDenied):
        access.get_project_or_404(cast.finance, "tides", details=True)
    with pytest.raises(PermissionDenied):
        access.get_project_or_404(cast.member, "tides", for_lead=True)
    assert access.get_project_or_404(cast.lead, "tides", for_write=True, for_lead=True) == cast.project


def test_what_was_fetched_is_judged_the_same(cast: Cast) -> None:
    with pytest.raises(Http404):
        access.authorise(cast.stranger, cast.project)
    with pytest.raises(PermissionDenied):
        access.authorise(cast.finance, cast.project, details=True)
    access.authorise(cast.member, cast.project, details=True, for_write=True)


def test_an_auditor_changes_nothing_whatever_else_they_are(cast: Cast) -> None:
    cast.auditor.is_administrator = True

    assert not access.may_administer(cast.auditor)
    assert not access.may_work_in(cast.auditor, cast.project)
    assert not access.may_lead(cast.auditor, cast.project)


def test_nobody_works_in_an_archived_project(cast: Cast) -> None:
    cast.project.archived_at = NOW
    cast.project.save()

    assert not access.may_work_in(cast.member, cast.project)
    assert not Project.objects.workable_by(cast.member).exists()
    assert access.may_see(cast.member, cast.project)


def test_a_person_who_left_sees_nothing(cast: Cast) -> None:
    cast.administrator.is_active = cast.member.is_active = False

    assert not access.may_see(cast.administrator, cast.project)
    assert not access.may_see(cast.member, cast.project)
    assert not Project.objects.visible_to(cast.administrator).exists()


@pytest.mark.parametrize(
    ("guard", "allowed"),
    [
        (access.require_administrator, {"administrator"}),
        (access.require_reader_of_everything, {"administrator", "auditor"}),
    ],
)
def test_guards_of_views(cast: Cast, guard: object, allowed: set[str]) -> None:
    def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse("in")

    guarded = guard(view)  # type: ignore[operator] # one of the two decorators
    for role in TABLE:
        request = RequestFactory().get("/")
        request.user = getattr(cast, role)
        if role in allowed:
            assert guarded(request).content == b"in"
        else:
            with pytest.raises(PermissionDenied):
                guarded(request)


def test_nobody_is_no_person() -> None:
    request = RequestFactory().get("/")
    request.user = AnonymousUser()

    with pytest.raises(PermissionDenied):
        access.person(request)
