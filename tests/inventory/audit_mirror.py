"""``python -m tests.inventory.audit_mirror CLUSTER``: compares the mirror in the database of the
environment with its cluster, until they agree or for DEADLINE seconds, and prints what is wrong as JSON.
For tests that kill processes and therefore have a database of their own."""

import json
import os
import sys
import time

import django

# For a machine on which it takes a follower half a minute to start.
DEADLINE = 200.0


def main(name: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    django.setup()
    from inventory.models import Cluster, Observation
    from portal.kube.client import Client
    from portal.kube.config import Credentials
    from tests.inventory import compare

    cluster = Cluster.objects.get(name=name)
    faults: list[str] = ["never compared"]
    deadline = time.monotonic() + DEADLINE
    with Client(Credentials.from_kubeconfig(cluster.kubeconfig_path, context="admin")) as client:
        while faults and time.monotonic() < deadline:
            there, here = compare.on_cluster(client), compare.mirrored(cluster)
            faults = [
                f"{plural}: {sorted(there[plural] ^ here[plural])}"
                for plural in there
                if there[plural] != here[plural]
            ]
            if compare.held_on_cluster(client) != compare.held_in_mirror(cluster):
                faults.append("held devices differ")
            time.sleep(0.2)
    counts = Observation.objects.filter(cluster=cluster, kind="claim-allocated").count()
    sys.stdout.write(json.dumps({"faults": faults + compare.history_faults(cluster), "allocations": counts}))


if __name__ == "__main__":
    main(sys.argv[1])
