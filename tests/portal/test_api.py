"""The base of the REST API: tokens, scopes, problem documents, cursor pages."""

from datetime import timedelta
from typing import Any, ClassVar

import pytest
import time_machine
from django.test import Client
from django.urls import include, path
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.test import APIClient

from portal.accounts.models import ApiToken, Project, User
from portal.accounts.tokens import issue_token
from portal.api import ApiListView, ApiView, Problem, Scope
from portal.rest_defaults import MAX_BODY_BYTES
from tests.cast import Cast

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.portal.test_api")]


class _Ask(serializers.Serializer[Any]):
    count = serializers.IntegerField(min_value=1)
    tags = serializers.ListField(child=serializers.CharField(max_length=3), required=False)
    choice = serializers.ChoiceField(["one", "two"], required=False)


class _Row(serializers.ModelSerializer[Project]):
    class Meta:
        model = Project
        fields = ("slug",)


class Read(ApiView):
    required_scope = Scope.INVENTORY

    def get(self, _request: Request) -> Response:
        return Response({"who": self.person.username})

    def post(self, request: Request) -> Response:
        ask = _Ask(data=request.data)
        ask.is_valid(raise_exception=True)
        if ask.validated_data["count"] == 13:
            raise Problem("Thirteen is too many.", code="too_many", field="count", limit=12)
        if ask.validated_data["count"] == 14:
            raise Problem("It changed meanwhile.", code="conflict", status_code=409)
        return Response(ask.validated_data, status=201)


class WithoutScope(ApiView):
    def get(self, _request: Request) -> Response:
        return Response({})


class Rows(ApiListView):
    required_scope = Scope.INVENTORY
    queryset = Project.objects.all()
    serializer_class = _Row
    ordering: ClassVar[tuple[str, ...]] = ("slug",)


class Gone(ApiView):
    required_scope = Scope.INVENTORY

    def get(self, request: Request) -> Response:
        from portal.access import get_project_or_404

        return Response(str(get_project_or_404(self.person, request.query_params["slug"], for_write=True)))


urlpatterns = [
    path("read/", Read.as_view()),
    path("scopeless/", WithoutScope.as_view()),
    path("rows/", Rows.as_view()),
    path("project/", Gone.as_view()),
    path("", include("portal.urls")),
]


def bearer(user: User, *scopes: str, days: int = 1) -> tuple[APIClient, ApiToken]:
    token, plain = issue_token(
        user=user,
        name="n",
        scopes=scopes or ["inventory", "administration"],
        lifetime=timedelta(days=days),
        now=timezone.now(),
    )
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {plain}")
    return client, token


def test_a_token_with_the_scope_reads_as_its_owner(cast: Cast) -> None:
    client, _token = bearer(cast.member)

    assert client.get("/read/").json() == {"who": "mina"}


def test_a_token_without_the_scope_is_refused_by_name(cast: Cast) -> None:
    client, _token = bearer(cast.member, "chargeback")

    response = client.get("/read/")

    assert response.status_code == 403
    assert response.json()["code"] == "scope_missing"
    assert "inventory" in response.json()["detail"]


def test_a_token_for_reading_changes_nothing(cast: Cast) -> None:
    client, _token = bearer(cast.administrator, "inventory")

    response = client.post("/read/", {"count": 1}, format="json")

    assert response.status_code == 403
    assert "administration" in response.json()["detail"]


def test_a_view_that_names_no_scope_admits_no_token(cast: Cast) -> None:
    client, _token = bearer(cast.member, *ApiToken.Scope.values)

    assert client.get("/scopeless/").status_code == 403


def test_nobody_gets_401_and_how_to_sign_in(cast: Cast) -> None:
    response = APIClient().get("/read/")

    assert response.status_code == 401
    assert response["WWW-Authenticate"].startswith("Bearer")
    assert response["Content-Type"] == "application/problem+json"
    assert response.json()["code"] == "not_authenticated"


@pytest.mark.parametrize(
    "header", ["Bearer", "Bearer a b", "Bearer cdesk_0000", "Bearer ключ", "Bearer " + "x" * 5000]
)
def test_what_is_no_token_is_refused(cast: Cast, header: str) -> None:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=header.encode().decode("latin-1"))

    assert client.get("/read/").status_code == 401


def test_an_expired_token_is_refused_and_stays_listed(cast: Cast) -> None:
    client, token = bearer(cast.member)

    with time_machine.travel(timezone.now() + timedelta(days=2)):
        response = client.get("/read/")

    assert response.status_code == 401
    assert response.json()["code"] == "token_expired"
    assert ApiToken.objects.filter(pk=token.pk).exists()


def test_another_persons_expired_token_does_not_stand_in_the_way(cast: Cast) -> None:
    client, _token = bearer(cast.member, days=9)
    bearer(cast.member, days=1)

    with time_machine.travel(timezone.now() + timedelta(days=2)):
        assert client.get("/read/").status_code == 200


def test_a_revoked_token_is_unknown(cast: Cast) -> None:
    client, token = bearer(cast.member)
    token.delete()

    assert client.get("/read/").json()["code"] == "token_unknown"


def test_the_token_of_a_person_who_left_is_refused(cast: Cast) -> None:
    client, _token = bearer(cast.member)
    cast.member.is_active = False
    cast.member.save()

    assert client.get("/read/").status_code == 401


