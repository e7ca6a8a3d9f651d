"""Signatures of webhooks, as the Standard Webhooks specification (1.0.0) lays them out.

A secret is ``whsec_`` and the base64 of 32 random bytes. What is signed is ``{id}.{timestamp}.{body}``; the
header carries ``v1,`` and the base64 of the HMAC-SHA256.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from datetime import datetime

from cryptography.fernet import Fernet, MultiFernet
from django.conf import settings

PREFIX = "whsec_"
KEY_BYTES = 32


def new_secret() -> str:
    """What the receiver is given, once."""
    return PREFIX + base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()


def seal(secret: str) -> bytes:
    """What the database keeps."""
    return _box().encrypt(secret.encode())


def unseal(sealed: bytes | memoryview) -> str:
    """Raises InvalidToken when the key that it was encrypted with is no longer configured."""
    return _box().decrypt(bytes(sealed)).decode()


def headers(*, secret: str, message_id: str, now: datetime, body: bytes) -> Mapping[str, str]:
    """What says who sends this, when, and which message it is, however often it comes."""
    timestamp = str(int(now.timestamp()))
    signed = b".".join((message_id.encode(), timestamp.encode(), body))
    digest = hmac.new(base64.b64decode(secret.removeprefix(PREFIX)), signed, hashlib.sha256).digest()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def _box() -> MultiFernet:
    return MultiFernet([Fernet(key) for key in settings.CREDENTIAL_KEYS])
