"""The whole line of a launch over HTTP: started on a request before it is on the cluster, run with its
device, removed with the request, so that the device is free again."""

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from claims.launches import launching as launches
from claims.launches.templates import create
from claims.launches.terms import read_launch_terms
from claims.launches.told import told_of
from claims.models import Allocation, Launch, Request
from claims.requests import actions as requests
from inventory.models import Cluster, Job
from tests.claims.conftest import Cast
from tests.claims.test_line import ask, followed, in_state, until

__all__ = ["followed"]
pytestmark = pytest.mark.django_db(transaction=True)
State = Request.State
TERMS: dict[str, Any] = {
    "slug": "train",
    "name": "Training run",
    "kind": "job",
    "image": "registry.example.org/lab/train:1.4",
    "args": ["--epochs", "$(EPOCHS)"],
    "cpu": "1",
    "memory": "1Gi",
    "volumes": [{"path": "/scratch", "size": "1Gi"}],
    "parameters": [{"name": "EPOCHS", "default": "10"}],
}


def tended(cluster: Cluster, reached: Callable[[], bool]) -> None:
    """Follow the cluster, and do what is due of requests and launches, until something is reached."""

    def both() -> bool:
        for pk in launches.due(cluster, now=timezone.now()):
            launches.pursue(launch_id=pk, now=timezone.now())
        return reached()

    until(cluster, both)


@pytest.mark.parametrize(("kind", "shape"), [("job", "claim"), ("notebook", "claim"), ("job", "template")])
def test_it_runs_with_its_device_and_goes_with_its_request(
    cast: Cast, followed: Cluster, kind: str, shape: str
) -> None:
    terms = read_launch_terms(TERMS | {"kind": kind, "port": 8888})
    template = create(terms=terms, user=cast.admin, now=timezone.now())
    request = ask(cast, shape=shape)
    launch = launches.start(
        request=request, template=template, user=cast.owner, values={"EPOCHS": "3"}, now=timezone.now()
    )
    tended(followed, in_state(request, State.IN_USE))
    tended(followed, lambda: told_of(request)[0].words == "It runs.")
    (told,) = told_of(request)
    assert told.launch.state == Launch.State.STARTED
    assert {pod.phase for pod in told.pods} == {"Running"}
    if kind == "job":
        assert Job.objects.get(name=launch.object_name).active == 1
    requests.release(request=request, user=cast.owner, now=timezone.now())
    tended(followed, in_state(request, State.ENDED))
    launch.refresh_from_db()
    assert launch.state == Launch.State.STOPPED
    tended(followed, lambda: not Allocation.objects.filter(request=request, ended_at=None).exists())
