"""Who may do what: tokens, the three accounts, and what discovery and reviews tell them."""

import pytest

from portal.demo.auth import Accounts
from portal.demo.journal import NoJournal
from tests.demo.api import CLAIMS, PODS, Api, claim, pod

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def test_an_unknown_token_is_a_401(api: Api) -> None:
    answer = api.call("GET", CLAIMS, user="stolen")
    assert (answer.code, answer.body["reason"], answer.body["message"]) == (
        401,
        "Unauthorized",
        "Unauthorized",
    )


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez"])
def test_health_is_public(api: Api, path: str) -> None:
    answer = api.call("GET", path, user="")
    assert (answer.code, answer.raw) == (200, b"ok")


def test_the_version_is_public(api: Api) -> None:
    assert api.ok("GET", "/version", user="")["minor"] == "36"


def test_without_a_token_nothing_else_is(api: Api) -> None:
    listed = api.call("GET", CLAIMS, user="")
    assert listed.code == 403
    assert listed.body["message"] == (
        'resourceclaims.resource.k8s.io is forbidden: User "system:anonymous" cannot list resource '
        '"resourceclaims" in API group "resource.k8s.io" in the namespace "lab"'
    )
    found = api.call("GET", "/apis", user="")
    assert found.body["message"] == 'forbidden: User "system:anonymous" cannot get path "/apis"'


@pytest.mark.parametrize(
    ("method", "path", "verb"),
    [
        ("POST", CLAIMS, "create"),
        ("PUT", f"{CLAIMS}/one", "update"),
        ("PATCH", f"{CLAIMS}/one", "patch"),
        ("DELETE", f"{CLAIMS}/one", "delete"),
        ("DELETE", CLAIMS, "deletecollection"),
    ],
)
def test_the_reader_reads_only(api: Api, method: str, path: str, verb: str) -> None:
    api.ok("POST", CLAIMS, claim())
    assert api.ok("GET", f"{CLAIMS}/one", user="reader")["kind"] == "ResourceClaim"
    answer = api.call(method, path, claim(), user="reader")
    assert (answer.code, answer.body["reason"]) == (403, "Forbidden")
    assert f'User "reader" cannot {verb} resource "resourceclaims"' in answer.body["message"]


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        (CLAIMS, claim(), 201),
        (PODS, pod(), 201),
        ("/apis/resource.k8s.io/v1/deviceclasses", {"metadata": {"name": "c"}, "spec": {}}, 201),
        ("/api/v1/namespaces/lab/resourcequotas", {"metadata": {"name": "q"}, "spec": {}}, 201),
        ("/api/v1/namespaces", {"metadata": {"name": "n"}}, 403),
        ("/api/v1/nodes", {"metadata": {"name": "n"}}, 403),
        ("/apis/resource.k8s.io/v1/resourceslices", {"metadata": {"name": "s"}}, 403),
    ],
)
def test_the_portal_writes_what_it_is_for(api: Api, path: str, body: object, code: int) -> None:
    assert api.call("POST", path, body, user="portal").code == code


@pytest.mark.parametrize(("method", "part"), [("PUT", "status"), ("PATCH", "status"), ("POST", "binding")])
def test_the_portal_writes_neither_statuses_nor_bindings(api: Api, method: str, part: str) -> None:
    api.ok("POST", PODS, pod())
    answer = api.call(method, f"{PODS}/one/{part}", {}, user="portal")
    assert answer.code == 403
    assert f'resource "pods/{part}"' in answer.body["message"]


def test_the_right_is_checked_before_the_body_is_read(api: Api) -> None:
    assert api.call("POST", CLAIMS, b"{", user="reader").code == 403


@pytest.mark.parametrize(
    ("user", "verb", "allowed"),
    [("portal", "create", True), ("reader", "create", False), ("reader", "list", True)],
)
def test_a_review_tells_an_account_its_rights(api: Api, user: str, verb: str, allowed: bool) -> None:
    attributes = {"group": "resource.k8s.io", "resource": "resourceclaims", "verb": verb, "namespace": "lab"}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    review = api.ok("POST", REVIEWS, body, user=user)
    assert review["status"]["allowed"] is allowed
    assert review["spec"]["resourceAttributes"] == attributes


def test_a_review_that_is_no_review_is_a_400(api: Api) -> None:
    assert api.call("POST", REVIEWS, {"spec": {"resourceAttributes": "all"}}).code == 400
    assert api.call("POST", REVIEWS, []).code == 400


def test_discovery_lists_groups_and_resources(api: Api) -> None:
    assert api.ok("GET", "/api")["versions"] == ["v1"]
    groups = {group["name"]: group for group in api.ok("GET", "/apis")["groups"]}
    dra = groups["resource.k8s.io"]
    assert [item["version"] for item in dra["versions"]] == ["v1", "v1beta2"]
    assert dra["preferredVersion"]["version"] == "v1"
    assert api.ok("GET", "/apis/resource.k8s.io")["name"] == "resource.k8s.io"
    stable = api.ok("GET", "/apis/resource.k8s.io/v1")["resources"]
    names = {"deviceclasses", "resourceclaims", "resourceclaims/status", "resourceclaimtemplates"}
    assert {item["name"] for item in stable} == {*names, "resourceslices"}
    beta = api.ok("GET", "/apis/resource.k8s.io/v1beta2")["resources"]
    assert {item["name"] for item in beta} == {"devicetaintrules", "devicetaintrules/status"}
    assert api.call("GET", "/apis/resource.k8s.io/v1alpha3").code == 404


def test_tokens_are_kept_with_the_data() -> None:
    journal = NoJournal()
    first = Accounts.kept_in(journal)
    assert Accounts.kept_in(journal).tokens == first.tokens
    assert len(set(first.tokens.values())) == 3


def test_the_kubeconfig_has_a_context_for_each_account() -> None:
    config = Accounts({"admin": "a", "reader": "r"}).kubeconfig("http://127.0.0.1:1")
    assert config["current-context"] == "admin"
    assert {item["name"] for item in config["contexts"]} == {"admin", "reader"}
    assert {item["user"]["token"] for item in config["users"]} == {"a", "r"}
