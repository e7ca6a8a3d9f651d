"""Kubeconfigs at rest: encrypted with a key from the environment, several keys (newest first) allow
rotation."""

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.utils.translation import gettext as _

from portal.kube.errors import BadCredentials


def seal(text: str) -> bytes:
    """Encrypt. Raises BadCredentials where no key is configured: nothing is ever stored in the clear."""
    return _box().encrypt(text.encode())


def unseal(sealed: bytes | memoryview) -> str:
    """Decrypt. Raises BadCredentials when no configured key fits."""
    try:
        return _box().decrypt(bytes(sealed)).decode()
    except InvalidToken:
        raise BadCredentials(
            _("The stored kubeconfig cannot be decrypted: none of CLAIMDESK_CREDENTIAL_KEYS fits.")
        ) from None


def _box() -> MultiFernet:
    keys = settings.CREDENTIAL_KEYS
    if not keys:
        raise BadCredentials(
            _(
                "Kubeconfigs cannot be stored: CLAIMDESK_CREDENTIAL_KEYS is not set. "
                "Give the path of a file instead."
            )
        )
    try:
        return MultiFernet([Fernet(key) for key in keys])
    except ValueError:
        raise BadCredentials(_("CLAIMDESK_CREDENTIAL_KEYS does not hold valid Fernet keys.")) from None
