"""Faults on purpose: what tests of clients can order."""

import pytest
import urllib3

from tests.demo.api import CLAIMS, Api, claim

FAULTS = "/claimdesk/faults"


def test_the_next_answers_can_be_refusals(api: Api) -> None:
    api.ok("PUT", FAULTS, {"answers": [500, 429], "retry_after_seconds": 7})
    assert api.call("GET", CLAIMS).code == 500
    slow_down = api.call("GET", CLAIMS)
    assert (slow_down.code, slow_down.headers["Retry-After"]) == (429, "7")
    assert api.call("GET", CLAIMS).code == 200


def test_faults_can_be_limited_to_a_path(api: Api) -> None:
    api.ok("PUT", FAULTS, {"answers": [500], "path_prefix": "/api/v1/pods"})
    assert api.call("GET", CLAIMS).code == 200
    assert api.call("GET", "/api/v1/pods").code == 500


def test_a_watch_can_be_cut_within_a_line(api: Api) -> None:
    start = api.ok("GET", CLAIMS)["metadata"]["resourceVersion"]
    api.ok("PUT", FAULTS, {"cut_watches": 1})
    with api.watch(f"{CLAIMS}?watch=1&resourceVersion={start}") as events:
        api.ok("POST", CLAIMS, claim())
        with pytest.raises(urllib3.exceptions.ProtocolError):
            next(events)


def test_faults_that_are_not_known_are_a_400(api: Api) -> None:
    assert api.call("PUT", FAULTS, {"explode": True}).code == 400
    assert api.call("PUT", FAULTS, {"answers": "500"}).code == 400


def test_only_the_administrator_orders_faults(api: Api) -> None:
    assert api.call("PUT", FAULTS, {"answers": [500]}, user="portal").code == 404
