"""`manage.py doctor`."""

import json
import sys
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from portal.pages.doctor import State, examine

MARKS = {State.GOOD: "ok", State.WARNING: "warning", State.BAD: "WRONG", State.UNKNOWN: "unknown"}


class Command(BaseCommand):
    help = "Look at settings, database, broker, workers and clusters, and say what is wrong and what to do."
    # It has to run where these would fail.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object a line")
        parser.add_argument("--quiet", action="store_true", help="leave out what is well")

    def handle(self, *_: Any, **options: Any) -> None:
        worst = 0
        for result in examine(now=timezone.now()):
            if result.state in (State.BAD, State.UNKNOWN):
                worst = 1
            if options["quiet"] and result.state == State.GOOD:
                continue
            if options["json"]:
                self.stdout.write(json.dumps(asdict(result), ensure_ascii=False))
                continue
            self.stdout.write(f"{MARKS[result.state]:8} {result.check}: {result.said}")
            if result.cure:
                self.stdout.write(f"{'':8} → {result.cure}")
        sys.exit(worst)
