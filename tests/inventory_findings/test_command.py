"""``manage.py findings``."""

import io

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from inventory.models import Cluster, Device
from tests.inventory_findings.conftest import hear

pytestmark = pytest.mark.django_db

XID = {"key": "gpu.nvidia.com/xid", "value": "43", "effect": "NoExecute"}


def run(*arguments: str) -> str:
    said = io.StringIO()
    call_command("findings", *arguments, stdout=said)
    return said.getvalue()


def test_it_judges_and_lists(healthy: Cluster) -> None:
    Device.objects.filter(node_name="gpu-02").update(taints=[XID])
    healthy.streams.filter(resource="events").update(state="not-permitted")
    hear(healthy, timezone.now())
    assert run("--no-evaluation") == ""
    fault, unknown = run("berlin").splitlines()
    assert fault.startswith("bad  berlin  health-fault  new  since ")
    assert unknown == "unknown  berlin  prepare-failed  events are not observed"
    assert run("--no-evaluation", "--state", "resolved").count("health-fault") == 0


def test_it_says_what_is_wrong_with_what_it_is_told(healthy: Cluster, settings: object) -> None:
    with pytest.raises(CommandError, match="oslo"):
        run("oslo")
    settings.FINDING_MINUTES = {"pendin": 1.0}  # type: ignore[attr-defined] # pytest-django's settings
    with pytest.raises(CommandError, match="CLAIMDESK_FINDING_MINUTES: unknown thresholds: pendin"):
        run()
