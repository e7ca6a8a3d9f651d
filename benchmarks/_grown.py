"""A desk that has grown for two years, straight into the tables of a PostgreSQL.

Rows are copies of a few that the product itself has made, with what tells them apart put in by the database:
whatever columns a table has, they are filled. Indexes and constraints are made afterwards, and how long each
took is told; references are not checked meanwhile.
"""

import hashlib
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

END = datetime(2026, 11, 1, tzinfo=UTC)
MONTH = datetime(2026, 10, 1, tzinfo=UTC)
BEGIN = END - timedelta(days=730)
PEOPLE = 1_000
PROJECTS = 200
# So many allocations came of one request, and so many of ten had Pods that are remembered.
PER_REQUEST = 20
DRIVER = "gpu.example.com"
CLASSES = ("gpu.example.com", "partition.example.com", "nic.example.com")


def copies(model: Any, seed: Any, rows: str, changes: Mapping[str, str]) -> int:
    """Copy the row `seed` once for each row of the query `rows` (known as ``n``), with `changes` (column →
    SQL); how many."""
    from django.db import connection
    from django.db.models import GeneratedField

    fields = [f for f in model._meta.local_concrete_fields if not isinstance(f, GeneratedField)]
    columns = [f.column for f in fields if not f.primary_key]
    told = [changes.get(column, f'seed."{column}"') for column in columns]
    unknown = changes.keys() - set(columns)
    assert not unknown, unknown
    with connection.cursor() as cursor:
        cursor.execute(
            f'INSERT INTO "{model._meta.db_table}" ({", ".join(columns)}) SELECT {", ".join(told)} '
            f'FROM ({rows}) AS n, "{model._meta.db_table}" AS seed WHERE seed.id = {seed.pk}'
        )
        count: int = cursor.rowcount
        cursor.execute(f'DELETE FROM "{model._meta.db_table}" WHERE id = %s', [seed.pk])
    return count


@contextmanager
def indexes_afterwards(*models: Any, but: str = "") -> Iterator[None]:
    """What can be rebuilt of the tables is not there within the block, and made after it; not `but`."""
    from django.db import connection

    made: list[tuple[str, str]] = []
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("SET maintenance_work_mem = '1GB'")
        for model in models:
            table = model._meta.db_table
            cursor.execute(
                "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint "
                "WHERE conrelid = %s::regclass AND contype IN ('u', 'x')",
                [table],
            )
            for name, definition in cursor.fetchall():
                cursor.execute(f'ALTER TABLE "{table}" DROP CONSTRAINT "{name}"')
                made.append((name, f'ALTER TABLE "{table}" ADD CONSTRAINT "{name}" {definition}'))
            cursor.execute(
                "SELECT c.relname, pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c "
                "ON c.oid = i.indexrelid WHERE i.indrelid = %s::regclass AND NOT i.indisprimary",
                [table],
            )
            for name, definition in cursor.fetchall():
                cursor.execute(f'DROP INDEX "{name}"')
                made.append((name, definition))
    yield
    with connection.cursor() as cursor:
        for name, definition in made:
            if name == but:
                print(f"  {name:45} left out", flush=True)
                continue
            began = time.perf_counter()
            cursor.execute(definition)
            print(f"  {name:45} made in {time.perf_counter() - began:6.1f} s", flush=True)
        cursor.execute("SET session_replication_role = DEFAULT")


