"""What docs/notifications.md says about verifying a webhook is true."""

import base64
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from portal.accounts.notifications import signing
from portal.accounts.notifications.calling import body_of
from portal.accounts.notifications.kinds import DEFAULTS, Channel, Kind

TEXT = (Path(__file__).parents[3] / "docs" / "notifications.md").read_text(encoding="utf-8")
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
BODY = body_of({"type": "notification.request", "data": {"subject": "潮汐 “done”"}})


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    assert found is not None
    return found.group(1)


def headers(at: float) -> dict[str, str]:
    return dict(
        signing.headers(secret=SECRET, message_id="4f1c", now=datetime.fromtimestamp(at, UTC), body=BODY)
    )


@pytest.fixture
def verify() -> Callable[..., None]:
    names: dict[str, Any] = {}
    exec(block("python"), names)
    found: Callable[..., None] = names["verify"]
    return found


def test_the_python_takes_what_the_desk_signs_and_nothing_else(verify: Callable[..., None]) -> None:
    now = time.time()
    verify(SECRET, headers(now), BODY)
    with pytest.raises(ValueError, match="not signed"):
        verify(SECRET, headers(now), BODY + b" ")
    with pytest.raises(ValueError, match="not signed"):
        verify(SECRET, headers(now) | {"webhook-id": "other"}, BODY)
    with pytest.raises(ValueError, match="too old"):
        verify(SECRET, headers(now - 3600), BODY)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the shell example needs openssl")
def test_the_shell_prints_the_signature(tmp_path: Path) -> None:
    signed = headers(time.time())
    (tmp_path / "body.json").write_bytes(BODY)
    values = {"SECRET": SECRET, "ID": signed["webhook-id"], "TIMESTAMP": signed["webhook-timestamp"]}
    answer = subprocess.run(
        ["sh", "-c", block("sh")],
        cwd=tmp_path,
        env=os.environ | values,
        capture_output=True,
        check=True,
        text=True,
    )
    assert answer.stdout.strip() == signed["webhook-signature"]


def test_the_specification_gives_the_same_signature() -> None:
    """A published example of Standard Webhooks."""
    signed = signing.headers(
        secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        message_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        now=datetime.fromtimestamp(1614265330, UTC),
        body=b'{"test": 2432232314}',
    )
    assert signed["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_table_of_defaults_is_true() -> None:
    words = {"all": set(Channel), "portal, webhook": {Channel.PORTAL, Channel.WEBHOOK}}
    for kind in (k for k in Kind if f"| `{k}` |" in TEXT):
        told = re.search(rf"^\| `{kind}` \|.*\| ([^|]+) \|$", TEXT, re.MULTILINE)
        assert told is not None
        if told.group(1) in words:
            assert DEFAULTS[kind] == words[told.group(1)], kind
