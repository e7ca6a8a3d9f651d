"""The same people in every room's tests: who is who is said once."""

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from portal.accounts.models import Membership, Project, User

NOW = datetime(2026, 3, 10, 9, 30, tzinfo=UTC)
PASSWORD = "a long pass phrase"


@dataclass(frozen=True)
class Cast:
    """Two projects and everybody who has something, or nothing, to do with the first."""

    project: Project
    other: Project
    member: User
    teammate: User
    lead: User
    stranger: User
    finance: User
    administrator: User
    auditor: User


def person(username: str, **roles: bool) -> User:
    """A person with a password (hashed cheaply: see `cheap_passwords`)."""
    return User.objects.create_user(
        username, f"{username}@example.org", PASSWORD, first_name=username.title(), **roles
    )


@pytest.fixture(autouse=True)
def cheap_passwords(settings: object) -> None:
    """Hashing must not be what tests wait for."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # type: ignore[attr-defined] # pytest-django's settings


@pytest.fixture
def cast(db: None) -> Cast:
    return make_cast()


def make_cast() -> Cast:
    """The two projects and their people."""
    project = Project.objects.create(slug="tides", name="Tidal models", cost_centre="OC-7", created_at=NOW)
    other = Project.objects.create(slug="glaciers", name="Glacier flow", created_at=NOW)
    cast = Cast(
        project=project,
        other=other,
        member=person("mina"),
        teammate=person("tomas"),
        lead=person("lena"),
        stranger=person("stig"),
        finance=person("fay", is_finance=True),
        administrator=person("anouk", is_administrator=True),
        auditor=person("ada", is_auditor=True),
    )
    roles = [(cast.member, "member"), (cast.teammate, "member"), (cast.lead, "lead")]
    for user, role in roles:
        Membership.objects.create(user=user, project=project, role=role)
    Membership.objects.create(user=cast.stranger, project=other, role="lead")
    return cast
