"""Whose a namespace is: at any instant one project's at most, and never changed for the past."""

from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from inventory.models import Cluster, NamespaceBinding
from portal.accounts import audit
from portal.accounts.models import Project, User


class UnableToBind(Exception):
    """The namespace cannot be bound; `message` says why, for people."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def bind(
    *,
    cluster: Cluster,
    namespace: str,
    project: Project,
    now: datetime | None = None,
    valid_from: datetime | None = None,
    actor: User | None = None,
    source_ip: str | None = None,
) -> NamespaceBinding:
    """Bind a namespace to a project from `valid_from` (else `now`) on, without an end. Raises UnableToBind
    when it is another's (or this project's already) at any time from then on."""
    start = valid_from or now
    if start is None:
        raise ValueError("bind needs valid_from or now")
    with transaction.atomic():
        # One writer at a time per cluster: two bindings made at once must see each other.
        Cluster.objects.select_for_update().get(pk=cluster.pk)
        later = Q(valid_until=None) | Q(valid_until__gt=start)
        taken = NamespaceBinding.objects.filter(later, cluster=cluster, namespace=namespace)
        other = taken.select_related("project").order_by("valid_from").first()
        if other is not None:
            raise UnableToBind(
                _("The namespace %(namespace)s belongs to the project %(project)s from %(since)s on.")
                % {"namespace": namespace, "project": other.project, "since": other.valid_from.date()}
            )
        try:
            with transaction.atomic():
                binding = NamespaceBinding.objects.create(
                    cluster=cluster, namespace=namespace, project=project, valid_from=start
                )
        except IntegrityError as error:
            raise UnableToBind(_("The namespace is bound already.")) from error
        _record(binding, "namespace.bind", now=now or start, actor=actor, source_ip=source_ip)
    return binding


def unbind(
    *,
    binding: NamespaceBinding,
    now: datetime,
    actor: User | None = None,
    source_ip: str | None = None,
) -> None:
    """End a binding now; what was used until now stays the project's. Nothing happens where it has ended."""
    with transaction.atomic():
        still_open = NamespaceBinding.objects.filter(pk=binding.pk, valid_until=None)
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


def _record(
    binding: NamespaceBinding,
    action: str,
    *,
    now: datetime,
    actor: User | None,
    source_ip: str | None,
) -> None:
    audit.record(
        action=action,
        target=binding,
        target_name=f"{binding.cluster.name}/{binding.namespace}",
        project=binding.project,
        actor=actor,
        source_ip=source_ip,
        now=now,
    )
