"""Tokens of nodes: issued by administrators for one node, shown once, kept as a digest, revocable, expiring.

A node's token writes that node's report and does nothing else: it is no API token of a person.
"""

import hashlib
import re
import secrets
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from inventory.models import CdiNode, CdiToken, Cluster
from portal.accounts.audit import record
from portal.accounts.models import User

# Secret scanners know a leaked token by it.
PREFIX = "cdnode_"
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


def issue(
    *,
    cluster: Cluster,
    node_name: str,
    lifetime: timedelta = DEFAULT_LIFETIME,
    actor: User | None,
    now: datetime,
    source_ip: str | None = None,
) -> tuple[CdiToken, str]:
    """A new token for a node and its plain text, which is nowhere else and never again.

    The node need not be in the mirror yet, but its name must be one. `actor` None is the command line.
    Raises UnableToIssueNodeToken.
    """
    name = node_name.strip()
    if len(name) > 253 or not _NODE_NAME.fullmatch(name):
        raise UnableToIssueNodeToken("node", _("This is no name that a node can have."))
    if not timedelta() < lifetime <= MAX_LIFETIME:
        raise UnableToIssueNodeToken("lifetime", _("A node's token lives for one day to one year."))
    plain = PREFIX + secrets.token_urlsafe(32)
    with transaction.atomic():
        made, _new = CdiNode.objects.get_or_create(cluster=cluster, name=name, defaults={"created_at": now})
        # Locked, so that two at once are counted.
        node = CdiNode.objects.select_for_update().get(pk=made.pk)
        if node.tokens.filter(expires_at__gt=now, revoked_at=None).count() >= MAX_LIVE:
            raise UnableToIssueNodeToken(
                "",
                _("This node has %(count)s tokens already. Revoke one that is not used.")
                % {"count": MAX_LIVE},
            )
        token = CdiToken.objects.create(
            node=node,
            digest=digest_of(plain),
            prefix=plain[: len(PREFIX) + 6],
            created_by=actor,
            created_at=now,
            expires_at=now + lifetime,
        )
        record(
            now=now,
            actor=actor,
            action="cdi-token.create",
            target=token,
            target_name=str(node),
            after={"token": token.prefix, "expires_at": token.expires_at},
            source_ip=source_ip,
        )
    return token, plain


def revoke(*, token: CdiToken, actor: User | None, now: datetime, source_ip: str | None = None) -> None:
    """Ends a token at once. Revoking one that is revoked already does nothing."""
    with transaction.atomic():
        if CdiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=now):
            record(
                now=now,
                actor=actor,
                action="cdi-token.revoke",
                target=token,
                target_name=str(token.node),
                before={"token": token.prefix, "expires_at": token.expires_at},
                source_ip=source_ip,
            )


def find(plain: str, *, now: datetime) -> CdiToken | None:
    """The live token with this text, with its node; None for anything else, whatever the reason."""
    if not plain.startswith(PREFIX) or not plain.isascii():
        return None
    token = (
        CdiToken.objects.select_related("node__cluster")
        .defer("node__cluster__kubeconfig_encrypted")
        .filter(digest=digest_of(plain), revoked_at=None, expires_at__gt=now)
        .first()
    )
    if token is not None:
        unused = Q(last_used_at=None) | Q(last_used_at__lt=now - LAST_USED_RESOLUTION)
        CdiToken.objects.filter(unused, pk=token.pk).update(last_used_at=now)
    return token


def digest_of(plain: str) -> str:
    return hashlib.sha256(plain.encode()).hexdigest()
