"""``manage.py ledger apply|rebuild|audit|archive|policy``: the history of allocations as a fold over
observations."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from claims.history.intervals import parse_moment
from claims.ledger import archive, keeping
from claims.ledger.storage import apply, rebuild
from claims.models import Bound, LedgerPolicy
from inventory.models import Cluster

ACTIONS = ("apply", "rebuild", "audit", "archive", "verify", "policy")


class Command(BaseCommand):
    help = (
        "Fold what is new, rebuild the ledger from observations, check its invariants, move observations of "
        "closed months into files, verify those files, or say which bound of uncertain times is billed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=ACTIONS)
        parser.add_argument("--cluster", help="name of one cluster; all without it")
        parser.add_argument("--before", help="archive: the first month that stays, such as 2026-09 (UTC)")
        parser.add_argument("--bound", choices=Bound.values, help="policy: which bound is billed")
        parser.add_argument("--from", dest="since", help="policy: for allocations that begin from then on")

    def handle(self, *_args: Any, **options: Any) -> None:
        clusters = Cluster.objects.order_by("name")
        if options["cluster"]:
            clusters = clusters.filter(name=options["cluster"])
            if not clusters:
                raise CommandError(f"No cluster is named {options['cluster']!r}.")
        try:
            getattr(self, f"_{options['action']}")(list(clusters), options)
        except archive.ArchiveDamaged as error:
            raise CommandError(error.message) from error

    def _apply(self, clusters: Sequence[Cluster], _options: dict[str, Any]) -> None:
        for cluster in clusters:
            self.stdout.write(f"{cluster}: {apply(cluster=cluster)} observations folded")

    def _rebuild(self, clusters: Sequence[Cluster], _options: dict[str, Any]) -> None:
        for cluster in clusters:
            self.stdout.write(f"{cluster}: {rebuild(cluster=cluster)} observations folded")

    def _audit(self, clusters: Sequence[Cluster], _options: dict[str, Any]) -> None:
        violations = 0
        for cluster in clusters:
            found = keeping.check(cluster=cluster, now=timezone.now())
            violations += found.violation_count
            for violation in found.violations:
                told = (violation[name] for name in ("code", "where", "detail"))
                self.stdout.write(f"{cluster}: {': '.join(told)}")
            if (more := found.violation_count - len(found.violations)) > 0:
                self.stdout.write(f"{cluster}: and {more} more")
            for line in keeping.told(found):
                self.stdout.write(f"{cluster}: {line}")
        if violations:
            raise CommandError(f"{violations} violations")
        self.stdout.write("every invariant holds")

    def _archive(self, clusters: Sequence[Cluster], options: dict[str, Any]) -> None:
        now, before = timezone.now(), _month(options["before"] or "")
        if before > now:
            raise CommandError("A month that is not over cannot be archived: choose an earlier one.")
        for cluster in clusters:
            for made in archive.archive(cluster=cluster, before=before, now=now):
                self.stdout.write(
                    f"{cluster}: {made.file.file_name}: {made.file.rows} observations of "
                    f"{made.file.objects_count} objects, {made.file.size} bytes, SHA-256 {made.file.sha256}; "
                    f"{made.removed} rows left the database"
                )
        self.stdout.write(f"archived in {archive.directory()}")

    def _verify(self, clusters: Sequence[Cluster], _options: dict[str, Any]) -> None:
        faults = [fault for cluster in clusters for fault in archive.damaged(cluster=cluster)]
        if faults:
            raise CommandError("\n".join(fault.message for fault in faults))
        for cluster in clusters:
            self.stdout.write(f"{cluster}: {archive.verify(cluster=cluster)} files are as they were written")
            for path in archive.unrecorded(cluster=cluster):
                self.stdout.write(f"{cluster}: no record names {path}; nothing reads it")

    def _policy(self, _clusters: Sequence[Cluster], options: dict[str, Any]) -> None:
        if options["bound"]:
            try:
                since = parse_moment(options["since"] or "")
            except ValueError as error:
                raise CommandError(f"--from: {error}") from error
            try:
                keeping.set_policy(bound=options["bound"], since=since, actor=None, now=timezone.now())
            except keeping.UnableToSetPolicy as error:
                raise CommandError(error.message) from error
        for policy in LedgerPolicy.objects.order_by("valid_from"):
            self.stdout.write(f"from {policy.valid_from:%Y-%m-%dT%H:%MZ}: {policy.get_bound_display()}")
        if not LedgerPolicy.objects.exists():
            self.stdout.write(f"always: {Bound.TENANT.label}")


def _month(text: str) -> datetime:
    if not re.fullmatch(r"[0-9]{4}-(0[1-9]|1[0-2])", text):
        raise CommandError("--before needs a month, such as 2026-09.")
    year, month = (int(part) for part in text.split("-"))
    try:
        return datetime(year, month, 1, tzinfo=UTC)
    except ValueError as error:
        raise CommandError("--before needs a month, such as 2026-09.") from error
