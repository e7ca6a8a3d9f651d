"""``manage.py findings``: judge the clusters now, and say what is wrong."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from inventory.findings import evaluation, search, thresholds, words
from inventory.models import Cluster, RuleState


class Command(BaseCommand):
    help = "Judge the clusters (all, or those named) now and list what is wrong, the worst first."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("clusters", nargs="*", metavar="CLUSTER")
        parser.add_argument("--state", choices=sorted(search.STATES), default="live")
        parser.add_argument(
            "--no-evaluation", action="store_true", help="Only list what the last evaluation found."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        clusters = self._chosen(options["clusters"])
        now = timezone.now()
        if not options["no_evaluation"]:
            try:
                limits = thresholds.from_minutes(settings.FINDING_MINUTES)
            except ValueError as error:
                raise CommandError(f"CLAIMDESK_FINDING_MINUTES: {error}") from error
            for cluster in clusters:
                evaluation.evaluate(cluster=cluster, now=now, thresholds=limits)
        wanted = search.FindingFilter(state=options["state"]).rows(now=now).filter(cluster__in=clusters)
        for finding in search.worst_first(wanted.select_related("cluster")):
            state = search.state_of(finding, now=now)
            self.stdout.write(
                f"{finding.severity}  {finding.cluster.name}  {finding.kind}  {state}  "
                f"since {finding.began_at:%Y-%m-%d %H:%M}Z  {words.in_words(finding)}"
            )
        unknown = RuleState.objects.filter(cluster__in=clusters).exclude(unknown_since=None)
        for rule in unknown.select_related("cluster").order_by("cluster__name", "kind"):
            why = words.unknown_in_words(rule.missing)
            self.stdout.write(f"unknown  {rule.cluster.name}  {rule.kind}  {why}")

    def _chosen(self, names: list[str]) -> list[Cluster]:
        clusters = Cluster.objects.defer("kubeconfig_encrypted").order_by("name")
        if not names:
            return list(clusters)
        found = list(clusters.filter(name__in=names))
        if missing := set(names) - {cluster.name for cluster in found}:
            raise CommandError(f"No cluster is called {', '.join(sorted(missing))}.")
        return found