def plant(*, allocations: int, clusters: int, nodes: int) -> None:
    """People, projects, mirrors of `clusters` with `nodes` × 8 devices each, requests, the ledger, and the
    charges of all months but the last."""
    from django.db import connection

    from claims.ledger.exclusion import NAME
    from claims.models import Allocation, Charge, Consumer, Request

    began = time.perf_counter()
    _people()
    _mirrors(clusters, nodes)
    _say("people and mirrors", began)
    with indexes_afterwards(Request):
        requests = max(100, allocations // PER_REQUEST)
        _requests(requests)
    # A whole exclusion constraint at once takes longer than all else together, and no page asks it.
    exclusion = NAME if allocations > 1_000_000 else ""
    with indexes_afterwards(Allocation, Consumer, but=exclusion):
        _allocations(allocations, requests)
        _say(f"{allocations} allocations without indexes", began)
    with indexes_afterwards(Charge):
        _charges()
        _say("charges without indexes", began)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    _say("all of it, analysed", began)


def _say(what: str, began: float) -> None:
    print(f"{what}: after {time.perf_counter() - began:.0f} s", flush=True)


def _people() -> None:
    from claims.models import Price, PriceBook
    from portal.accounts.models import Membership, Project, User

    users = User.objects.bulk_create(
        [
            User(username=f"person-{number:04}", email=f"person-{number:04}@example.org", password="!")
            for number in range(PEOPLE)
        ]
    )
    projects = Project.objects.bulk_create(
        [
            Project(slug=f"project-{number:03}", name=f"Project {number:03}", created_at=BEGIN)
            for number in range(PROJECTS)
        ]
    )
    # A person works in one project or two; one in forty leads theirs.
    Membership.objects.bulk_create(
        [
            Membership(
                user=user, project=projects[number % PROJECTS], role="member" if number % 40 else "lead"
            )
            for number, user in enumerate(users)
        ]
        + [
            Membership(user=user, project=projects[(number * 7 + 3) % PROJECTS], role="member")
            for number, user in enumerate(users)
            if number % 2 and (number * 7 + 3) % PROJECTS != number % PROJECTS
        ]
    )
    for name, since in (("first", BEGIN), ("second", MONTH + timedelta(days=12, hours=7))):
        book = PriceBook.objects.create(name=name, currency="EUR", valid_from=since)
        for device_class, product, price in (
            (CLASSES[0], "", "1.25"),
            ("", "Accelerator 03", "2.718281"),
            ("", "", "0.333333"),
        ):
            Price.objects.create(
                book=book, device_class=device_class, product=product, per_hour=Decimal(price)
            )


def _mirrors(clusters: int, nodes: int) -> None:
    """As a follower would have left them: see `tests.inventory_pages.factories`."""
    from inventory.models import Cluster, NamespaceBinding
    from portal.accounts.models import Project
    from tests.inventory_pages.factories import make_cluster, make_fleet, make_holders

    projects = list(Project.objects.order_by("pk"))
    for number in range(clusters):
        cluster = make_cluster(f"cluster-{number:02}")
        make_fleet(cluster, nodes=nodes, kinds=24)
        if not number:
            # Whose project is made with them; the others' devices are free.
            make_holders(cluster)
        NamespaceBinding.objects.bulk_create(
            [
                NamespaceBinding(cluster=cluster, namespace=project.slug, project=project, valid_from=BEGIN)
                for project in projects
            ]
        )
    Cluster.objects.update(mirror_version=1, fleet_version=1)


def _requests(count: int) -> None:
    from claims.models import Request
    from inventory.models import Cluster
    from portal.accounts.models import Project, User

    seed = Request.objects.create(
        project=Project.objects.earliest("pk"),
        requester=User.objects.earliest("pk"),
        cluster=Cluster.objects.earliest("pk"),
        namespace="project-000",
        device_class=CLASSES[0],
        count=1,
        shape=Request.Shape.CLAIM,
        spec={"devices": {"requests": [{"name": "device", "exactly": {"deviceClassName": CLASSES[0]}}]}},
        duration=timedelta(hours=12),
        purpose="Folding of the March set",
        state=Request.State.ENDED,
        created_at=BEGIN,
        changed_at=BEGIN,
        object_name="seed",
    )
    first_project, first_person, first_cluster = seed.project_id, seed.requester_id, seed.cluster_id
    clusters, of_one = Cluster.objects.count(), PEOPLE // PROJECTS
    at = f"'{BEGIN:%Y-%m-%d}'::timestamptz + i * interval '{730 * 86400 / count:.6f} seconds'"
    rows = f"SELECT i, {at} AS at, i % {PROJECTS} AS project FROM generate_series(0, {count - 1}) AS i"
    copies(
        Request,
        seed,
        rows,
        {
            "key": "md5('request' || i)::uuid",
            "project_id": f"{first_project} + project",
            # People of the project: see `_people`.
            "requester_id": f"{first_person} + project + {PROJECTS} * (i / {PROJECTS} % {of_one})",
            "cluster_id": f"{first_cluster} + i % {clusters}",
            "namespace": "'project-' || lpad(project::text, 3, '0')",
            "object_name": "'claim-' || lpad(i::text, 9, '0')",
            "object_uid": "'uid-' || i",
            "created_at": "at",
            "changed_at": "at + interval '13 hours'",
            "allocated_at": "at + interval '5 minutes'",
            "ended_at": "at + interval '13 hours'",
            "purpose": "'Run ' || i || ' of the set'",
        },
    )


def _allocations(count: int, requests: int) -> None:
    """One after the other in time, as a ledger grows; each on the next device, so that none has two."""
    from django.db import connection

    from claims.models import Allocation, Consumer, Request
    from inventory.models import Cluster, Device
    from portal.accounts.models import Project

    device = Device.objects.select_related("pool", "profile").earliest("pk")
    seed = Allocation.objects.create(
        cluster=Cluster.objects.earliest("pk"),
        namespace="seed",
        claim_name="seed",
        claim_uid="seed",
        epoch=1,
        driver=DRIVER,
        pool_name="seed",
        device_name="seed",
        request_name="device",
        capacity={"memory": {"value": "80Gi"}},
        started_at=BEGIN,
        start_source="allocationTimestamp",
        ended_at=BEGIN + timedelta(hours=1),
        end_source="observed",
    )
    consumer = Consumer.objects.create(
        cluster=device.cluster,
        claim_uid="seed",
        epoch=1,
        resource="pods",
        name="seed",
        uid="seed",
        joined_at=BEGIN,
    )
    project, request = Project.objects.earliest("pk").pk, Request.objects.earliest("pk").pk
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TEMPORARY TABLE place AS SELECT row_number() OVER (ORDER BY d.name, d.id) - 1 AS number, "
            "d.cluster_id, p.driver, p.name AS pool, d.name, d.node_name, d.hardware_id, f.product, f.digest "
            "FROM inventory_device d JOIN inventory_pool p ON p.id = d.pool_id "
            "JOIN inventory_deviceprofile f ON f.id = d.profile_id"
        )
        cursor.execute("ANALYZE place")
        cursor.execute("SELECT count(*) FROM place")
        (devices,) = cursor.fetchone()
    step = 730 * 86400 / count
    assert step * devices > 21 * 3600, "so many allocations need more devices"
    rows = (
        f"SELECT i, place.*, i % {requests} AS request, "
        f"'{BEGIN:%Y-%m-%d}'::timestamptz + i * interval '{step:.9f} seconds' AS at, "
        "interval '1 hour' + (i * 104729 % 68400) * interval '1 second' AS length "
        f"FROM generate_series(0::bigint, {count - 1}) AS i JOIN place ON place.number = i % {devices}"
    )
    name = "'claim-' || lpad(i::text, 9, '0')"
    copies(
        Allocation,
        seed,
        rows,
        {
            "cluster_id": "n.cluster_id",
            "namespace": f"'project-' || lpad((request % {PROJECTS})::text, 3, '0')",
            "claim_name": name,
            "claim_uid": "md5('claim' || i)::uuid::text",
            "driver": "n.driver",
            "pool_name": "n.pool",
            "device_name": "n.name",
            "node_name": "n.node_name",
            "hardware_id": "n.hardware_id",
            "product": "n.product",
            "profile_digest": "n.digest",
            "device_class": f"(ARRAY{list(CLASSES)})[1 + i % {len(CLASSES)}]",
            "started_at": "at",
            # What began last still runs, one of three.
            "ended_at": f"CASE WHEN i < {count} * 0.99 OR i % 3 > 0 THEN at + length END",
            "end_source": f"CASE WHEN i < {count} * 0.99 OR i % 3 > 0 THEN 'observed' ELSE '' END",
            # One of a hundred is nobody's.
            "project_id": f"CASE WHEN i % 97 > 0 THEN {project} + request % {PROJECTS} END",
            "request_id": f"CASE WHEN i % 97 > 0 THEN {request} + request END",
        },
    )
    copies(
        Consumer,
        consumer,
        rows,
        {
            "cluster_id": "n.cluster_id",
            "claim_uid": "md5('claim' || i)::uuid::text",
            "name": "'run-' || i",
            "uid": "md5('pod' || i)::uuid::text",
            "joined_at": "at",
            "left_at": "at + length",
        },
    )


