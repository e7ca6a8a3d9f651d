"""``manage.py follow``: what the Celery task does, without Celery and without shifts."""

import signal
import threading
from types import FrameType
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection

from inventory.follow.follower import Follower, Outcome
from inventory.models import Cluster

# How long to wait before asking again for a lease that another follower has.
RETRY_SECONDS = 2.0


class Command(BaseCommand):
    help = "Follow clusters (all enabled ones, or those named) until Ctrl-C."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("clusters", nargs="*", metavar="CLUSTER")

    def handle(self, *args: Any, **options: Any) -> None:
        stop = threading.Event()

        def end(_number: int, _frame: FrameType | None) -> None:
            stop.set()

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, end)
        threads = [
            threading.Thread(target=self._follow, args=(cluster, stop), name=f"follow-{cluster.name}")
            for cluster in self._chosen(options["clusters"])
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            # Short waits, so that signals are handled meanwhile.
            while thread.is_alive():
                thread.join(0.5)

    def _chosen(self, names: list[str]) -> list[Cluster]:
        chosen = Cluster.objects.filter(enabled=True).order_by("name")
        if names:
            chosen = chosen.filter(name__in=names)
            missing = set(names) - {cluster.name for cluster in chosen}
            if missing:
                raise CommandError(f"No enabled cluster is called {', '.join(sorted(missing))}.")
        if not chosen:
            raise CommandError("There is no enabled cluster; add one with: manage.py cluster add")
        return list(chosen)

    def _follow(self, cluster: Cluster, stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                follower = Follower(
                    cluster_id=cluster.pk,
                    lease_duration=settings.FOLLOWER_LEASE,
                    full_list_interval=settings.FULL_LIST_INTERVAL,
                )
                outcome = follower.run(should_stop=stop.is_set)
                if outcome in {Outcome.NOT_FREE, Outcome.LEASE_LOST, Outcome.FAILED}:
                    stop.wait(RETRY_SECONDS)
        finally:
            connection.close()