def test_last_use_is_kept_to_the_minute(cast: Cast) -> None:
    client, token = bearer(cast.member)
    start = timezone.now()
    seen = []
    for seconds in (0, 30, 61):
        with time_machine.travel(start + timedelta(seconds=seconds), tick=False):
            client.get("/read/")
        token.refresh_from_db()
        seen.append(token.last_used_at)

    assert seen == [start, start, start + timedelta(seconds=61)]


def test_a_session_reads_but_writes_only_with_the_csrf_token(cast: Cast) -> None:
    client = APIClient(enforce_csrf_checks=True)
    client.force_login(cast.member)

    assert client.get("/read/").status_code == 200
    assert client.post("/read/", {"count": 1}, format="json").status_code == 403


def test_bad_fields_are_named_one_by_one(cast: Cast) -> None:
    client, _token = bearer(cast.member)

    response = client.post("/read/", {"count": 0, "tags": ["ok", "too long"]}, format="json")

    assert response.status_code == 400
    problem = response.json()
    assert (problem["status"], problem["code"]) == (400, "invalid")
    assert [(e["field"], e["code"]) for e in problem["errors"]] == [
        ("count", "min_value"),
        ("tags.1", "max_length"),
    ]


def test_a_domain_error_keeps_its_code_field_and_facts(cast: Cast) -> None:
    client, _token = bearer(cast.member)

    problem = client.post("/read/", {"count": 13}, format="json")

    assert problem.status_code == 422
    assert problem.json() == {
        "type": "about:blank",
        "title": "Cannot be done",
        "status": 422,
        "code": "too_many",
        "detail": "Thirteen is too many.",
        "limit": 12,
        "errors": [{"field": "count", "message": "Thirteen is too many.", "code": "too_many"}],
    }
    assert client.post("/read/", {"count": 14}, format="json").status_code == 409


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b'{"count": NaN}', "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b"[1]", "application/json", 400),
        (b"count=1", "application/x-www-form-urlencoded", 415),
        (b" " * (MAX_BODY_BYTES + 1), "application/json", 413),
    ],
)
def test_bodies_that_are_no_good(cast: Cast, body: bytes, kind: str, status: int) -> None:
    client, _token = bearer(cast.member)

    response = client.generic("POST", "/read/", body, content_type=kind)  # type: ignore[arg-type] # bytes are fine

    assert response.status_code == status
    assert response["Content-Type"] == "application/problem+json"


def test_a_stranger_gets_404_and_a_reader_403(cast: Cast) -> None:
    stranger, _token = bearer(cast.stranger)
    auditor, _token = bearer(cast.auditor)

    assert stranger.get("/project/?slug=tides").json()["code"] == "not_found"
    assert auditor.get("/project/?slug=tides").status_code == 403


def test_lists_are_paged_by_cursor_to_the_end(cast: Cast) -> None:
    client, _token = bearer(cast.member)
    url, slugs = "/rows/?limit=1", []
    while url:
        page = client.get(url).json()
        slugs += [row["slug"] for row in page["results"]]
        url = page["next"]

    assert slugs == ["glaciers", "tides"]


@pytest.mark.urls("portal.urls")
@pytest.mark.parametrize("path", ["/api/v1/nothing/", "/api/v1/requests/abc/", "/api/v2/"])
def test_an_address_that_is_not_there_is_a_problem_document(cast: Cast, path: str) -> None:
    client, _token = bearer(cast.member)

    response = client.get(path)

    assert response.status_code == 404
    assert response["Content-Type"] == "application/problem+json"
    assert response.json()["code"] == "not_found"


@pytest.mark.urls("portal.urls")
def test_a_defect_is_a_problem_document_too(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    client, _token = bearer(cast.member)
    client.raise_request_exception = False
    monkeypatch.setattr("inventory.api.NodeListView.get_queryset", None)

    response = client.get("/api/v1/nodes/")

    assert (response.status_code, response.json()["status"]) == (500, 500)
    assert response["Content-Type"] == "application/problem+json"


def test_a_method_that_is_not_there_is_a_problem_document_too(cast: Cast) -> None:
    client, _token = bearer(cast.member)

    assert client.delete("/read/").json()["status"] == 405


def test_errors_speak_the_callers_language(cast: Cast) -> None:
    client, _token = bearer(cast.member)

    problem = client.delete("/read/", headers={"Accept-Language": "zh-CN"}).json()

    assert problem["title"] == "不允许的方法"


def test_the_schema_is_openapi_31_and_names_scopes(client: Client, cast: Cast) -> None:
    client.force_login(cast.member)

    schema = client.get("/api/schema/?format=json").json()

    assert schema["openapi"].startswith("3.1")
    assert schema["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert all(
        operation.get("x-scope") in ApiToken.Scope.values
        for name, item in schema["paths"].items()
        # What nodes report is no person's call: it takes the node's own token.
        if name.startswith("/api/v1/") and not name.endswith("/reports/")
        for operation in item.values()
        if isinstance(operation, dict)
    )


def test_the_schema_needs_a_sign_in() -> None:
    response = APIClient().get("/api/schema/")

    assert response.status_code == 401


def test_half_a_character_comes_back_as_a_problem_and_breaks_nothing(cast: Cast) -> None:
    client, _token = bearer(cast.member)
    body = b'{"count": 1, "tags": ["ok"], "choice": "\\ud800"}'

    response = client.generic("POST", "/read/", body, content_type="application/json")  # type: ignore[arg-type] # bytes are fine

    assert response.status_code == 400
    (error,) = response.json()["errors"]
    assert error["field"] == "choice"
    assert "\ufffd" in error["message"]
