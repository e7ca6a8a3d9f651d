"""REST of CDI: who may write a report, who may read what."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from drf_spectacular.generators import SchemaGenerator

from inventory.cdi import intake, tokens
from inventory.models import CdiNode, CdiToken
from inventory.node_reports import patience
from portal.accounts.models import User
from portal.accounts.tokens import issue_token
from tests.inventory_cdi.conftest import CLAIM, Issue, report, spec, spec_file
from tests.inventory_pages.conftest import INSIDERS, OUTSIDERS, Cast

INTAKE = "/api/v1/cdi/reports/"
NODES = "/api/v1/cdi/nodes/"
CLAIM_FILE = spec_file(
    f"k8s.gpu.nvidia.com-claim_{CLAIM}.yaml",
    spec(f"{CLAIM}-gpu-0", kind="k8s.gpu.nvidia.com/claim"),
    mode=0o666,
)


def post(plain: str, body: bytes, **headers: Any) -> Any:
    fields = {"HTTP_AUTHORIZATION": f"Bearer {plain}"} if plain else {}
    return Client().post(INTAKE, body, content_type="application/json", **(fields | headers))


def personal(user: User) -> str:
    """The text of a person's API token with the scope for reading."""
    now, lifetime = timezone.now(), timedelta(days=1)
    return issue_token(user=user, name="t", scopes=["inventory"], lifetime=lifetime, now=now)[1]


def get(path: str, plain: str) -> Any:
    return Client().get(path, HTTP_AUTHORIZATION=f"Bearer {plain}")


# --- the intake --------------------------------------------------------------------------------------


def test_a_node_reports_with_its_token(issue: Issue) -> None:
    _token, plain = issue()
    response = post(plain, report(spec_file("a.json", spec("gpu-0"))))
    assert response.status_code == 200
    assert response.json()["changed"] is True
    assert CdiNode.objects.get().files.get().valid


def test_it_needs_no_csrf_token_and_no_session(issue: Issue, cast: Cast) -> None:
    _token, plain = issue()
    client = Client(enforce_csrf_checks=True)
    authorization = f"Bearer {plain}"
    response = client.post(
        INTAKE, report(), content_type="application/json", HTTP_AUTHORIZATION=authorization
    )
    assert response.status_code == 200
    # A person's session opens the intake no more than nothing does.
    assert (
        cast.client("administrator").post(INTAKE, report(), content_type="application/json").status_code
        == 401
    )


@pytest.mark.parametrize("lost", ["", "cdnode_wrong", "cdnode_\u00e9", "a b", "\x00"])
def test_without_a_token_of_a_node_nothing_is_taken(lost: str, issue: Issue) -> None:
    issue()
    response = post(lost.encode().decode("latin-1"), report())
    assert response.status_code == 401
    assert response["WWW-Authenticate"] == "Bearer"
    assert CdiNode.objects.get().received_at is None


def test_revoked_and_expired_tokens_are_told_like_unknown_ones(issue: Issue) -> None:
    token, revoked = issue()
    tokens.revoke(token=token, actor=None, now=timezone.now())
    _token, expired = issue(now=timezone.now() - timedelta(days=2), lifetime=timedelta(days=1))
    answers = {post(plain, report()).content for plain in (revoked, expired, "cdnode_unknown")}
    assert len(answers) == 1
    assert json.loads(answers.pop())["code"] == "token_unknown"


