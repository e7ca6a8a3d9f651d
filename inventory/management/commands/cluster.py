"""``manage.py cluster``: add, list, check and remove clusters from a shell."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from inventory import clusters
from inventory.models import Cluster, Stream
from portal.kube.errors import ClusterError


class Command(BaseCommand):
    help = "Add, list, check and remove the clusters that the desk follows."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)

        add = actions.add_parser(
            "add", help="Follow a cluster; without --kubeconfig the one the portal runs in."
        )
        add.add_argument("name")
        add.add_argument("--kubeconfig", metavar="PATH", default="")
        add.add_argument("--context", default="", help="A context of the kubeconfig, if not its current one.")
        add.add_argument("--region", default="")
        add.add_argument(
            "--store", action="store_true", help="Keep the kubeconfig itself, encrypted, instead of its path."
        )

        actions.add_parser("list", help="Show all clusters and how they fare.")
        for action, text in (
            ("check", "Contact a cluster and show what it says."),
            ("remove", "Forget a cluster and everything mirrored of it."),
            ("sync", "Have everything listed anew."),
        ):
            actions.add_parser(action, help=text).add_argument("name")

    def handle(self, *args: Any, **options: Any) -> None:
        action = options["action"]
        if action == "add":
            self._add(options)
        elif action == "list":
            self._list()
        else:
            getattr(self, f"_{action}")(self._find(options["name"]))

    def _add(self, options: dict[str, Any]) -> None:
        path, text = options["kubeconfig"], ""
        if options["store"]:
            if not path:
                raise CommandError("--store needs --kubeconfig PATH.")
            try:
                text = Path(path).expanduser().read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise CommandError(f"{path} cannot be read: {error}") from error
            path = ""
        try:
            cluster = clusters.add(
                name=options["name"],
                kubeconfig_path=str(Path(path).expanduser().resolve()) if path else "",
                kubeconfig_text=text,
                context=options["context"],
                region=options["region"],
                now=timezone.now(),
            )
        except clusters.UnableToAddCluster as error:
            raise CommandError(error.message) from error
        self.stdout.write(f"{cluster.name}: {cluster.api_url} ({cluster.server_version})")
        self._show_missing(cluster)

    def _list(self) -> None:
        for cluster in Cluster.objects.order_by("name"):
            self.stdout.write(f"{cluster.name}  {cluster.state}  {cluster.server_version}  {cluster.api_url}")
            if cluster.message:
                self.stdout.write(f"    {cluster.message}")

    def _check(self, cluster: Cluster) -> None:
        try:
            introduction = clusters.connect(cluster=cluster, now=timezone.now())
        except ClusterError as error:
            clusters.note_failure(cluster_id=cluster.pk, error=error)
            raise CommandError(error.message) from error
        self.stdout.write(f"{cluster.name}: {introduction.url} ({introduction.version})")
        for stream in Stream.objects.filter(cluster=cluster).order_by("resource"):
            version = stream.api_version or "not served"
            self.stdout.write(f"    {stream.resource}: {version}, {stream.state}, {stream.object_count}")
        self._show_missing(cluster)

    def _sync(self, cluster: Cluster) -> None:
        clusters.request_sync(cluster=cluster, now=timezone.now())

    def _remove(self, cluster: Cluster) -> None:
        try:
            clusters.remove(cluster=cluster, now=timezone.now())
        except clusters.UnableToRemoveCluster as error:
            raise CommandError(error.message) from error
        self.stdout.write(f"{cluster.name} is forgotten.")

    def _find(self, name: str) -> Cluster:
        try:
            return Cluster.objects.get(name=name)
        except Cluster.DoesNotExist:
            known = ", ".join(Cluster.objects.order_by("name").values_list("name", flat=True)) or "none"
            raise CommandError(f"There is no cluster {name}; there are: {known}.") from None

    def _show_missing(self, cluster: Cluster) -> None:
        if cluster.missing_permissions:
            missing = ", ".join(cluster.missing_permissions)
            self.stdout.write(f"    The account may not, over all namespaces: {missing}")
