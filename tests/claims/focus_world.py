"""Random months for the export: a closed March of every kind of charge, and an April that corrects it."""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from decimal import Decimal
from fractions import Fraction
from typing import Any

from claims.focus.dataset import Dataset
from claims.focus.wanted import Wanted
from claims.history.curves import us
from claims.models import Charge, Price, PriceBook
from claims.money import adjusting, closing
from claims.money.idle_cost import pass_on
from claims.money.months import Month, zone_named
from claims.money.rating import content_of
from inventory.models import Cluster
from portal.accounts.models import Project, User

MARCH, APRIL = Month(2026, 3), Month(2026, 4)
# Clocks change in both directions where one of these is; and in one of them months begin on the day before.
ZONES = ("UTC", "Europe/Paris", "Asia/Shanghai")
CURRENCIES = ("EUR", "JPY", "KWD")


@dataclass(kw_only=True)
class World:
    """What was made. `now` is in the middle of April."""

    rng: random.Random
    zone: tzinfo
    projects: list[Project]
    books: list[PriceBook]
    clusters: list[Cluster]
    finance: User
    lead: User

    @property
    def now(self) -> datetime:
        return APRIL.start(self.zone) + timedelta(days=11, hours=5, microseconds=123_457)

    def dataset(
        self, version: str, *, period: str = "2026-03", through: str = "2026-04", project: str = "",
        viewer: User | None = None,
    ) -> Dataset:  # fmt: skip
        asked = {"version": version, "period": period, "through": through, "project": project}
        wanted = Wanted.parse(asked, now=self.now, zone=self.zone)
        assert not wanted.errors
        return Dataset(
            wanted, zone=self.zone, organisation="University of Example", viewer=viewer, now=self.now
        )


