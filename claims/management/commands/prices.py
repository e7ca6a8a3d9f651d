"""``manage.py prices``: add a price book from a CSV file, or list what there is."""

import csv
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from claims.history.intervals import parse_moment
from claims.models import PriceBook
from claims.money.price_books import COLUMNS, UnableToAddBook, add_book
from claims.money.pricing import price_list


class Command(BaseCommand):
    help = "Add a price book from a CSV file with the columns device_class, product, per_hour; or list them."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("list", help="Show all price books.")
        add = actions.add_parser("add", help="Add a book; empty class or product means any.")
        add.add_argument("name")
        add.add_argument("file", metavar="CSV")
        add.add_argument("--currency", required=True, help="ISO 4217, such as EUR.")
        add.add_argument("--from", dest="valid_from", default="", help="A date or ISO time (UTC); else now.")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["action"] == "list":
            for book in price_list().books:
                self.stdout.write(f"{book.valid_from.isoformat()}  {book.name}  {book.currency}")
                for device_class, product, price in book.rows:
                    self.stdout.write(f"    {device_class or '*'}  {product or '*'}  {price}")
            return
        added = self._add(options)
        self.stdout.write(f"{added.name}: {added.prices.count()} prices from {added.valid_from.isoformat()}")

    def _add(self, options: dict[str, Any]) -> PriceBook:
        now = timezone.now()
        try:
            with Path(options["file"]).expanduser().open(encoding="utf-8-sig", newline="") as file:
                reader = csv.DictReader(file)
                missing = set(COLUMNS) - set(reader.fieldnames or ())
                if missing:
                    raise CommandError(f"The file lacks the columns {', '.join(sorted(missing))}.")
                rows = list(reader)
            return add_book(
                name=options["name"],
                currency=options["currency"],
                valid_from=parse_moment(options["valid_from"]) or now,
                rows=rows,
                now=now,
            )
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise CommandError(f"{options['file']} cannot be read: {error}") from error
        except UnableToAddBook as error:
            raise CommandError(error.message) from error
        except ValueError as error:
            raise CommandError(str(error)) from error
