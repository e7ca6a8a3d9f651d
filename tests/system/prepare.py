"""``python -m tests.system.prepare [KUBECONFIG]``: what `manage.py demo` does to a fresh database; without a
kubeconfig no cluster is added yet."""

import os
import sys
from pathlib import Path

import django


def main(*kubeconfigs: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    django.setup()
    from django.core.management import call_command
    from django.utils import timezone

    from portal.management.sample import add_sample_cluster, make_sample_organisation

    call_command("migrate", interactive=False, verbosity=0)
    make_sample_organisation(now=timezone.now())
    for kubeconfig in kubeconfigs:
        add_sample_cluster(kubeconfig=Path(kubeconfig), now=timezone.now())


if __name__ == "__main__":
    main(*sys.argv[1:])
