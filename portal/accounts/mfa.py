"""The second factor: secrets are sealed in the database, and whether somebody has one."""

import base64
import secrets
from datetime import datetime

from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.db import transaction

from portal.accounts.audit import record
from portal.accounts.models import User


class MfaAdapter(DefaultMFAAdapter):  # type: ignore[misc] # allauth has no types
    """Seals the secrets of authenticator apps and recovery codes with the keys of stored credentials."""

    def encrypt(self, text: str) -> str:
        return _box().encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        """The secret. When the key is gone, one that nobody knows: no code fits then (codes of an empty
        secret could be worked out), and an administrator resets the factor."""
        try:
            return _box().decrypt(encrypted_text.encode()).decode()
        except InvalidToken:
            return base64.b32encode(secrets.token_bytes(20)).decode()


def has_second_factor(user: User) -> bool:
    """Whether a code or a key is asked for when the person signs in."""
    types = [Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN]
    return bool(Authenticator.objects.filter(user=user, type__in=types).exists())


def reset_second_factor(*, user: User, actor: User, now: datetime, source_ip: str | None = None) -> None:
    """Takes away every factor of somebody who lost theirs; the password alone is asked for then."""
    with transaction.atomic():
        removed, _by_model = Authenticator.objects.filter(user=user).delete()
        if removed:
            record(now=now, actor=actor, action="person.mfa-reset", target=user, source_ip=source_ip)


def _box() -> MultiFernet:
    return MultiFernet([Fernet(key) for key in settings.CREDENTIAL_KEYS])
