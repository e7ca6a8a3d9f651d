"""The environment of a test run, set before Django reads its settings (loaded with ``-p tests.environment``).

Every process of a run (pytest-xdist starts several) has a data directory and a Valkey of its own.
"""

import os
import tempfile

from cryptography.fernet import Fernet

from portal.stack import free_port

DATA_DIR = tempfile.mkdtemp(prefix="claimdesk-test-")
VALKEY_PORT = free_port()

os.environ.setdefault("CLAIMDESK_SECRET_KEY", "only for tests")
os.environ.setdefault("CLAIMDESK_CREDENTIAL_KEYS", Fernet.generate_key().decode())
os.environ["CLAIMDESK_DATA_DIR"] = DATA_DIR
os.environ["CLAIMDESK_PLAIN_STATIC"] = "1"
# Tests call as often as they like; what limits programs has a test of its own.
os.environ["CLAIMDESK_API_PER_MINUTE"] = "0"
os.environ["REDIS_URL"] = f"redis://127.0.0.1:{VALKEY_PORT}/0"