def test_reports_with_a_token_that_has_ended_are_told_at_its_node_since_when_and_why(issue: Issue) -> None:
    token, plain = issue("gpu-01")
    _other, other = issue("gpu-02")
    post(plain, report(node="gpu-01"))
    tokens.revoke(token=token, actor=None, now=timezone.now())
    # What the body says of its node is nobody's business: the token's own is told.
    assert post(plain, report(node="gpu-02")).status_code == 401
    first, second = CdiNode.objects.order_by("name")
    assert (first.refusal, second.refusal, second.refused_at) == ("token_revoked", "", None)
    since = timezone.now() - timedelta(hours=3)
    CdiNode.objects.filter(pk=first.pk).update(refused_at=since, received_at=since, sent_at=since)
    CdiToken.objects.filter(pk=token.pk).update(last_used_at=since)
    post(plain, b"no report at all")
    first.refresh_from_db()
    token.refresh_from_db()
    assert (first.refused_at, first.refusal) == (since, "token_revoked")
    assert token.last_used_at is not None
    assert token.revoked_at is not None
    assert token.last_used_at >= token.revoked_at
    # What is no token of any node leaves no trace at all, and an accepted report ends it.
    post("cdnode_unknown", report(node="gpu-02"))
    assert not CdiNode.objects.get(pk=second.pk).refusal
    assert post(issue("gpu-01")[1], report(node="gpu-01")).status_code == 200
    assert not CdiNode.objects.get(pk=first.pk).refusal
    assert post(other, report(node="gpu-02")).status_code == 200


def test_whoever_has_a_token_that_has_ended_makes_the_desk_write_once(issue: Issue) -> None:
    _token, plain = issue(now=timezone.now() - timedelta(days=2), lifetime=timedelta(days=1))
    post(plain, report())
    assert CdiNode.objects.get().refusal == "token_expired"
    with CaptureQueriesContext(connection) as asked:
        post(plain, report())
    changes = CdiNode.objects.get().refused_at, CdiToken.objects.get().last_used_at
    post(plain, report())
    assert (CdiNode.objects.get().refused_at, CdiToken.objects.get().last_used_at) == changes
    assert not [q for q in asked.captured_queries if 'UPDATE "inventory_cdinode"' in q["sql"]]


def test_two_tokens_that_have_ended_make_the_desk_write_no_more_than_one(issue: Issue) -> None:
    _token, expired = issue(now=timezone.now() - timedelta(days=2), lifetime=timedelta(days=1))
    token, revoked = issue()
    tokens.revoke(token=token, actor=None, now=timezone.now())
    post(expired, report())
    noted = CdiNode.objects.values_list("refused_at", "refusal").get()
    with CaptureQueriesContext(connection) as asked:
        for plain in (revoked, expired, revoked):
            post(plain, report())
    assert CdiNode.objects.values_list("refused_at", "refusal").get() == noted
    assert not [q for q in asked.captured_queries if 'UPDATE "inventory_cdinode"' in q["sql"]]


def test_a_token_that_has_ended_says_nothing_of_a_node_that_reports_with_a_live_one(issue: Issue) -> None:
    now = timezone.now()
    old, ended = issue()
    tokens.revoke(token=old, actor=None, now=now)
    live, plain = issue()
    assert post(plain, report()).status_code == 200
    assert post(ended, report()).status_code == 401
    node = CdiNode.objects.get()
    assert (node.refused_at, node.refusal) == (None, "")
    # Once its reports are overdue, it is the other one that explains it.
    late = now + patience(timedelta(seconds=node.interval_seconds)) + timedelta(minutes=2)
    assert tokens.find(ended, now=late) is None
    node.refresh_from_db()
    assert (node.refused_at, node.refusal) == (late, "token_revoked")
    assert tokens.find(plain, now=late) == live


def test_a_persons_token_does_not_open_the_intake(issue: Issue, cast: Cast) -> None:
    issue()
    assert post(personal(cast.administrator), report()).status_code == 401


def test_a_nodes_token_opens_nothing_else(issue: Issue) -> None:
    _token, plain = issue()
    for path in (NODES, f"{NODES}berlin/gpu-01/", "/api/v1/devices/", "/api/v1/clusters/"):
        assert get(path, plain).status_code == 401


def test_another_nodes_report_is_refused(issue: Issue) -> None:
    issue("gpu-01")
    _token, other = issue("gpu-02")
    response = post(other, report(node="gpu-01"))
    assert (response.status_code, response.json()["code"]) == (403, "wrong_node")
    assert not CdiNode.objects.exclude(received_at=None).exists()


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "malformed"),
        (b"[" * 300_000, 400, "malformed"),
        (b"x" * (intake.MAX_REPORT_BYTES + 1), 413, "too_large"),
        (report(sent_at=timezone.now() + timedelta(days=1)), 422, "clock_ahead"),
        (report(sent_at=timezone.now() - timedelta(days=1)), 422, "clock_behind"),
    ],
)
def test_refusals_are_problem_documents(issue: Issue, body: bytes, status: int, code: str) -> None:
    _token, plain = issue()
    response = post(plain, body)
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert response["Content-Type"] == "application/problem+json"


