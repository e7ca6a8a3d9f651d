"""``manage.py cdi``: tokens from a shell."""

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from inventory.cdi import tokens
from inventory.models import CdiToken, Cluster
from tests.inventory_cdi.conftest import Issue


def run(*arguments: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command("cdi", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_a_token_is_all_that_is_printed(cluster: Cluster) -> None:
    out, err = run("token", "berlin", "gpu-01", "--days", "7")
    token = CdiToken.objects.get()
    # So that it can be piped into a Secret.
    assert tokens.find(out.strip(), now=timezone.now()) == token
    assert out.count("\n") == 1
    assert "berlin/gpu-01" in err
    assert (token.created_by, token.expires_at - token.created_at) == (None, timedelta(days=7))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("token", "paris", "gpu-01"), "There is no cluster 'paris'"),
        (("token", "berlin", "no name"), "no name that a node can have"),
        (("token", "berlin", "gpu-01", "--days", "0"), "one day to one year"),
        (("token", "berlin", "gpu-01", "--days", "99999999999"), "one day to one year"),
        (("revoke", "cdnode_x"), "No token begins with"),
    ],
)
def test_what_cannot_be_done_is_said(cluster: Cluster, arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        run(*arguments)
    assert not CdiToken.objects.exists()


def test_tokens_are_listed_and_revoked_by_their_beginning(cluster: Cluster, issue: Issue) -> None:
    token, plain = issue()
    out, _err = run("list", "berlin")
    assert f"berlin/gpu-01  {token.prefix}…  active" in out
    assert plain not in out
    assert run("list", "paris")[0] == ""
    assert "is revoked" in run("revoke", f"{token.prefix}…")[0]
    assert "revoked" in run("list")[0]
    assert tokens.find(plain, now=timezone.now()) is None
