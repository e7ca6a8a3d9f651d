"""What a flavor means for an ask: where it is served and by which way, and its limits. Judged on every path
(form, preview, REST, clone) by the same functions."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from django.utils.translation import gettext as _

from claims.asks.reading import WrongValue, read_integer, read_quantity, read_text
from claims.catalogue.offers import may_ask_for
from claims.models import Flavor, Placement, Request
from inventory.mirror import matching
from inventory.mirror.writer import features_of
from inventory.models import Cluster, CountedUnits, DeviceProfile, NamespaceBinding, Node
from portal.accounts.models import Project, User
from portal.dra.quantity import Quantity

HOUR = timedelta(hours=1)


def read_flavor(values: Mapping[str, object], *, user: User, project: Project | None) -> Flavor | None:
    """The flavor that is asked for; None = described by the person."""
    slug = read_text(values, "flavor")
    if not slug:
        return None
    found = Flavor.objects.all().visible_to(user).offered().filter(slug=slug).first()
    if found is None:
        raise WrongValue(
            _("The catalogue has no flavor “%(name)s” for you (any more).") % {"name": slug[:63]}
        )
    if project is not None and not may_ask_for(user=user, flavor=found, project=project):
        raise WrongValue(_("This flavor is not offered to you for this project."))
    return found


def placements_of(flavor: Flavor) -> list[Placement]:
    """Where the flavor is served, in order; clusters that are switched off left out."""
    rows = flavor.placements.filter(cluster__enabled=True).select_related("cluster", "flavor")
    return list(rows.order_by("position", "pk"))


def default_cluster(
    placements: Sequence[Placement], project: Project | None, *, now: datetime
) -> Cluster | None:
    """Where to ask for it if nothing else is said: the first cluster where the project has a namespace."""
    clusters = list(dict.fromkeys(placement.cluster for placement in placements))
    bound: set[int] = set()
    if project is not None:
        bindings = NamespaceBinding.objects.filter(project=project, cluster__in=clusters, valid_from__lte=now)
        live = bindings.exclude(valid_until__lte=now)
        bound = set(live.values_list("cluster_id", flat=True))
    return next((c for c in clusters if c.pk in bound), clusters[0] if clusters else None)


def read_placement(
    values: Mapping[str, object], *, flavor: Flavor, cluster: Cluster, placements: Sequence[Placement]
) -> Placement:
    """The placement on `cluster`: of the node pool that is named, else the first. WrongValue is about the
    cluster."""
    here = [placement for placement in placements if placement.cluster_id == cluster.pk]
    if not here:
        elsewhere = ", ".join(dict.fromkeys(placement.cluster.name for placement in placements))
        raise WrongValue(
            _("%(flavor)s is not served on %(cluster)s. It is on: %(clusters)s.")
            % {"flavor": flavor, "cluster": cluster, "clusters": elsewhere or "–"}
        )
    pool = read_text(values, "pool", limit=63)
    if not pool:
        return here[0]
    found = next((placement for placement in here if placement.pool == pool), None)
    if found is None:
        raise WrongValue(
            _("%(flavor)s is not served by a node pool “%(pool)s” there.") % {"flavor": flavor, "pool": pool}
        )
    return found


def profiles_of(placement: Placement, profiles: Sequence[DeviceProfile]) -> list[DeviceProfile]:
    """Those kinds of a class's devices that the placement's selectors choose. Where these read what only the
    single device has, every kind may have some."""
    cluster = placement.cluster
    features = features_of(cluster.server_version, served=cluster.served)
    expressions = matching.compile_all(placement.selectors, features=features)
    if expressions.reads_identity:
        return list(profiles)
    matched = matching.match(expressions, profiles, cluster_id=cluster.pk).profiles
    return [profile for profile in profiles if profile.pk in matched]


def node_names(placement: Placement) -> list[str] | None:
    """Names of the nodes of its pool; None = the whole cluster."""
    if not placement.node_selector:
        return None
    rows = Node.objects.filter(cluster=placement.cluster).values_list("name", "labels")
    wanted = placement.node_selector.items()
    return [name for name, labels in rows if all(labels.get(key) == value for key, value in wanted)]


# --- limits -----------------------------------------------------------------------------------------


def count_within(flavor: Flavor, count: int | None) -> int:
    """The number of devices: what is usual when nothing is said; else WrongValue beyond the limits."""
    if count is None:
        return flavor.default_count
    if not flavor.min_count <= count <= flavor.max_count:
        raise WrongValue(
            _("Of %(flavor)s, %(least)s to %(most)s devices in one request.")
            % {"flavor": flavor, "least": flavor.min_count, "most": flavor.max_count}
        )
    return count


def read_count(values: Mapping[str, object], flavor: Flavor) -> int:
    return count_within(flavor, read_integer(values, "count"))


def duration_within(flavor: Flavor, duration: timedelta) -> timedelta:
    """WrongValue beyond the limits, which are whole hours."""
    if not flavor.min_duration <= duration <= flavor.max_duration:
        raise WrongValue(
            _("Of %(flavor)s, for %(least)s to %(most)s hours.")
            % {
                "flavor": flavor,
                "least": flavor.min_duration // HOUR,
                "most": flavor.max_duration // HOUR,
            }
        )
    return duration


def memory_within(flavor: Flavor, typed: str, *, said: bool) -> str:
    """The least memory of each device: what is usual when nothing is `said`, the least that the flavor
    allows when any would do; else WrongValue beyond the limits."""
    if not typed:
        return flavor.min_memory if said else flavor.default_memory or flavor.min_memory
    wanted = Quantity.parse(typed)
    too_little = flavor.min_memory and wanted < Quantity.parse(flavor.min_memory)
    too_much = flavor.max_memory and wanted > Quantity.parse(flavor.max_memory)
    if too_little or too_much:
        raise WrongValue(
            _("Of %(flavor)s, memory from %(least)s to %(most)s.")
            % {"flavor": flavor, "least": flavor.min_memory or "–", "most": flavor.max_memory or "–"}
        )
    return typed


def read_memory_of_units(values: Mapping[str, object], placement: Placement) -> str:
    """Memory asked of a Device Plugin, which cannot choose: only what every unit has."""
    typed = read_quantity(values, "min_memory")
    if typed:
        sizes = [row.memory_bytes for row in units_of(placement)]
        if not sizes or any(
            size is None or Quantity.from_int(size) < Quantity.parse(typed) for size in sizes
        ):
            raise WrongValue(
                _(
                    "A Device Plugin cannot choose by memory, and not every unit here has so much. Leave "
                    "it empty."
                )
            )
    return typed


def read_shape(values: Mapping[str, object], *, backend: str) -> str:
    """The shape; what the backend has, when nothing is said."""
    typed = read_text(values, "shape")
    if backend == Request.Backend.PLUGIN:
        if typed not in ("", Request.Shape.ENTITLEMENT):
            raise WrongValue(_("A Device Plugin knows no claims: only an entitlement can be asked for."))
        return Request.Shape.ENTITLEMENT
    return typed or Request.Shape.CLAIM


def units_of(placement: Placement) -> list[CountedUnits]:
    """Units of the placement's Device Plugin, on the nodes of its pool."""
    rows = CountedUnits.objects.filter(
        cluster=placement.cluster, resource=placement.extended_resource, capacity__gt=0
    )
    names = node_names(placement)
    wanted = None if names is None else set(names)
    return [row for row in rows if wanted is None or row.node_name in wanted]
