"""The environment of a test run, set before Django reads its settings (loaded with ``-p tests.environment``).

Every process of a run (pytest-xdist starts several) has a data directory and a Valkey of its own.
"""

import os
import socket
import tempfile

from cryptography.fernet import Fernet


def free_port() -> int:
    """A TCP port on loopback that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


DATA_DIR = tempfile.mkdtemp(prefix="claimdesk-test-")
VALKEY_PORT = free_port()

os.environ.setdefault("CLAIMDESK_SECRET_KEY", "only for tests")
os.environ.setdefault("CLAIMDESK_CREDENTIAL_KEYS", Fernet.generate_key().decode())
os.environ["CLAIMDESK_DATA_DIR"] = DATA_DIR
os.environ["CLAIMDESK_PLAIN_STATIC"] = "1"
os.environ["REDIS_URL"] = f"redis://127.0.0.1:{VALKEY_PORT}/0"
