"""Tokens of nodes from a shell: what ``manage.py cdi`` and ``manage.py poddevices`` have in common."""

from datetime import timedelta
from typing import Any, ClassVar

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from inventory.models import Cluster
from inventory.node_tokens import DEFAULT_LIFETIME, NodeTokens, UnableToIssueNodeToken


class NodeTokenCommand(BaseCommand):
    """Issues, lists and revokes the tokens of one sort of report."""

    sort: ClassVar[NodeTokens[Any, Any]]

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        token = actions.add_parser(
            "token", help="Issue a token for one node and print it: it is not shown again."
        )
        token.add_argument("cluster")
        token.add_argument("node")
        token.add_argument("--days", type=int, default=DEFAULT_LIFETIME.days, help="how long it lives")
        listed = actions.add_parser("list", help="Show the tokens, never their text.")
        listed.add_argument("cluster", nargs="?")
        revoke = actions.add_parser("revoke", help="End a token at once.")
        revoke.add_argument("prefix", help="its beginning, as the list shows it")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - Django's signature
        getattr(self, f"_{options['action']}")(options)

    def _token(self, options: dict[str, Any]) -> None:
        cluster = Cluster.objects.defer("kubeconfig_encrypted").filter(name=options["cluster"]).first()
        if cluster is None:
            raise CommandError(f"There is no cluster {options['cluster']!r}. See: manage.py cluster list")
        try:
            token, plain = self.sort.issue(
                cluster=cluster,
                node_name=options["node"],
                lifetime=timedelta(days=min(options["days"], 10_000)),
                actor=None,
                now=timezone.now(),
            )
        except UnableToIssueNodeToken as error:
            raise CommandError(error.message) from error
        # The token alone on the standard output, so that it can be piped into a Secret.
        self.stderr.write(f"For {token.node}, until {token.expires_at:%Y-%m-%d}; not shown again:")
        self.stdout.write(plain)

    def _list(self, options: dict[str, Any]) -> None:
        rows = self.sort.tokens._default_manager.select_related("node__cluster")
        found = rows.order_by("node__cluster__name", "node__name")
        if options["cluster"]:
            found = found.filter(node__cluster__name=options["cluster"])
        now = timezone.now()
        for token in found:
            state = "revoked" if token.revoked_at else "expired" if token.expires_at <= now else "active"
            self.stdout.write(f"{token.node}  {token}  {state}  until {token.expires_at:%Y-%m-%d}")

    def _revoke(self, options: dict[str, Any]) -> None:
        wanted = options["prefix"].rstrip("…")
        rows = self.sort.tokens._default_manager.select_related("node__cluster")
        found = list(rows.filter(prefix=wanted)[:2])
        if len(found) != 1:
            raise CommandError(f"{'No' if not found else 'More than one'} token begins with {wanted!r}.")
        self.sort.revoke(token=found[0], actor=None, now=timezone.now())
        self.stdout.write(f"{found[0]} of {found[0].node} is revoked.")