def _charges() -> None:
    from claims.models import Charge, PriceBook
    from inventory.models import Cluster

    book = PriceBook.objects.earliest("pk")
    seed = Charge.objects.create(
        source=hashlib.sha256(uuid.uuid4().bytes).hexdigest(),
        month=f"{BEGIN:%Y-%m}",
        started_us=0,
        ended_us=1,
        cluster=Cluster.objects.earliest("pk"),
        epoch=1,
        book=book,
        currency="EUR",
        quantity=1,
        list_micros=1_250_000,
        content="",
        closed=True,
    )
    digest = "encode(sha256(a.id::text::bytea), 'hex')"
    copies(
        Charge,
        seed,
        f"SELECT a.*, {digest} AS digest, to_char(started_at AT TIME ZONE 'UTC', 'YYYY-MM') AS billed "
        f"FROM claims_allocation a WHERE started_at < '{MONTH:%Y-%m-%d}' ORDER BY id",
        {
            "source": "n.digest",
            "content": "n.digest",
            "month": "billed",
            "ended_us": "n.ended_us",
            **{
                column: f"n.{column}"
                for column in (
                    *("started_us", "project_id", "cluster_id", "claim_uid", "driver", "pool_name"),
                    *("device_name", "hardware_id", "device_class", "product", "profile_digest"),
                )
            },
        },
    )
