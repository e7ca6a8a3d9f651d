"""Whose a namespace is: at any instant one project's at most, and never changed for the past."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from inventory.models import Cluster, NamespaceBinding
from portal.accounts import audit
from portal.accounts.models import Project, User

# RFC 1123 label, as the API server has it for namespaces.
NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


# Rooms above the inventory may use a namespace themselves: whether they do in [start, end), and why then no
# project may have it ("" = it may).
Refusal = Callable[[Cluster, str, datetime, datetime | None], str]
_refusals: list[Refusal] = []


def register_refusal(refusal: Refusal) -> None:
    """Let `bind` ask this too; asked once however often it is registered."""
    if refusal not in _refusals:
        _refusals.append(refusal)


class UnableToBind(Exception):
    """The namespace cannot be bound so; `message` says why, for people, `field` names the input."""

    def __init__(self, message: str, *, field: str = "namespace") -> None:
        super().__init__(message)
        self.message = message
        self.field = field


def bind(
    *,
    cluster: Cluster,
    namespace: str,
    project: Project,
    now: datetime | None = None,
    valid_from: datetime | None = None,
    valid_until: datetime | None = None,
    actor: User | None = None,
    source_ip: str | None = None,
) -> NamespaceBinding:
    """Bind a namespace to a project from `valid_from` (else `now`) until `valid_until` (else without an end).

    Raises UnableToBind when the period is empty, or when the namespace is another's (or this project's
    already) at any time of it.
    """
    start = valid_from or now
    if start is None:
        raise ValueError("bind needs valid_from or now")
    if valid_until is not None and valid_until <= start:
        raise UnableToBind(_("The end has to come after the start."), field="valid_until")
    with transaction.atomic():
        # One writer at a time per cluster: two bindings made at once must see each other.
        Cluster.objects.select_for_update().get(pk=cluster.pk)
        period = Q(valid_until=None) | Q(valid_until__gt=start)
        if valid_until is not None:
            period &= Q(valid_from__lt=valid_until)
        taken = NamespaceBinding.objects.filter(period, cluster=cluster, namespace=namespace)
        other = taken.select_related("project").order_by("valid_from").first()
        if other is not None:
            raise UnableToBind(_belongs(other))
        for refusal in _refusals:
            if why := refusal(cluster, namespace, start, valid_until):
                raise UnableToBind(why)
        try:
            with transaction.atomic():
                binding = NamespaceBinding.objects.create(
                    cluster=cluster,
                    namespace=namespace,
                    project=project,
                    valid_from=start,
                    valid_until=valid_until,
                )
        except IntegrityError as error:
            raise UnableToBind(_("The namespace is bound already.")) from error
        _record(
            binding,
            "namespace.bind",
            now=now or start,
            actor=actor,
            source_ip=source_ip,
            after={"from": start, "until": valid_until},
        )
    return binding


def end(
    *,
    binding: NamespaceBinding,
    valid_until: datetime,
    now: datetime,
    actor: User | None = None,
    source_ip: str | None = None,
) -> None:
    """Let a binding that has not ended yet end at `valid_until`: at once, or later. Raises UnableToBind.

    What has been is never changed: neither does a binding end in the past, nor is an ended one opened again.
    """
    if valid_until < now:
        raise UnableToBind(
            _("The end cannot lie in the past: what was used until now is the project's."),
            field="valid_until",
        )
    if valid_until <= binding.valid_from:
        raise UnableToBind(_("The end has to come after the start."), field="valid_until")
    with transaction.atomic():
        Cluster.objects.select_for_update().get(pk=binding.cluster_id)
        lasting = Q(valid_until=None) | Q(valid_until__gt=now)
        current = NamespaceBinding.objects.filter(lasting, pk=binding.pk).first()
        if current is None:
            raise UnableToBind(_("The binding has ended already."))
        if current.valid_until is not None and valid_until > current.valid_until:
            following = NamespaceBinding.objects.filter(
                cluster=binding.cluster_id,
                namespace=binding.namespace,
                valid_from__gte=current.valid_until,
                valid_from__lt=valid_until,
            )
            if (next_one := following.select_related("project").first()) is not None:
                raise UnableToBind(_belongs(next_one), field="valid_until")
        NamespaceBinding.objects.filter(pk=binding.pk).update(valid_until=valid_until)
        _record(
            binding,
            "namespace.unbind",
            now=now,
            actor=actor,
            source_ip=source_ip,
            before={"until": current.valid_until},
            after={"until": valid_until},
        )


def unbind(
    *,
    binding: NamespaceBinding,
    now: datetime,
    actor: User | None = None,
    source_ip: str | None = None,
) -> None:
    """End a binding now, or, when it has not begun, take it away. Nothing happens where it has ended.

    What was used until now stays the project's.
    """
    with transaction.atomic():
        lasting = Q(valid_until=None) | Q(valid_until__gt=now)
        still_open = NamespaceBinding.objects.filter(lasting, pk=binding.pk)
        # One that never held for anything goes: a period must not be empty.
        never_held = binding.valid_from >= now
        ended = still_open.delete()[0] if never_held else still_open.update(valid_until=now)
        if ended:
            _record(binding, "namespace.unbind", now=now, actor=actor, source_ip=source_ip)


def project_of(cluster: Cluster, namespace: str, at: datetime) -> Project | None:
    """The project that a namespace belonged to at an instant."""
    lasting = Q(valid_until=None) | Q(valid_until__gt=at)
    found = NamespaceBinding.objects.filter(lasting, cluster=cluster, namespace=namespace, valid_from__lte=at)
    binding = found.select_related("project").first()
    return binding.project if binding else None


def namespaces_of(project: Project, *, at: datetime | None = None) -> list[NamespaceBinding]:
    """The bindings of a project that hold at an instant (None: those without an end)."""
    bindings = NamespaceBinding.objects.filter(project=project).select_related("cluster")
    if at is None:
        bindings = bindings.filter(valid_until=None)
    else:
        bindings = bindings.filter(Q(valid_until=None) | Q(valid_until__gt=at), valid_from__lte=at)
    return list(bindings.order_by("cluster__name", "namespace"))


def namespaces_on(cluster: Cluster, *, at: datetime) -> list[str]:
    """The namespaces of a cluster that belong to projects at an instant, by name."""
    bound = NamespaceBinding.objects.filter(cluster=cluster, valid_from__lte=at)
    bound = bound.filter(Q(valid_until=None) | Q(valid_until__gt=at))
    return list(bound.order_by("namespace").values_list("namespace", flat=True).distinct())


def _record(
    binding: NamespaceBinding,
    action: str,
    *,
    now: datetime,
    actor: User | None,
    source_ip: str | None,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    audit.record(
        action=action,
        target=binding,
        target_name=f"{binding.cluster.name}/{binding.namespace}",
        project=binding.project,
        actor=actor,
        source_ip=source_ip,
        now=now,
        before=before,
        after=after,
    )


def _belongs(other: NamespaceBinding) -> str:
    names = {"namespace": other.namespace, "project": other.project, "since": other.valid_from.date()}
    if other.valid_until is None:
        said = _("The namespace %(namespace)s belongs to the project %(project)s from %(since)s on.")
    else:
        names["until"] = other.valid_until.date()
        said = _(
            "The namespace %(namespace)s belongs to the project %(project)s from %(since)s until %(until)s."
        )
    return said % names
