"""Pages of CDI: everybody sees the state, administrators issue and revoke tokens."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from inventory.cdi import intake, tokens
from inventory.models import CdiNode, CdiToken, Cluster
from portal.accounts.models import AuditEntry
from tests.inventory_cdi.conftest import CLAIM, Issue, fresh, report, spec, spec_file
from tests.inventory_pages.conftest import INSIDERS, OUTSIDERS, Cast
from tests.inventory_pages.factories import make_cluster, make_device, make_node

NODE = "/cdi/nodes/berlin/gpu-01/"
CLAIM_FILE = f"k8s.gpu.nvidia.com-claim_{CLAIM}.yaml"


def page(cast: Cast, role: str, path: str) -> str:
    response = cast.client(role).get(path)
    assert response.status_code == 200
    return response.content.decode()


def text(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def accept(token: CdiToken, *files: dict[str, Any], **fields: Any) -> CdiNode:
    now = timezone.now()
    return intake.accept(token=token, body=report(*files, sent_at=now, **fields), now=now).node


@pytest.fixture
def reported(token: CdiToken) -> CdiNode:
    return accept(
        token,
        spec_file("base.json", spec("gpu-0"), mode=0o666),
        spec_file("broken.yaml", "kind: <b>bold</b>\n"),
        spec_file(CLAIM_FILE, spec(f"{CLAIM}-gpu-0", kind="k8s.gpu.nvidia.com/claim")),
    )


@pytest.mark.parametrize("role", [*INSIDERS, *OUTSIDERS])
def test_everybody_sees_what_does_not_fit(role: str, cast: Cast, reported: CdiNode) -> None:
    for path in ("/cdi/", NODE):
        html = page(cast, role, path)
        assert "does not fit" in html
        assert "/var/run/cdi/base.json may be written by others than its owner (mode 0666)." in html


@pytest.mark.parametrize("role", [*INSIDERS, *OUTSIDERS])
def test_claims_and_edits_are_for_administrators_and_auditors(
    role: str, cast: Cast, reported: CdiNode
) -> None:
    html = page(cast, role, NODE)
    everything = role in {"administrator", "auditor"}
    assert (CLAIM in html) == everything
    assert ("/dev/gpu-0" in html) == everything
    assert ("1 spec of a claim is shown to administrators and auditors only." in html) != everything
    assert CLAIM not in page(cast, "stranger", "/cdi/")


def test_what_files_say_is_shown_as_text(cast: Cast, reported: CdiNode) -> None:
    html = page(cast, "administrator", NODE)
    assert "<b>bold" not in html
    assert "&lt;b&gt;bold" in html


def test_a_page_shows_no_more_files_than_can_be_read(cast: Cast, token: CdiToken) -> None:
    accept(token, *(spec_file(f"{number:03d}.json", spec("gpu-0")) for number in range(203)))
    html = page(cast, "owner", NODE)
    assert "3 more files are told over REST." in html
    assert "/var/run/cdi/200.json</span>" not in html


def test_a_node_without_a_report_is_unknown(cast: Cast, token: CdiToken) -> None:
    found = text(page(cast, "stranger", NODE))
    assert "Unknown: no report yet." in found
    assert "in order" not in found


def test_an_overdue_report_is_unknown(cast: Cast, reported: CdiNode) -> None:
    CdiNode.objects.update(received_at=timezone.now() - timedelta(hours=1))
    assert "Unknown: the report is overdue." in text(page(cast, "owner", NODE))
    assert "the report is overdue" in page(cast, "owner", "/cdi/")


def test_a_node_that_fits_is_in_order(cast: Cast, token: CdiToken, cluster: Cluster) -> None:
    make_device(cluster, "gpu-0")
    accept(token, spec_file("base.json", spec("gpu-0")))
    assert "Nothing: the specs fit the published devices" in page(cast, "owner", NODE)


def test_why_reports_are_refused_is_shown(cast: Cast, token: CdiToken) -> None:
    now = timezone.now()
    with pytest.raises(intake.UnableToAccept):
        intake.accept(token=token, body=report(sent_at=now + timedelta(minutes=12)), now=now)
    assert "node&#x27;s clock is minutes ahead" in page(cast, "owner", NODE)


def test_nodes_without_a_collector_are_counted(cast: Cast, token: CdiToken, cluster: Cluster) -> None:
    for name in ("gpu-01", "gpu-02", "cpu-01"):
        make_node(cluster, name)
    make_device(cluster, "gpu-0")
    assert "no collector" not in page(cast, "owner", "/cdi/")
    make_device(cluster, "gpu-0", node="gpu-02")
    assert "1 node with DRA devices has no collector" in page(cast, "owner", "/cdi/")


def test_the_list_is_narrowed_and_an_empty_one_says_what_to_do(cast: Cast, issue: Issue) -> None:
    assert "No node reports" in page(cast, "owner", "/cdi/")
    issue("gpu-01")
    assert "gpu-01" in page(cast, "owner", "/cdi/?q=gpu")
    assert "No node matches" in page(cast, "owner", "/cdi/?q=tpu&cluster=%00")


def test_the_nodes_page_leads_there(cast: Cast, cluster: Cluster, reported: CdiNode) -> None:
    make_node(cluster, "gpu-01")
    make_node(cluster, "gpu-02")
    assert NODE in page(cast, "owner", "/nodes/berlin/gpu-01/")
    assert "/cdi/nodes/" not in page(cast, "owner", "/nodes/berlin/gpu-02/")
    assert "/nodes/berlin/gpu-01/" in page(cast, "owner", NODE)


def test_a_node_that_nobody_knows_is_not_found(cast: Cast, token: CdiToken) -> None:
    assert cast.client("administrator").get("/cdi/nodes/berlin/gpu-09/").status_code == 404
    assert cast.client("administrator").get("/cdi/nodes/paris/gpu-01/").status_code == 404


def test_strangers_to_the_portal_are_sent_to_sign_in(cast: Cast, token: CdiToken) -> None:
    for path in ("/cdi/", NODE, "/cdi/token/"):
        assert cast.client("anonymous").get(path).status_code == 302


# --- tokens ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", [role for role in [*INSIDERS, *OUTSIDERS] if role != "administrator"])
def test_only_administrators_see_and_issue_tokens(role: str, cast: Cast, token: CdiToken) -> None:
    client = cast.client(role)
    asked = {"cluster": "berlin", "node": "gpu-01", "lifetime": "365"}
    assert client.get("/cdi/token/").status_code == 403
    assert client.post("/cdi/token/", asked).status_code == 403
    assert client.post(f"/cdi/tokens/{token.pk}/revoke/").status_code == 403
    html = page(cast, role, NODE)
    assert token.prefix not in html
    assert "/cdi/token" not in html
    assert CdiToken.objects.get().revoked_at is None


def test_a_token_is_shown_once_and_kept_as_a_digest(cast: Cast, cluster: Cluster) -> None:
    client = cast.client("administrator")
    asked = {"cluster": "berlin", "node": "gpu-01", "lifetime": "30"}
    response = client.post("/cdi/token/", asked)
    found = re.search(rf"{tokens.PREFIX}[\w-]{{43}}", response.content.decode())
    assert found is not None
    assert response["Cache-Control"].startswith("max-age=0, no-cache, no-store")
    token = CdiToken.objects.get()
    assert token.created_by == cast.administrator
    assert token.expires_at - token.created_at == timedelta(days=30)
    assert found[0] not in str(list(CdiToken.objects.values())) + str(list(AuditEntry.objects.values()))
    assert found[0] not in page(cast, "administrator", NODE)
    assert tokens.find(found[0], now=timezone.now()) == token
    entry = AuditEntry.objects.get(action="cdi-token.create")
    assert (entry.actor, entry.target_name) == (cast.administrator, "berlin/gpu-01")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"node": "GPU 1"}, "no name that a node can have"),
        ({"node": ""}, "This field is required"),
        ({"cluster": "paris"}, "Select a valid choice"),
        ({"lifetime": "9999"}, "Select a valid choice"),
    ],
)
def test_what_is_wrong_is_said_beside_it(
    changed: dict[str, str], said: str, cast: Cast, cluster: Cluster
) -> None:
    asked = {"cluster": "berlin", "node": "gpu-01", "lifetime": "30"} | changed
    response = cast.client("administrator").post("/cdi/token/", asked)
    assert response.status_code == 422
    assert said in response.content.decode()
    assert not CdiToken.objects.exists()
    assert not CdiNode.objects.exists()


def test_a_third_live_token_is_refused(cast: Cast, issue: Issue) -> None:
    first, _plain = issue()
    issue()
    with pytest.raises(tokens.UnableToIssueNodeToken, match="2 tokens already"):
        issue()
    tokens.revoke(token=first, actor=cast.administrator, now=timezone.now())
    assert issue()


def test_the_form_is_filled_in_from_the_nodes_page(cast: Cast, token: CdiToken) -> None:
    make_cluster("paris")
    link = re.search(r'href="(/cdi/token/\?[^"]*)"', page(cast, "administrator", NODE))
    assert link is not None
    html = page(cast, "administrator", link[1].replace("&amp;", "&"))
    assert 'value="gpu-01"' in html
    assert re.search(r'<option value="berlin" selected', html)


def test_a_token_is_revoked_after_a_question(cast: Cast, issue: Issue) -> None:
    token, plain = issue()
    client = cast.client("administrator")
    path = f"/cdi/tokens/{token.pk}/revoke/"
    assert "cannot be undone" in client.get(path).content.decode()
    assert tokens.find(plain, now=timezone.now()) is not None
    assert client.post(path)["Location"] == NODE
    assert client.post(path).status_code == 303
    assert tokens.find(plain, now=timezone.now()) is None
    assert AuditEntry.objects.filter(action="cdi-token.revoke").count() == 1
    assert "revoked" in page(cast, "administrator", NODE)
    assert fresh(token).received_at is None


def test_an_expired_token_is_shown_as_such(cast: Cast, issue: Issue) -> None:
    _token, plain = issue(now=timezone.now() - timedelta(days=31), lifetime=timedelta(days=30))
    assert tokens.find(plain, now=timezone.now()) is None
    assert "expired" in page(cast, "administrator", NODE)
