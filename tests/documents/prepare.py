"""What the documents' examples speak of: ``python -m tests.documents.prepare KUBECONFIG``.

People and projects of the demo, a cluster that is followed, a March that is billed, a request, and a token
for each person. Prints names and secrets as JSON, for the sandbox's environment.
"""

import json
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from claims.history.curves import us
from claims.models import Charge, PriceBook, Request
from claims.money import closing
from claims.money.months import Month
from claims.money.rating import content_of
from claims.requests.actions import submit
from inventory.models import Cluster
from portal.accounts.models import ApiToken, Project, User
from portal.accounts.tokens import issue_token
from portal.management.sample import add_sample_cluster, make_sample_organisation

MARCH = Month(2026, 3)
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
DEADLINE = 100.0


def main(kubeconfig: Path) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    make_sample_organisation(now=BEGINNING)
    add_sample_cluster(kubeconfig=kubeconfig, now=BEGINNING)
    follow(Cluster.objects.get())
    bill(Project.objects.get(slug="protein-folding"), actor=User.objects.get(username="finn"))
    made = {
        f"TOKEN_OF_{name.upper()}": token(name, scopes)
        for name, scopes in {
            # As the guides say: the scopes that they name.
            "rhea": ["inventory", "requests"],
            "finn": ["chargeback"],
            "ada": [scope.value for scope in ApiToken.Scope],
        }.items()
    }
    sys.stdout.write(json.dumps(made | {"REQUEST": str(a_request().key)}) + "\n")


def follow(cluster: Cluster) -> None:
    """Begin to follow the cluster, and wait until it is in step. The sandbox ends it."""
    subprocess.Popen(
        [".venv/bin/python", "manage.py", "follow", cluster.name],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + DEADLINE
    while Cluster.objects.get(pk=cluster.pk).state != Cluster.State.SYNCED:
        assert time.monotonic() < deadline, "the cluster is not in step"
        time.sleep(0.05)


def bill(project: Project, *, actor: User) -> None:
    """Six charges, and a statement that is closed."""
    start, end = MARCH.bounds(UTC)
    for number in range(6):
        at = start + number * timedelta(hours=20)
        charge = Charge(
            kind=Charge.Kind.USAGE,
            source=f"{number:064x}",
            month=str(MARCH),
            started_us=us(at),
            ended_us=us(at + timedelta(hours=5, minutes=20)),
            project=project,
            cost_centre=project.cost_centre,
            cluster=Cluster.objects.get(),
            device_name=f"gpu-{number}",
            device_class="gpu.nvidia.com",
            product="NVIDIA A100-SXM4-40GB" if number % 2 else "NVIDIA H100 80GB HBM3",
            book=PriceBook.objects.get(),
            currency="EUR",
            quantity=1,
            list_micros=1_850_000 if number % 2 else 3_900_000,
        )
        charge.content = content_of(charge)
        charge.save()
    closing.move(
        project=project, month=MARCH, zone=UTC, action="review", actor=actor, now=end + timedelta(days=1)
    )
    closing.close(
        project=project, month=MARCH, zone=UTC, actor=actor, now=end + timedelta(days=2), rated=True
    )


def token(name: str, scopes: list[str]) -> str:
    _row, plain = issue_token(
        user=User.objects.get(username=name), name="documents", scopes=scopes,
        lifetime=timedelta(days=1), now=timezone.now(),
    )  # fmt: skip
    return plain


def a_request() -> Request:
    """What somebody has asked for; no worker runs here, so it has not been submitted to the cluster."""
    asked = {
        "project": "protein-folding",
        "flavor": "a100-40g",
        "count": "1",
        "duration": "4",
        "purpose": "An example",
    }
    return submit(user=User.objects.get(username="rhea"), values=asked, now=timezone.now())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
