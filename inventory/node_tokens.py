"""Tokens of nodes: issued by administrators for one node, shown once, kept as a digest, revocable, expiring.

What a node reports of itself comes in different sorts (CDI specs, devices of Pods), each with tokens of its
own: who steals one can tell one sort of lie about one node. None is an API token of a person.
"""

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from inventory.models import CdiNode, CdiToken, Cluster, PodDeviceNode, PodDeviceToken
from inventory.node_reports import OF_TOKENS, TOKEN_EXPIRED, TOKEN_REVOKED, patience
from portal.accounts.audit import record
from portal.accounts.models import User

N = TypeVar("N", CdiNode, PodDeviceNode)
T = TypeVar("T", CdiToken, PodDeviceToken)

DEFAULT_LIFETIME = timedelta(days=365)
MAX_LIFETIME = timedelta(days=366)
# Two while one replaces the other; more is a mistake.
MAX_LIVE = 2
# `last_used_at` is for people: a write per report would be one too many.
LAST_USED_RESOLUTION = timedelta(minutes=1)

_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*")


class UnableToIssueNodeToken(ValueError):
    """Why no token was issued: `field` is node, lifetime or "" for the whole."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field, self.message = field, message


@dataclass(frozen=True, kw_only=True)
class NodeTokens(Generic[N, T]):
    """The tokens of one sort of report."""

    nodes: type[N]
    tokens: type[T]
    # Secret scanners know a leaked token by it.
    prefix: str
    # Of what is written in the audit trail: "cdi-token" makes "cdi-token.create".
    action: str
    # What else tells a node's row from others of its name.
    among: Mapping[str, str] = field(default_factory=dict)

    def issue(
        self,
        *,
        cluster: Cluster,
        node_name: str,
        lifetime: timedelta = DEFAULT_LIFETIME,
        actor: User | None,
        now: datetime,
        source_ip: str | None = None,
    ) -> tuple[T, str]:
        """A new token for a node and its plain text, which is nowhere else and never again.

        The node need not be in the mirror yet, but its name must be one. `actor` None is the command line.
        Raises UnableToIssueNodeToken.
        """
        name = node_name.strip()
        if len(name) > 253 or not _NODE_NAME.fullmatch(name):
            raise UnableToIssueNodeToken("node", _("This is no name that a node can have."))
        if not timedelta() < lifetime <= MAX_LIFETIME:
            raise UnableToIssueNodeToken("lifetime", _("A node's token lives for one day to one year."))
        plain = self.prefix + secrets.token_urlsafe(32)
        with transaction.atomic():
            made, _new = self.nodes._default_manager.get_or_create(
                cluster=cluster, name=name, **self.among, defaults={"created_at": now}
            )
            # Locked, so that two at once are counted.
            node = self.nodes._default_manager.select_for_update().get(pk=made.pk)
            live = self.tokens._default_manager.filter(node=node.pk, expires_at__gt=now, revoked_at=None)
            if live.count() >= MAX_LIVE:
                raise UnableToIssueNodeToken(
                    "",
                    _("This node has %(count)s tokens already. Revoke one that is not used.")
                    % {"count": MAX_LIVE},
                )
            token = self.tokens._default_manager.create(
                node_id=node.pk,
                digest=digest_of(plain),
                prefix=plain[: len(self.prefix) + 6],
                created_by=actor,
                created_at=now,
                expires_at=now + lifetime,
            )
            record(
                now=now,
                actor=actor,
                action=f"{self.action}.create",
                target=token,
                target_name=str(node),
                after={"token": token.prefix, "expires_at": token.expires_at},
                source_ip=source_ip,
            )
        return token, plain

    def revoke(self, *, token: T, actor: User | None, now: datetime, source_ip: str | None = None) -> None:
        """Ends a token at once. Revoking one that is revoked already does nothing."""
        with transaction.atomic():
            live = self.tokens._default_manager.filter(pk=token.pk, revoked_at=None)
            if live.update(revoked_at=now):
                record(
                    now=now,
                    actor=actor,
                    action=f"{self.action}.revoke",
                    target=token,
                    target_name=str(token.node),
                    before={"token": token.prefix, "expires_at": token.expires_at},
                    source_ip=source_ip,
                )

    def find(self, plain: str, *, now: datetime) -> T | None:
        """The live token with this text, with its node; None for anything else, whatever the reason. Of one
        that has ended, and of none else, it is known whose it was: there people see that it is still sent."""
        if not plain.startswith(self.prefix) or not plain.isascii():
            return None
        tokens = self.tokens._default_manager
        token = (
            tokens.select_related("node__cluster")
            .defer("node__cluster__kubeconfig_encrypted")
            .filter(digest=digest_of(plain))
            .first()
        )
        if token is None:
            return None
        unused = Q(last_used_at=None) | Q(last_used_at__lt=now - LAST_USED_RESOLUTION)
        tokens.filter(unused, pk=token.pk).update(last_used_at=now)
        if token.revoked_at is None and token.expires_at > now:
            return token
        self._note_refusal(token, TOKEN_REVOKED if token.revoked_at else TOKEN_EXPIRED, now=now)
        return None

    @transaction.atomic
    def _note_refusal(self, token: T, code: str, *, now: datetime) -> None:
        """Once for as long as it lasts, so that it is told since when; and who knows old tokens makes the
        desk write nothing more. Of a node that reports with a live token nothing is refused that matters."""
        node = token.node
        # With a report that is not overdue.
        since = now - patience(timedelta(seconds=node.interval_seconds))
        live = self.tokens._default_manager.filter(
            node=node.pk, revoked_at=None, expires_at__gt=now, last_used_at__gte=since
        )
        nodes = self.nodes._default_manager.filter(pk=node.pk).exclude(refusal__in=OF_TOKENS)
        if live.exists():
            return
        # While a report is taken in, none waits for it.
        if nodes.select_for_update(skip_locked=True).first() is not None:
            nodes.update(refused_at=now, refusal=code)


def digest_of(plain: str) -> str:
    return hashlib.sha256(plain.encode()).hexdigest()
