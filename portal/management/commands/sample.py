"""``manage.py sample``: the sample people, projects and prices, without any cluster."""

from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from portal.management.people import PASSWORD, PEOPLE
from portal.management.sample import make_sample_organisation


class Command(BaseCommand):
    help = "Make the sample people, projects and prices where they are missing. Not for a real installation."

    def handle(self, *args: Any, **options: Any) -> None:
        make_sample_organisation(now=timezone.now())
        for person in PEOPLE:
            self.stdout.write(f"{person.username:<6} {person.role}")
        self.stdout.write(f"password of all: {PASSWORD}")
