"""``manage.py import_people``: projects, members and namespaces from CSV files."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from portal import access
from portal.accounts.models import User
from portal.pages.importing.doing import Outcome, run
from portal.pages.importing.reading import MAX_BYTES, SHAPES, Unreadable, decoded


class Command(BaseCommand):
    help = (
        "Imports projects, members and namespaces from CSV files, all of it or nothing. "
        "Without --apply it only says what it would do."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        for shape in SHAPES:
            optional = "".join(f"[,{name}]" for name in shape.optional)
            described = f"CSV with the columns {','.join(shape.required)}{optional}"
            parser.add_argument(f"--{shape.name}", type=Path, metavar="FILE", help=described)
        parser.add_argument("--by", required=True, metavar="USERNAME", help="the administrator who does it")
        parser.add_argument("--apply", action="store_true", help="do it")

    def handle(self, *args: Any, **options: Any) -> None:
        actor = User.objects.filter(username=options["by"]).first()
        if actor is None or not access.may_administer(actor):
            raise CommandError(f"{options['by']} is no administrator of this desk.")
        paths = {shape.name: options[shape.name] for shape in SHAPES if options[shape.name]}
        if not paths:
            raise CommandError("There is nothing to import: name a file, see --help.")
        tables = {name: _text(path) for name, path in paths.items()}
        outcome = run(tables=tables, actor=actor, now=timezone.now(), apply=options["apply"])
        for change in outcome.changes:
            self.stdout.write(f"{change.table}:{change.line}: {change.kind}: {change.text}")
        for fault in outcome.faults:
            column = f" {fault.column}:" if fault.column else ""
            self.stderr.write(f"{paths[fault.table]}:{fault.line}:{column} {fault.message}")
        if outcome.faults:
            raise CommandError(f"{len(outcome.faults)} fault(s); nothing was changed.")
        self.stdout.write(_summary(outcome))
        for one in outcome.invited:
            self.stdout.write(f"{one.email}: /join/{one.secret}/  ({one.project})")


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return decoded(file.read(MAX_BYTES + 1))
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error
    except Unreadable as error:
        raise CommandError(f"{path}: {error}") from error


def _summary(outcome: Outcome) -> str:
    counts = ", ".join(f"{count} {kind}" for kind, count in outcome.counts.items())
    done = "Done" if outcome.applied else "Nothing was changed; with --apply it would be"
    return f"{done}: {counts}."
