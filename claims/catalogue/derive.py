"""Flavors derived from what the clusters have: one for each DeviceClass, for each product where a class has
several, and for each extended resource. An administrator makes one with a click and refines it later."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction
from django.db.models import Count, Sum
from django.utils.translation import gettext as _

from claims.asks.reading import WHOLE
from claims.catalogue import flavor_terms, flavors, placements
from claims.catalogue.flavor_terms import UnableToChangeFlavor
from claims.catalogue.placement_terms import read_terms
from claims.models import Flavor, Placement
from inventory.models import ClassProfile, Cluster, CountedUnits, Device, DeviceClass, DeviceProfile
from portal.accounts.models import User

# What is no accelerator is not proposed: channels and daemons of fabrics come with the devices.
LEFT_OUT = ("channel",)


@dataclass
class Proposal:
    """A flavor that could be made. `places` are what each cluster would serve it by."""

    key: str
    name: str
    device_class: str = ""
    selector: str = ""
    resource: str = ""
    clusters: list[str] = field(default_factory=list)
    # Resource of a Device Plugin that offers the same, by cluster.
    plugins: dict[str, str] = field(default_factory=dict)
    devices: int = 0
    # Flavors that are served by it already.
    made: list[str] = field(default_factory=list)

    @property
    def slug(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")[:63].strip("-") or "flavor"


def proposals() -> Sequence[Proposal]:
    """What could be derived, classes first; a fixed number of queries."""
    clusters = dict(Cluster.objects.filter(enabled=True).values_list("pk", "name"))
    counted = list(
        CountedUnits.objects.filter(cluster__in=clusters, capacity__gt=0, counts=True)
        .values_list("cluster", "resource", "product")
        .annotate(units=Sum("capacity"))
        .order_by("resource", "cluster")
    )
    advertised: dict[tuple[int, str], set[str]] = defaultdict(set)
    for cluster, resource, product, _units in counted:
        advertised[cluster, resource].add(_plain(product))
    found = [*_of_classes(clusters, advertised), *_of_resources(clusters, counted)]
    _mark_made(found)
    return found


def derive(*, key: str, user: User, now: datetime, source_ip: str | None = None) -> Flavor:
    """Make the flavor of a proposal, with a placement on each of its clusters, or nothing at all. Raises
    UnableToChangeFlavor."""
    proposal = next((found for found in proposals() if found.key == key), None)
    if proposal is None:
        raise UnableToChangeFlavor({WHOLE: [_("No cluster has this any more.")]})
    terms = flavor_terms.read_terms({"slug": _free_slug(proposal.slug), "name": _free_name(proposal.name)})
    with transaction.atomic():
        flavor = flavors.create(terms=terms, user=user, now=now, source_ip=source_ip)
        for cluster in proposal.clusters:
            values = {
                "cluster": cluster,
                "device_class": proposal.device_class,
                "selectors": [proposal.selector] if proposal.selector else [],
                "extended_resource": proposal.resource or proposal.plugins.get(cluster, ""),
            }
            flavor.refresh_from_db()
            placements.save(
                flavor=flavor,
                placement=None,
                terms=read_terms(values),
                seen_version=flavor.version,
                user=user,
                now=now,
                source_ip=source_ip,
            )
    flavor.refresh_from_db()
    return flavor


def _plain(product: str) -> str:
    """A product's name without what drivers and labels write differently."""
    return re.sub(r"[^a-z0-9]", "", product.lower())