def make_world(seed: int, *, charges: int = 40) -> World:
    """A world of its own for each seed; the database must be empty of money."""
    rng = random.Random(seed)
    zone = zone_named(rng.choice(ZONES))
    start = MARCH.start(zone)
    currency = rng.choice(CURRENCIES)
    books = [
        PriceBook.objects.create(name=f"Prices {n}", currency=cur, valid_from=start + timedelta(days=17 * n))
        for n, cur in enumerate((currency, rng.choice((currency, "EUR"))))
    ]
    for book in books:
        Price.objects.create(book=book, per_hour=Decimal(1))
    names = (("tides", "Tides"), ("eiwei", "蛋白质折叠"), ("soils", "Soils = earth"))
    world = World(
        rng=rng,
        zone=zone,
        projects=[Project.objects.create(slug=s, name=n, created_at=start) for s, n in names],
        books=books,
        clusters=[Cluster.objects.create(name=name, created_at=start) for name in ("north", "south")],
        finance=User.objects.create(username="finn", is_finance=True),
        lead=User.objects.create(username="ada", is_administrator=True),
    )
    for number in range(charges):
        _use(world, MARCH, number)
    for number in range(charges // 4):
        _idle(world, number)
    pass_on(month=MARCH, zone=zone, actor=world.finance, now=APRIL.start(zone))
    for project in world.projects[:2]:
        _adjust(world, project, MARCH, refers_to=None)
    closed = {p.pk if p else None: _close(world, p) for p in (*world.projects[:2], None)}
    for number in range(charges // 2):
        _use(world, APRIL, 1000 + number)
    for project in world.projects[:2]:
        _adjust(world, project, APRIL, refers_to=closed[project.pk])
        _correct(world, project)
    return world


def save(charge: Charge) -> Charge:
    charge.content = content_of(charge)
    charge.save()
    return charge


def _use(world: World, month: Month, number: int) -> None:
    rng, (start, end) = world.rng, month.bounds(world.zone)
    whole = us(end) - us(start)
    begins = us(start) + rng.randrange(whole - 1)
    lasts = rng.choice((1, 999_999, 7_000_000, rng.randrange(1, whole)))
    # Most have a price; the share of a device is any fraction.
    book = rng.choice((*world.books, None)) if rng.random() < 0.3 else world.books[0]
    unit, per = rng.choice((("device", ""), ("capacity", "1Gi"), ("capacity", "4Gi"), ("counters", "")))
    values: dict[str, Any] = {
        "unit": unit, "per": per, "currency": book.currency, "list_micros": _price(unit, per, book),
        "discount_micros": rng.choice((0, 125_000, 333_333)), "book": book,
    } if book else {}  # fmt: skip
    save(
        Charge(
            kind=Charge.Kind.USAGE,
            source=f"{number:064x}",
            month=str(month),
            started_us=begins,
            ended_us=min(begins + lasts, us(end)),
            project=rng.choice((*world.projects, *world.projects, None)),
            cost_centre=rng.choice(("", "GEO-1", "研究")),
            cluster=rng.choice(world.clusters),
            claim_uid=f"uid-{number}",
            epoch=rng.randrange(3),
            driver="gpu.example.com",
            pool_name=f"node-{number % 7}",
            device_name=f"gpu-{number % 5}",
            device_class=rng.choice(("", "gpu.example.com")),
            product=rng.choice(("", "Accelerator 80", "=SUM(A1)", "加速器")),
            profile_digest=f"{number % 2:064x}",
            use=rng.choice(("held", "unused")),
            quantity=Fraction(rng.randrange(1, 9), rng.randrange(1, 9)),  # type: ignore[misc] # fractions
            **values,
        )
    )


def _price(unit: str, per: str, book: PriceBook) -> int:
    """One price per SKU and version, as books have it."""
    return random.Random(f"{unit}{per}{book.pk}").randrange(0, 9_000_000)


def _idle(world: World, number: int) -> None:
    rng, start = world.rng, us(MARCH.start(world.zone))
    begins = start + number * 7_200_000_000 + rng.randrange(3_600_000_000)
    save(
        Charge(
            kind=Charge.Kind.IDLE,
            source=f"idle-{number}",
            month=str(MARCH),
            started_us=begins,
            ended_us=begins + rng.randrange(3_600_000_000),
            cluster=world.clusters[0],
            device_name="gpu.example.com/node-1/gpu-1",
            product="Accelerator 80",
            use="idle",
            quantity=Fraction(rng.randrange(1, 8), 8),  # type: ignore[misc] # fractions
            book=world.books[0],
            currency=world.books[0].currency,
            list_micros=431_007,
        )
    )


def _adjust(world: World, project: Project, month: Month, *, refers_to: Any) -> None:
    for minor in (-1234, 77):
        made = adjusting.propose(
            project=project, month=month, minor=minor, currency=world.books[0].currency,
            reason="A node was broken – 坏了.", actor=world.lead, now=world.now, refers_to=refers_to,
        )  # fmt: skip
        adjusting.decide(adjustment=made, approve=True, actor=world.finance, now=world.now)


def _close(world: World, project: Project | None) -> Any:
    common: dict[str, Any] = {
        "project": project, "month": MARCH, "zone": world.zone, "actor": world.finance,
        "now": APRIL.start(world.zone) + timedelta(days=2),
    }  # fmt: skip
    closing.move(**common, action="review")
    return closing.close(**common, rated=True)


def _correct(world: World, project: Project) -> None:
    for was in Charge.objects.filter(project=project, month=str(MARCH), kind=Charge.Kind.USAGE)[:3]:
        save(
            Charge(
                kind=Charge.Kind.CORRECTION, source=was.source, month=str(APRIL), started_us=was.started_us,
                ended_us=was.ended_us, project=project, cluster=was.cluster, claim_uid=was.claim_uid,
                driver=was.driver, pool_name=was.pool_name, device_name=was.device_name,
                device_class=was.device_class, product=was.product, use=was.use, unit=was.unit, per=was.per,
                quantity=was.quantity, currency=world.books[0].currency, origin=was, note=str(MARCH),
                fixed=Fraction(world.rng.randrange(-999, 999), 7),  # type: ignore[misc] # fractions
            )
        )  # fmt: skip
