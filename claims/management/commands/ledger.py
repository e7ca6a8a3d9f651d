"""``manage.py ledger rebuild|audit|apply``: the history of allocations as a fold over observations."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from claims.ledger.audit import audit
from claims.ledger.storage import apply, rebuild
from inventory.models import Cluster


class Command(BaseCommand):
    help = "Rebuild the ledger from observations, check its invariants, or fold what is new."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=["rebuild", "audit", "apply"])
        parser.add_argument("--cluster", help="name of one cluster; all without it")

    def handle(self, *args: Any, **options: Any) -> None:
        clusters = Cluster.objects.order_by("name")
        if options["cluster"]:
            clusters = clusters.filter(name=options["cluster"])
            if not clusters:
                raise CommandError(f"No cluster is named {options['cluster']!r}.")
        if options["action"] == "audit":
            self._audit(list(clusters))
            return
        work = rebuild if options["action"] == "rebuild" else apply
        for cluster in clusters:
            self.stdout.write(f"{cluster}: {work(cluster=cluster)} observations folded")

    def _audit(self, clusters: list[Cluster]) -> None:
        violations = 0
        for cluster in clusters:
            for violation in audit(cluster=cluster):
                violations += 1
                self.stdout.write(f"{cluster}: {violation.code}: {violation.where}: {violation.detail}")
        if violations:
            raise CommandError(f"{violations} violations")
        self.stdout.write("every invariant holds")
