"""``python -m tests.system.truth CLUSTER``: everything that a desk tells wrong about its cluster, as JSON.

Compares the mirror, the history and the ledger of the environment's database with the cluster itself, again
and again until they agree or DEADLINE has passed.
"""

import json
import os
import sys
import time
from typing import Any

import django

DEADLINE = 40.0


def main(name: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    django.setup()
    from inventory.models import Cluster
    from portal.kube.client import Client
    from portal.kube.config import Credentials

    cluster = Cluster.objects.get(name=name)
    deadline = time.monotonic() + DEADLINE
    with Client(Credentials.from_kubeconfig(cluster.kubeconfig_path, context="admin")) as client:
        while faults := _faults(cluster, client):
            if time.monotonic() > deadline:
                break
            time.sleep(0.2)
    sys.stdout.write(json.dumps(faults))


def _faults(cluster: Any, client: Any) -> list[str]:
    from django.utils import timezone

    from claims.ledger.audit import audit
    from claims.models import Allocation
    from tests.inventory import compare

    there, here = compare.on_cluster(client), compare.mirrored(cluster)
    found = [
        f"{plural}: {sorted(there[plural] ^ here[plural])[:5]}"
        for plural in there
        if there[plural] != here[plural]
    ]
    held = compare.held_on_cluster(client)
    if held != compare.held_in_mirror(cluster):
        found.append("the devices that are held differ")
    # Units of Device Plugins have no names that could be compared.
    held_now = Allocation.objects.filter(cluster=cluster, ended_at=None, kind=Allocation.Kind.CLAIM)
    rows = held_now.filter(admin_access=False)
    if held != set(rows.values_list("driver", "pool_name", "device_name")):
        found.append("the allocations that are open differ")
    found += compare.history_faults(cluster)
    audited = audit(cluster=cluster, now=timezone.now())
    return found + [f"{wrong.code}: {wrong.where} {wrong.detail}" for wrong in audited.violations]


if __name__ == "__main__":
    main(sys.argv[1])
