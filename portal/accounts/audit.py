"""The audit trail: one entry per change, written in the transaction that makes the change."""

import ipaddress
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import Model
from django.http import HttpRequest

from portal.accounts.models import AuditEntry, Project, User


def record(
    *,
    now: datetime,
    actor: User | None,
    action: str,
    target: Model,
    target_name: str = "",
    target_kind: str = "",
    target_id: str = "",
    project: Project | None = None,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    source_ip: str | None = None,
) -> AuditEntry:
    """Appends one entry. Call it inside the transaction of the change, so that neither stands alone.

    `action` is "<kind>.<verb>" ("request.create"); `actor` None means the desk itself. `before` and `after`
    hold the changed values only (never a secret). Kind, id and name of the target are taken from the object
    unless given.
    """
    return AuditEntry.objects.create(
        at=now,
        actor=actor,
        action=action,
        target_kind=(target_kind or target._meta.model_name or "")[:40],
        target_id=(target_id or str(target.pk))[:64],
        target_name=(target_name or str(target))[:253],
        project=project,
        before=before,
        after=after,
        source_ip=source_ip,
    )


def record_named(
    *,
    now: datetime,
    actor: User | None,
    action: str,
    kind: str,
    key: str,
    name: str,
    project: Project | None = None,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    source_ip: str | None = None,
) -> AuditEntry:
    """The same for something without a row of ours (an object on a cluster)."""
    return AuditEntry.objects.create(
        at=now,
        actor=actor,
        action=action,
        target_kind=kind[:40],
        target_id=key[:64],
        target_name=name[:253],
        project=project,
        before=before,
        after=after,
        source_ip=source_ip,
    )


def changes(
    before: dict[str, Any], after: dict[str, Any]
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Only what differs, for `before=` and `after=`; (None, None) when nothing does."""
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    if not names:
        return None, None
    return ({n: before[n] for n in names if n in before}, {n: after[n] for n in names if n in after})


def record_edit(
    *,
    kind: str,
    target: Model,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
    actor: User | None,
    now: datetime,
    source_ip: str | None,
) -> None:
    """That `target` was added (no `before`), changed or removed (no `after`), as the action `kind.add`,
    `kind.change` or `kind.remove`; of a change only what differs."""
    verb = "change" if before and after else "add" if after else "remove"
    if before and after:
        before, after = changes(before, after)
    record(
        now=now, actor=actor, action=f"{kind}.{verb}", target=target, before=before, after=after,
        source_ip=source_ip,
    )  # fmt: skip


def source_ip(request: HttpRequest) -> str | None:
    """Where a request came from: the peer, or what the trusted proxies in front say of it.

    Anybody can send an X-Forwarded-For; only its last entries, one per trusted proxy, were written by those
    (CLAIMDESK_TRUSTED_PROXIES). None when it is no address.
    """
    address = request.META.get("REMOTE_ADDR", "")
    if proxies := settings.ALLAUTH_TRUSTED_PROXY_COUNT:
        written = request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")
        address = written[-proxies].strip() if len(written) >= proxies else ""
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return None