def _of_classes(
    clusters: Mapping[int, str], advertised: Mapping[tuple[int, str], set[str]]
) -> list[Proposal]:
    matches: dict[tuple[int, str], set[int]] = defaultdict(set)
    rows = ClassProfile.objects.filter(device_class__cluster__in=clusters, device_class__problem="")
    for cluster, name, profile in rows.values_list(
        "device_class__cluster", "device_class__name", "profile"
    ).distinct():
        matches[cluster, name].add(profile)
    profiles = DeviceProfile.objects.in_bulk({pk for found in matches.values() for pk in found})
    devices = Device.objects.filter(profile__in=profiles, cluster__in=clusters).order_by()
    counted = devices.values_list("cluster", "profile").annotate(n=Count("pk"))
    counts = {(cluster, profile): n for cluster, profile, n in counted}
    resources = {
        (cluster, name): resource
        for cluster, name, resource in DeviceClass.objects.filter(cluster__in=clusters)
        .exclude(extended_resource_name="")
        .values_list("cluster", "name", "extended_resource_name")
    }
    found: dict[str, Proposal] = {}
    for (cluster, name), kinds in sorted(matches.items(), key=lambda item: (item[0][1], item[0][0])):
        if all(profiles[pk].kind in LEFT_OUT for pk in kinds):
            continue
        products: dict[str, set[int]] = defaultdict(set)
        for pk in kinds:
            products[profiles[pk].product].add(pk)
        groups = {"": kinds} | (products if len(products) > 1 else {})
        for product, members in sorted(groups.items()):
            selector = _selector(product, [profiles[pk] for pk in members]) if product else ""
            if product and not selector:
                continue
            only = next(iter(products)) if len(products) == 1 else ""
            proposal = found.setdefault(
                f"class:{name}:{product}",
                Proposal(
                    key=f"class:{name}:{product}",
                    name=product or only or name,
                    device_class=name,
                    selector=selector,
                ),
            )
            proposal.clusters.append(clusters[cluster])
            proposal.devices += sum(counts.get((cluster, pk), 0) for pk in members)
            resource = resources.get((cluster, name), "")
            units = advertised.get((cluster, resource), set())
            # The same resource may stand for other hardware there: only what is the same both ways.
            if units and units <= {_plain(profiles[pk].product) for pk in members}:
                proposal.plugins[clusters[cluster]] = resource
    return list(found.values())


def _selector(product: str, profiles: Sequence[DeviceProfile]) -> str:
    """CEL that is true for this product, by an attribute whose text it is; "" where there is none."""
    names = [
        {name for name, value in profile.attributes.items() if value.get("string") == product}
        for profile in profiles
    ]
    common = sorted(set.intersection(*names)) if names else []
    domain, slash, name = common[0].rpartition("/") if common else ("", "", "")
    if not slash or '"' in product or "\\" in product:
        return ""
    # A device that lacks the attribute is left out instead of failing the whole allocation.
    attributes = f'device.attributes["{domain}"]'
    return f'"{name}" in {attributes} && {attributes}["{name}"] == "{product}"'


def _of_resources(
    clusters: Mapping[int, str], counted: Sequence[tuple[int, str, str, int]]
) -> list[Proposal]:
    products: dict[str, set[str]] = defaultdict(set)
    found: dict[str, Proposal] = {}
    for cluster, resource, product, units in counted:
        proposal = found.setdefault(
            resource, Proposal(key=f"resource:{resource}", name=resource, resource=resource)
        )
        products[resource].add(product)
        if clusters[cluster] not in proposal.clusters:
            proposal.clusters.append(clusters[cluster])
        proposal.devices += units
    for resource, proposal in found.items():
        if len(products[resource]) == 1:
            proposal.name = _("%(product)s (Device Plugin)") % {"product": next(iter(products[resource]))}
    return list(found.values())


def _mark_made(found: Sequence[Proposal]) -> None:
    rows = Placement.objects.filter(flavor__archived_at=None).select_related("flavor")
    for placement in rows.order_by("flavor__position", "pk"):
        for proposal in found:
            same_class = placement.device_class and placement.device_class == proposal.device_class
            selectors = [proposal.selector] if proposal.selector else []
            same = (same_class and placement.selectors == selectors) or (
                proposal.resource and placement.extended_resource == proposal.resource
            )
            if same and placement.flavor.name not in proposal.made:
                proposal.made.append(placement.flavor.name)


def _free_slug(slug: str) -> str:
    taken = set(Flavor.objects.filter(slug__startswith=slug).values_list("slug", flat=True))
    return next(text for n in range(1, len(taken) + 2) if (text := _numbered(slug, n, 63)) not in taken)


def _free_name(name: str) -> str:
    taken = set(Flavor.objects.filter(name__startswith=name[:100]).values_list("name", flat=True))
    return next(text for n in range(1, len(taken) + 2) if (text := _numbered(name, n, 120)) not in taken)


def _numbered(text: str, number: int, limit: int) -> str:
    suffix = f"-{number}" if number > 1 else ""
    return text[: limit - len(suffix)] + suffix