def test_a_form_is_no_report(issue: Issue) -> None:
    _token, plain = issue()
    response = Client().post(INTAKE, {"format": "1"}, HTTP_AUTHORIZATION=f"Bearer {plain}")
    assert response.status_code == 415


def test_reports_without_pause_are_slowed_down(issue: Issue) -> None:
    _token, plain = issue()
    assert post(plain, report()).status_code == 200
    response = post(plain, report())
    assert (response.status_code, response.json()["code"]) == (429, "too_often")
    assert int(response["Retry-After"]) >= 1


# --- reading -----------------------------------------------------------------------------------------


@pytest.fixture
def reported(token: CdiToken) -> CdiNode:
    """gpu-01 with a base spec and a claim spec that anybody may write."""
    now = timezone.now()
    body = report(spec_file("base.json", spec("gpu-0"), mode=0o666), CLAIM_FILE, sent_at=now)
    return intake.accept(token=token, body=body, now=now).node


@pytest.mark.parametrize("role", [*INSIDERS, *OUTSIDERS])
def test_who_reads_what(role: str, cast: Cast, reported: CdiNode) -> None:
    found = get(f"{NODES}berlin/gpu-01/", personal(getattr(cast, role))).json()
    everything = role in {"administrator", "auditor"}
    assert (found["state"], found["node"], found["cluster"]) == ("drift", "gpu-01", "berlin")
    assert [file["path"] for file in found["files"]] == [
        "/var/run/cdi/base.json",
        *([f"/var/run/cdi/{CLAIM_FILE['name']}"] if everything else []),
    ]
    assert found["files"][0]["devices"] == [
        {"name": "gpu-0", "edits": {"device_nodes": ["/dev/gpu-0"]} if everything else {}}
    ]
    assert (CLAIM in json.dumps(found)) == everything
    codes = [finding["code"] for finding in found["findings"]]
    assert codes.count("writable") == (2 if everything else 1)


def test_the_list_is_narrowed_and_paged(issue: Issue, cast: Cast) -> None:
    for number in range(3):
        issue(f"gpu-0{number}")
    plain = personal(cast.owner)
    assert [n["node"] for n in get(NODES, plain).json()["results"]] == ["gpu-00", "gpu-01", "gpu-02"]
    assert [n["node"] for n in get(f"{NODES}?q=-02&cluster=berlin", plain).json()["results"]] == ["gpu-02"]
    assert get(f"{NODES}?cluster=paris", plain).json()["results"] == []
    page = get(f"{NODES}?limit=2", plain).json()
    assert (len(page["results"]), page["next"] is None) == (2, False)
    assert page["results"][0]["why_unknown"] == "never-reported"


@pytest.mark.parametrize("path", [NODES, "/cdi/"])
def test_queries_do_not_grow_with_the_nodes(path: str, issue: Issue, cast: Cast) -> None:
    client = cast.client("administrator")
    counts = []
    for first, last in ((0, 2), (2, 12)):
        for number in range(first, last):
            token, _plain = issue(f"gpu-{number:02d}")
            now = timezone.now()
            body = report(spec_file("a.json", spec("gpu-0")), CLAIM_FILE, node=token.node.name, sent_at=now)
            intake.accept(token=token, body=body, now=now)
        client.get(path)
        with CaptureQueriesContext(connection) as captured:
            assert client.get(path).status_code == 200
        counts.append(len(captured))
    assert counts[0] == counts[1] <= 30


def test_the_schema_names_both_ways_to_sign_in() -> None:
    schema = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call] # untyped
    assert schema["paths"][INTAKE]["post"]["security"] == [{"nodeToken": []}]
    assert schema["paths"][NODES]["get"]["x-scope"] == "inventory"
    assert "nodeToken" in schema["components"]["securitySchemes"]
