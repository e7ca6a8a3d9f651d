"""Credentials: what a kubeconfig may be, and what is said when it is not."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from portal.kube import config
from portal.kube.config import Credentials
from portal.kube.errors import BadCredentials, ForbiddenCredentials


def kubeconfig(**changes: Any) -> dict[str, Any]:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "here", "user": "me"}}],
        "clusters": [{"name": "here", "cluster": {"server": "https://10.0.0.1:6443"}}],
        "users": [{"name": "me", "user": {"token": "s3cret-token"}}],
    }
    return document | changes


def text(**changes: Any) -> str:
    return json.dumps(kubeconfig(**changes))


def test_a_token_becomes_the_authorization_header() -> None:
    session = Credentials.from_text(text()).open()
    assert session.url == "https://10.0.0.1:6443"
    assert session.authorization() == "Bearer s3cret-token"


def test_a_context_is_chosen_by_name() -> None:
    document = kubeconfig()
    document["contexts"].append({"name": "other", "context": {"cluster": "there", "user": "me"}})
    document["clusters"].append({"name": "there", "cluster": {"server": "http://127.0.0.1:8001/"}})
    assert Credentials.from_text(json.dumps(document), context="other").open().url == "http://127.0.0.1:8001"


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("a: [1, 2\nb: s3cret-token", "line 2"),
        ("just words", "not a kubeconfig"),
        ("", "not a kubeconfig"),
        ("[" * 5000, "does not parse"),
        ("x" * (config.MAX_KUBECONFIG_CHARACTERS + 1), "too long"),
        (text(contexts=None), "no context “main”"),
        (text(contexts={"name": "main"}), "“contexts” is not a list"),
        (text(clusters=[]), "no entry “here” in “clusters”"),
        (text(users=[]), "no entry “me” in “users”"),
        (text(**{"current-context": ""}), "choose one of: main"),
        (text(clusters=[{"name": "here", "cluster": {}}]), "no server address"),
        (text(clusters=[{"name": "here", "cluster": {"server": "ftp://x"}}]), "not an address"),
        (text(clusters=[{"name": "here", "cluster": {"server": "https://h:99999"}}]), "not an address"),
        (text(clusters=[{"name": "here", "cluster": {"server": "https://u:p@h"}}]), "user name"),
    ],
)
def test_a_broken_kubeconfig_says_what_is_wrong_and_never_quotes_a_secret(broken: str, said: str) -> None:
    with pytest.raises(BadCredentials) as caught:
        Credentials.from_text(broken).open()
    assert said in caught.value.message
    assert "s3cret-token" not in caught.value.message


@pytest.mark.parametrize("token", ["s3cret\r\nX-Remote-User: admin", "s3crét", "s3cret\n"])
def test_a_token_that_no_header_can_carry_is_named_and_not_quoted(token: str) -> None:
    session = Credentials.from_text(text(users=[{"name": "me", "user": {"token": token}}])).open()
    with pytest.raises(BadCredentials, match="The token has characters") as caught:
        session.authorization()
    assert "s3cr" not in caught.value.message


def test_an_unknown_context_names_those_there_are() -> None:
    with pytest.raises(BadCredentials, match="no context “nowhere”; it has: main"):
        Credentials.from_text(text(), context="nowhere").open()


@pytest.mark.parametrize(
    ("user", "key"),
    [
        ({"exec": {"command": "/bin/sh", "apiVersion": "client.authentication.k8s.io/v1"}}, "exec"),
        ({"auth-provider": {"name": "gcp", "config": {"cmd-path": "/bin/sh"}}}, "auth-provider"),
        ({"tokenFile": "/etc/shadow"}, "tokenFile"),
        ({"client-key": "/etc/shadow", "client-certificate": "/etc/passwd"}, "client-certificate"),
    ],
)
def test_a_stored_kubeconfig_may_neither_run_programs_nor_read_files(user: dict[str, Any], key: str) -> None:
    with pytest.raises(ForbiddenCredentials, match=key):
        Credentials.from_text(text(users=[{"name": "me", "user": user}])).open()


def plugin(tmp_path: Path, script: str) -> Path:
    program = tmp_path / "plugin"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    user = {"exec": {"command": str(program), "apiVersion": "client.authentication.k8s.io/v1"}}
    path = tmp_path / "config"
    path.write_text(text(users=[{"name": "me", "user": user}]))
    return path


def test_a_file_of_the_operator_may_use_a_plugin(tmp_path: Path) -> None:
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "from-plugin"},
    }
    session = Credentials.from_kubeconfig(plugin(tmp_path, f"echo '{json.dumps(answer)}'")).open()
    assert session.authorization() == "Bearer from-plugin"


def test_a_plugin_that_fails_is_an_error_and_not_an_anonymous_call(tmp_path: Path) -> None:
    with pytest.raises(BadCredentials, match="gave no credentials"):
        Credentials.from_kubeconfig(plugin(tmp_path, "echo no >&2; exit 3")).open()


def test_a_plugin_that_hangs_does_not_hang_the_portal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "PLUGIN_TIMEOUT_SECONDS", 0.05)
    with pytest.raises(BadCredentials, match="did not answer"):
        Credentials.from_kubeconfig(plugin(tmp_path, "exec sleep 0.5")).open()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadCredentials, match=r"no kubeconfig file .*nothing-here"):
        Credentials.from_kubeconfig(tmp_path / "nothing-here").open()


def test_outside_a_cluster_there_is_no_service_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(BadCredentials, match="Service host/port is not set"):
        Credentials.in_cluster().open()


def test_credentials_do_not_show_their_content() -> None:
    credentials = Credentials.from_text(text())
    assert "s3cret-token" not in repr(credentials)
    assert "s3cret-token" not in repr(credentials.open())
