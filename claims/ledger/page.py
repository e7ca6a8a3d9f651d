"""What administrators and auditors see of the ledger: audits, archives, and which bound is billed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from claims.ledger import keeping
from claims.ledger.bounds import Policies
from claims.models import Bound, LedgerAudit, LedgerPolicy
from inventory.models import Cluster, ObservationArchive

LABELS: dict[str, Promise] = {
    "allocated": _("Held"),
    "idle": _("Idle"),
    "unavailable": _("Unavailable"),
    "unknown": _("Unknown"),
    "existence": _("Existence"),
}
CODES: dict[str, Promise] = {
    "negative-interval": _("ends before it begins"),
    "overlap": _("two holders"),
    "over-capacity": _("more in use than there is"),
    "not-conserved": _("time does not add up"),
    "open-unknown": _("open, and not known to the cluster"),
    "missing": _("held, and not in the ledger"),
    "archive-damaged": _("an archived file is gone or was changed"),
}
SHOWN = 100


@dataclass(frozen=True)
class Kept:
    """One cluster's ledger; `audit` None = never checked."""

    cluster: Cluster
    audit: LedgerAudit | None
    # In hours.
    sums: Sequence[tuple[Promise, float]]
    violations: Sequence[tuple[Promise | str, str, str]]
    archives: Sequence[ObservationArchive]

    @property
    def more(self) -> int:
        """How many violations are not shown."""
        return self.audit.violation_count - len(self.violations) if self.audit else 0


def kept() -> list[Kept]:
    """Of every cluster, in three queries."""
    audits = {audit.cluster_id: audit for audit in LedgerAudit.objects.all()}
    archives: dict[int, list[ObservationArchive]] = {}
    for archive in ObservationArchive.objects.order_by("-month", "-part"):
        archives.setdefault(archive.cluster_id, []).append(archive)
    clusters = Cluster.objects.defer("kubeconfig_encrypted").order_by("name")
    return [_kept(cluster, audits.get(cluster.pk), archives.get(cluster.pk, [])) for cluster in clusters]


def _kept(cluster: Cluster, audit: LedgerAudit | None, archives: Sequence[ObservationArchive]) -> Kept:
    hours = keeping.hours(audit) if audit is not None else {}
    told = audit.violations[:SHOWN] if audit is not None else []
    return Kept(
        cluster=cluster,
        audit=audit,
        sums=[(label, float(hours[name])) for name, label in LABELS.items() if name in hours],
        violations=[(CODES.get(one["code"], one["code"]), one["where"], one["detail"]) for one in told],
        archives=archives,
    )


def bound_now(now: datetime) -> str:
    """Which bound counts for what begins now, for people."""
    rows = LedgerPolicy.objects.order_by("valid_from").values_list("valid_from", "bound")
    return str(Bound(Policies(tuple(rows)).at(now)).label)
