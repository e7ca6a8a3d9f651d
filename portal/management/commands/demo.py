"""``manage.py demo``: the whole desk in one foreground process."""

import signal
import sys
import time
from typing import Any, NoReturn

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from portal.management.people import PASSWORD, PEOPLE
from portal.management.sample import CLUSTER, add_sample_cluster, make_sample_organisation
from portal.stack import Stack, UnableToStart

WEB_PORT = 8000


class Command(BaseCommand):
    help = "Run the whole desk over an embedded cluster with a sample organisation, until Ctrl-C."
    # The front-end and the database are checked by what runs anyway; start-up has to be quick.
    requires_system_checks: list[str] = []  # noqa: RUF012 - Django's own type

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--port", type=int, default=WEB_PORT, help="of the web server (default: %(default)s)"
        )
        parser.add_argument("--fleet", default="sample", help="what the embedded cluster starts with")

    def handle(self, *args: Any, **options: Any) -> None:
        started = time.monotonic()
        stack = Stack(settings.DATA_DIR, web_port=0, cluster_port=0, fleet=options["fleet"])

        def interrupt(*_: object) -> NoReturn:
            # Python drops what is raised inside of a destructor: the stack remembers.
            stack.is_ending = True
            raise KeyboardInterrupt

        # SIGINT too: what a script starts in the background has inherited that it is ignored.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, interrupt)
        try:
            stack.claim_directory()
            stack.web_port = port = stack.claim_port(options["port"])
            if port != options["port"]:
                self.stdout.write(
                    f"Port {options['port']} is taken by another program; using {port} instead."
                )
            self._start(stack)
            self._welcome(stack, time.monotonic() - started)
            self._watch(stack)
        except UnableToStart as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            self.stdout.write("\nStopping…")
        finally:
            # A second Ctrl-C must not leave processes behind.
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            stack.stop()
        self.stdout.write("Stopped. The data stay; `make demo` continues with them.")

    def _start(self, stack: Stack) -> None:
        # The same port every time: the portal's record of the cluster names it.
        stack.cluster_port = _kept_port(stack)
        stack.start_valkey()
        stack.start_cluster()
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            self.stdout.write("Preparing the database…")
            call_command("migrate", interactive=False, verbosity=0)
        stack.start_portal()
        # While those processes start; the workers find the cluster when beat looks for it next.
        make_sample_organisation(now=timezone.now())
        add_sample_cluster(kubeconfig=stack.cluster_kubeconfig, now=timezone.now())
        connection.close()
        stack.wait_for_cluster()
        stack.wait_for_web()

    def _welcome(self, stack: Stack, seconds: float) -> None:
        lines = [
            "",
            f"  Claimdesk is ready after {seconds:.1f} s:  {stack.url}/",
            "",
            *(f"    {person.username:<6} {person.role}" for person in PEOPLE),
            f"    password of all: {PASSWORD}",
            "",
            f"  Embedded cluster '{CLUSTER}': kubectl --kubeconfig {stack.cluster_kubeconfig}",
            f"  Logs: {stack.data_dir / 'logs'}",
            "  Ctrl-C stops everything; the data stay.",
            "",
        ]
        self.stdout.write("\n".join(lines))
        sys.stdout.flush()

    def _watch(self, stack: Stack) -> None:
        while True:
            time.sleep(0.5)
            stack.check()


def _kept_port(stack: Stack) -> int:
    """The port that the embedded cluster had last time, if it is still free."""
    kept = stack.data_dir / "cluster-port"
    port = stack.claim_port(int(kept.read_text()) if kept.exists() else 6440)
    kept.write_text(str(port))
    return port
