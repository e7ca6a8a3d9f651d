"""Pages and REST of lifecycle drills: starting, what is asked for, answers, and the evidence as a file."""

import json
from contextlib import nullcontext
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from claims.drill import starting, words
from claims.drill.steps import STEPS
from claims.models import Drill, PoolPlan
from inventory.models import Cluster
from portal.accounts.models import ApiToken, User
from tests.access.world import issue
from tests.claims import drills, poolplans
from tests.claims.conftest import Cast
from tests.claims.drills import TinyCluster

pytestmark = pytest.mark.django_db


@pytest.fixture
def plan(cluster: Cluster) -> PoolPlan:
    return poolplans.plan(cluster)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> TinyCluster:
    made = TinyCluster()
    defaults: Any = starting.start.__kwdefaults__
    monkeypatch.setitem(defaults, "connect", lambda _cluster: nullcontext(made))
    monkeypatch.setitem(defaults, "free_of", lambda _drill: 1)
    return made


@pytest.fixture
def admin(client: Client, cast: Cast) -> Client:
    client.force_login(cast.admin)
    return client


def rest(user: User) -> dict[str, Any]:
    token = issue(user, ApiToken.Scope.values)[1]
    return {"headers": {"Authorization": f"Bearer {token}"}, "content_type": "application/json"}


def said(drill: Drill) -> set[str]:
    return {entry["code"] for step in drill.steps.all() for entry in step.observed}


@pytest.mark.usefixtures("tiny")
def test_a_drill_is_started_after_the_pools_name_was_typed(admin: Client, plan: PoolPlan) -> None:
    address = reverse("drill-create", args=[plan.pk])
    assert "When is a claim created?" in admin.get(address).content.decode()
    values = {"namespace": "drills", "part": "canary", "questions": ["claim-created", "freed"]}
    refused = admin.post(address, values)
    assert refused.status_code == 422
    assert "Type the name of the pool, gpu, if that is meant." in refused.content.decode()
    assert 'value="drills"' in refused.content.decode()
    assert admin.post(address, values | {"last_device": "gpu"}).status_code == 303
    drill = Drill.objects.get()
    assert [step.code for step in drill.steps.order_by("position")] == ["claim-created", "freed"]
    assert drill.image == "registry.k8s.io/pause:3.10"
    assert "under way already" in admin.post(address, values | {"last_device": "gpu"}).content.decode()


def test_what_an_operator_has_to_do_is_asked_with_a_command_and_answered_by_post(
    admin: Client, plan: PoolPlan, cast: Cast, tiny: TinyCluster
) -> None:
    drill = drills.start(plan, cast.admin, tiny, questions=["node-gone"])
    drills.go_on(drill, tiny, until=lambda d: d.steps.get().state == "asking")
    page = admin.get(reverse("drill-detail", args=[drill.key])).content.decode()
    assert "kubectl drain node-a --ignore-daemonsets" in page
    assert "I did it" in page
    answer = reverse("drill-answer", args=[drill.key])
    assert admin.get(answer).status_code == 405
    admin.post(answer, {"question": "node-gone", "answer": "did"})
    assert drill.steps.get().facts["did"]
    admin.post(answer, {"question": "node-gone", "answer": "skip"})
    admin.post(answer, {"question": "nothing\x00", "answer": "skip"})
    drills.go_on(drill, tiny)
    page = admin.get(reverse("drill-detail", args=[drill.key])).content.decode()
    assert "Somebody skipped it." in page
    assert 'hx-trigger="every' not in page


def test_the_evidence_can_be_taken_away_and_printed(
    admin: Client, plan: PoolPlan, cast: Cast, tiny: TinyCluster
) -> None:
    drill = drills.start(plan, cast.admin, tiny, questions=["devices-chosen"])
    drills.go_on(drill, tiny)
    told = json.loads(admin.get(reverse("drill-export", args=[drill.key])).content)
    step = told["steps"][0]
    assert (step["code"], step["verdict"]) == ("devices-chosen", "proven")
    assert {entry["code"] for entry in step["observed"]} == said(drill)
    assert all(entry["at"] and entry["words"] for entry in step["observed"])
    assert (
        "holds gpu.nvidia.com/node-a/gpu-0."
        in admin.get(reverse("drill-print", args=[drill.key])).content.decode()
    )
    assert str(drill.key) in admin.get(reverse("migration-detail", args=[plan.pk])).content.decode()


def test_programs_go_the_same_way(client: Client, plan: PoolPlan, cast: Cast, tiny: TinyCluster) -> None:
    ada, audrey, finn = (rest(user) for user in (cast.admin, cast.auditor, cast.finance))
    listed = reverse("api-drill-list", args=[plan.pk])
    assert client.get(listed, **finn).status_code == 403
    assert client.post(listed, "{}", **audrey).status_code == 403
    assert client.post(listed, "[]", **ada).status_code == 400
    assert client.post(listed, json.dumps({"step_seconds": 10**30}), **ada).status_code == 400
    refused = client.post(listed, json.dumps({"namespace": "drills"}), **ada).json()
    assert refused["errors"][0]["field"] == "last_device"
    body = {"namespace": "drills", "last_device": "gpu", "questions": ["driver-restart"]}
    made = client.post(listed, json.dumps(body), **ada)
    assert made.status_code == 201
    drill = Drill.objects.get(key=made.json()["key"])
    tiny.now = drill.created_at
    drills.go_on(drill, tiny, until=lambda d: d.steps.get().state == "asking")
    base = reverse("api-drill-detail", args=[drill.key])
    assert "Restart the DRA driver" in client.get(base, **audrey).json()["steps"][0]["asks"]["words"]
    answer = reverse("api-drill-answer", args=[drill.key])
    assert (
        client.post(answer, json.dumps({"question": "driver-restart", "did": "yes"}), **ada).status_code
        == 400
    )
    assert client.post(answer, json.dumps({"question": "\x00", "did": True}), **ada).status_code == 400
    assert (
        client.post(answer, json.dumps({"question": "driver-restart", "did": True}), **ada).status_code == 200
    )
    assert client.post(reverse("api-drill-cancel", args=[drill.key]), **ada).json()["state"] == "cleaning"
    assert client.get(listed, **audrey).json()["results"][0]["key"] == str(drill.key)


def test_every_code_has_its_words() -> None:
    assert set(words.QUESTIONS) == {step.code for step in STEPS}
    late = {part.late for step in STEPS for part in step.parts}
    assert late <= set(words.WHY)
    asks = {part.ask for step in STEPS for part in step.parts if part.ask}
    assert asks == set(words.ASKS)
    assert {f"asked-{code}" for code in asks} <= set(words.OBSERVED)
    assert words.observed({"code": "unheard", "what": {}}) == "unheard"
    assert "(oops)" not in words.observed({"code": "allocated", "what": {}})
