"""``manage.py focus export|check|rules``: charges as files of FOCUS, and files checked by its rules."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.http import Http404
from django.utils import timezone

from claims.focus import files, rules
from claims.focus.columns import LATEST, VERSIONS
from claims.focus.dataset import Dataset
from claims.focus.metadata import metadata, of_file
from claims.focus.rules import Unreadable
from claims.focus.wanted import Wanted
from claims.money.months import zone_named

# Violations that are told one by one.
SHOWN = 100


class Command(BaseCommand):
    help = "Write charges as FOCUS (CSV or Parquet), check such a file, or list the rules."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        export = actions.add_parser("export", help="Write the charges that are billed in some months.")
        export.add_argument("directory", help="where the file goes, and its metadata beside it")
        export.add_argument("--version", dest="focus", default=LATEST, choices=VERSIONS)
        export.add_argument("--format", default="parquet", choices=files.FORMATS)
        export.add_argument("--period", default="", help="a month such as 2026-03; else last month")
        export.add_argument("--through", default="", help="the last month; else only one")
        export.add_argument("--project", default="", help="short name, or unattributed; else everything")
        check = actions.add_parser("check", help="Name each violated rule, with row and column.")
        check.add_argument("file", help="CSV or Parquet")
        check.add_argument("--version", dest="focus", default="", choices=("", *VERSIONS))
        check.add_argument("--all", action="store_true", help=f"tell more than the first {SHOWN} violations")
        listed = actions.add_parser("rules", help="List the rules.")
        listed.add_argument("--version", dest="focus", default=LATEST, choices=VERSIONS)

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, f"_{options['action']}")(options)

    def _rules(self, options: dict[str, Any]) -> None:
        for rule in rules.rules(options["focus"]):
            self.stdout.write(f"{rule.code}: {rule.text}")

    def _export(self, options: dict[str, Any]) -> None:
        now, zone = timezone.now(), zone_named(settings.ORGANISATION_ZONE)
        asked = {"version": options["focus"], **{n: options[n] for n in ("period", "through", "project")}}
        wanted = Wanted.parse(asked, now=now, zone=zone)
        if wanted.errors:
            raise CommandError(" ".join(f"--{name}: {said}" for name, said in wanted.errors.items()))
        try:
            dataset = Dataset(wanted, zone=zone, organisation=settings.ORGANISATION, viewer=None, now=now)
        except Http404 as error:
            raise CommandError(f"No project is called {wanted.project}.") from error
        path = Path(options["directory"]).expanduser() / f"{wanted.name}.{options['format']}"
        try:
            self._write(dataset, path, options["format"])
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error}") from error

    def _write(self, dataset: Dataset, path: Path, form: str) -> None:
        """Beside its place first: a file that is there is whole."""
        parts = files.written(dataset.rows(), version=dataset.wanted.version, form=form)
        size, digest = _put(path, parts)
        told = metadata(dataset) | of_file(name=path.name, form=form, size=size, sha256=digest)
        _put(path.with_name(f"{path.name}.metadata.json"), iter([json.dumps(told, indent=1).encode()]))
        self.stdout.write(f"{path}: {told['x_Rows']} rows, {size} bytes, SHA-256 {digest}")

    def _check(self, options: dict[str, Any]) -> None:
        path = Path(options["file"]).expanduser()
        found: Counter[str] = Counter()
        try:
            beside = rules.Beside(path)
            version = options["focus"] or beside.version
            checked = rules.check_file(path, version=version, totals=beside.totals)
            for violation in chain(beside.check(path), checked):
                found[violation.rule.code] += 1
                if options["all"] or found.total() <= SHOWN:
                    self.stdout.write(str(violation))
        except Unreadable as unreadable:
            raise CommandError(unreadable.message) from unreadable
        if found:
            told = ", ".join(f"{code} {count}" for code, count in found.most_common())
            raise CommandError(f"{found.total()} violations: {told}")
        self.stdout.write(f"{path} keeps all rules.")


def _put(path: Path, parts: Iterator[bytes]) -> tuple[int, str]:
    """Writes a file so that it is whole or not there; its size, and its SHA-256."""
    beside, digest, size = path.with_name(f".{path.name}.partial"), hashlib.sha256(), 0
    try:
        with beside.open("wb") as stream:
            for part in parts:
                stream.write(part)
                digest.update(part)
                size += len(part)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return size, digest.hexdigest()
