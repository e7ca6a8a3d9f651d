"""“Tell me when one is free”: watched once, told once, and only from what the desk really sees."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from claims.catalogue.places import places_of
from claims.catalogue.stock import FleetOf
from claims.models import Flavor, Placement, Watch
from inventory.class_counts import class_rows
from inventory.coverage import coverage_of_all
from inventory.models import Cluster, DeviceClass
from inventory.snapshot import fleet
from portal.accounts import audit
from portal.accounts.models import User
from portal.accounts.notifications.kinds import Kind
from portal.accounts.notifications.telling import tell
from portal.accounts.notifications.texts import Text, as_written

MOST = 20
MOST_COUNT = 64
DAYS = 14
MOST_DAYS = 90
# What is over is kept for a while, so that people see what became of it.
KEPT_FOR = timedelta(days=30)


class UnableToWatch(ValueError):
    """`field` names the input, "" the whole."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field, self.message = field, message


def watch(
    *,
    person: User,
    count: int,
    days: int,
    now: datetime,
    flavor: Flavor | None = None,
    cluster: Cluster | None = None,
    device_class: str = "",
    source_ip: str | None = None,
) -> Watch:
    """Tell `person` once when `count` of a flavor at one place, or of a class on a cluster, are free, within
    so many days. Who waits for the same already changes that. Raises UnableToWatch."""
    if not 1 <= count <= MOST_COUNT:
        raise UnableToWatch("count", _("A number from 1 to %(most)s.") % {"most": MOST_COUNT})
    if not 1 <= days <= MOST_DAYS:
        raise UnableToWatch("days", _("A number from 1 to %(most)s.") % {"most": MOST_DAYS})
    target = {
        "flavor": flavor,
        "cluster": None if flavor else cluster,
        "device_class": "" if flavor else device_class,
    }
    values = {"count": count, "until": now + timedelta(days=days), "created_at": now}
    try:
        with transaction.atomic():
            changed = Watch.objects.filter(person=person, told_at=None, **target).first()
            if changed is None and Watch.objects.filter(person=person).waiting(now).count() >= MOST:
                raise UnableToWatch(
                    "", _("You wait for %(count)s things already; cancel one first.") % {"count": MOST}
                )
            if changed is None:
                made = Watch.objects.create(person=person, **target, **values)
            else:
                Watch.objects.filter(pk=changed.pk).update(**values)
                made = Watch.objects.get(pk=changed.pk)
            _record(made, "watch.create", now=now, ip=source_ip)
    except IntegrityError:
        # Pressed twice: the other one stands.
        made = Watch.objects.get(person=person, told_at=None, **target)
    return made


def cancel(*, watch: Watch, now: datetime, source_ip: str | None = None) -> None:
    """The person no longer waits for it."""
    with transaction.atomic():
        _record(watch, "watch.cancel", now=now, ip=source_ip)
        watch.delete()


def watches_of(person: User, *, now: datetime) -> QuerySet[Watch]:
    """What the person waits for."""
    rows = Watch.objects.filter(person=person).waiting(now).select_related("flavor", "cluster")
    return rows.defer("cluster__kubeconfig_encrypted").order_by("created_at", "pk")


def look(*, now: datetime, fleet_of: FleetOf = fleet) -> int:
    """Tell everybody whose wish is fulfilled now. Returns how many. Queries do not grow with the number of
    watches, but for those that are told."""
    Watch.objects.filter(until__lt=now - KEPT_FOR).delete()
    waiting = list(
        Watch.objects.waiting(now)
        .filter(person__is_active=True)
        .select_related("person", "flavor", "cluster")
        .defer("cluster__kubeconfig_encrypted")
    )
    if not waiting:
        return 0
    of_flavors = _free_of_flavors(waiting, now=now, fleet_of=fleet_of)
    of_classes = _free_of_classes(waiting, now=now)
    told = 0
    for row in waiting:
        free = (
            of_flavors.get(row.flavor_id)
            if row.flavor_id
            else of_classes.get((row.cluster_id or 0, row.device_class))
        )
        if free is not None and free >= row.count and _still_offered(row):
            told += _tell(row, free, now=now)
    return told


# --- inside ---------------------------------------------------------------------------------------


def _free_of_flavors(waiting: Sequence[Watch], *, now: datetime, fleet_of: FleetOf) -> Mapping[int, int]:
    """The most that is free at one place, by flavor; one that is seen nowhere is absent."""
    flavors = {row.flavor_id for row in waiting if row.flavor_id}
    rows = Placement.objects.filter(flavor__in=flavors, flavor__archived_at=None)
    places = places_of(list(rows.select_related("flavor", "cluster")), now=now, fleet_of=fleet_of)
    found: dict[int, int] = {}
    for place in places.values():
        if place.free is not None:
            key = place.placement.flavor_id
            found[key] = max(found.get(key, 0), place.free)
    return found


def _free_of_classes(waiting: Sequence[Watch], *, now: datetime) -> Mapping[tuple[int, str], int]:
    names = {row.device_class for row in waiting if row.device_class}
    if not names:
        return {}
    clusters = {row.cluster_id for row in waiting if row.cluster_id}
    classes = DeviceClass.objects.filter(cluster__in=clusters, name__in=names, problem="")
    return {
        (row.device_class.cluster_id, row.device_class.name): row.free
        for row in class_rows(list(classes), coverage=coverage_of_all(now=now))
        if row.free is not None
    }


def _still_offered(row: Watch) -> bool:
    """A flavor that was taken away from the person is none of theirs any more."""
    return row.flavor is None or Flavor.objects.visible_to(row.person).filter(pk=row.flavor.pk).exists()


def _tell(row: Watch, free: int, *, now: datetime) -> bool:
    with transaction.atomic():
        if not Watch.objects.filter(pk=row.pk, told_at=None).update(told_at=now):
            return False
        if row.flavor is not None:
            name, query = row.flavor.name, {"flavor": row.flavor.slug}
        else:
            assert row.cluster is not None, "a class is one cluster's"
            name = f"{row.device_class} ({row.cluster.name})"
            query = {"cluster": row.cluster.name, "device_class": row.device_class}
        tell(
            people=[row.person],
            kind=Kind.FREE,
            subject=Text(gettext_noop("Free now: %(free)s of %(name)s."), free=free, name=as_written(name)),
            body=Text(gettext_noop("It is not kept for you: who asks first gets it.")),
            url=f"{reverse('request-create')}?{urlencode(query)}",
            key=f"free:{row.pk}",
            facts={"free": free, **query},
            now=now,
        )
    return True


def _record(row: Watch, action: str, *, now: datetime, ip: str | None) -> None:
    audit.record(
        now=now,
        actor=row.person,
        action=action,
        target=row,
        after={"count": row.count, "until": row.until} if action == "watch.create" else None,
        source_ip=ip,
    )
