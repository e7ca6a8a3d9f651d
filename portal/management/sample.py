"""The sample organisation of the demo: people, projects, namespaces, prices, and the embedded cluster."""

from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

from django.db import transaction

from claims.models import Price, PriceBook
from inventory.bindings import bind
from inventory.models import Cluster, NamespaceBinding
from portal.accounts.models import Membership, Project, User
from portal.management.people import PASSWORD, PEOPLE, Person
from portal.management.sample_catalogue import make_sample_catalogue

CLUSTER = "northern"

# slug, name, cost centre, description, members by role
PROJECTS = (
    (
        *("protein-folding", "Protein folding", "LS-4100"),
        "Structure prediction for the institute of life sciences.",
        {"rhea": "member", "leo": "lead"},
    ),
    (
        *("weather-models", "Weather models", "GEO-2200"),
        "Medium-range ensemble forecasts.",
        {"leo": "member", "mika": "member"},
    ),
)

# Prices per device-hour in euro; the empty target prices every other device.
PRICES = (
    ("", "NVIDIA H100 80GB HBM3", Decimal("3.90")),
    ("", "NVIDIA A100-SXM4-40GB", Decimal("1.85")),
    ("mig.nvidia.com", "", Decimal("0.70")),
    ("gpu.amd.com", "", Decimal("3.20")),
    ("gaudi.intel.com", "", Decimal("1.40")),
    ("", "", Decimal("0.50")),
)


@transaction.atomic
def make_sample_organisation(*, now: datetime) -> None:
    """Make the people, projects and prices that are missing; what is there (and was perhaps changed by hand
    since) stays as it is."""
    people = {person.username: _person(person) for person in PEOPLE}
    for slug, name, cost_centre, description, roles in PROJECTS:
        project, created = Project.objects.get_or_create(
            slug=slug,
            defaults={
                "name": name,
                "cost_centre": cost_centre,
                "description": description,
                "created_at": now,
            },
        )
        if created:
            Membership.objects.bulk_create(
                Membership(user=people[username], project=project, role=role)
                for username, role in roles.items()
            )
    if not PriceBook.objects.exists():
        book = PriceBook.objects.create(
            name="Sample prices", currency="EUR", valid_from=now - timedelta(days=31)
        )
        Price.objects.bulk_create(
            Price(book=book, device_class=device_class, product=product, per_hour=price)
            for device_class, product, price in PRICES
        )


@transaction.atomic
def add_sample_cluster(*, kubeconfig: Path, now: datetime) -> None:
    """Follow the embedded cluster, and bind the namespaces that are named like projects to them."""
    cluster, _ = Cluster.objects.get_or_create(
        name=CLUSTER,
        defaults={
            "region": "Uppsala",
            "credentials": Cluster.Credentials.KUBECONFIG,
            "kubeconfig_path": str(kubeconfig),
            "kubeconfig_context": "portal",
            "created_at": now,
        },
    )
    bound = set(NamespaceBinding.objects.filter(cluster=cluster).values_list("namespace", flat=True))
    for slug, *_rest in PROJECTS:
        if slug not in bound:
            # A day back, so that what already runs on the cluster has an owner from its start.
            project = Project.objects.get(slug=slug)
            bind(cluster=cluster, namespace=slug, project=project, valid_from=now - timedelta(days=1))
    make_sample_catalogue(cluster=cluster, now=now)


def _person(person: Person) -> User:
    user, created = User.objects.get_or_create(
        username=person.username,
        defaults={
            "first_name": person.first_name,
            "last_name": person.last_name,
            "email": f"{person.username}@institute.example",
            "is_administrator": person.is_administrator,
            "is_finance": person.is_finance,
        },
    )
    if created:
        user.set_password(PASSWORD)
        user.save(update_fields=["password"])
    return user
