"""What the desk starts for people: judged first, created once, removed at the end, whatever crashes."""

import uuid
from typing import Any

import pytest

from claims.launches import launching as launches
from claims.launches import tasks as launch_tasks
from claims.launches.launching import UnableToLaunch
from claims.launches.templates import archive, create, terms_of, update
from claims.launches.terms import LaunchTerms, UnableToChangeLaunch, read_launch_terms
from claims.launches.told import launchable, told_of
from claims.models import Launch, LaunchTemplate, Request
from claims.requests import actions as requests
from claims.requests import pursuit
from claims.requests.retrying import backoff
from inventory.models import Cluster, Job, NamespaceBinding, Pod, PodEvent
from portal.accounts.models import AuditEntry, Project
from portal.kube import errors
from portal.kube.resources import JOBS
from tests.claims import catalogue
from tests.claims.conftest import IMAGE, NOW, Cast
from tests.claims.fakes import FakeCluster

State = Launch.State
TERMS: dict[str, Any] = {
    "slug": "train",
    "name": "Training run",
    "kind": "job",
    "image": "registry.example.org/lab/train:1.4",
    "command": ["python", "-m", "train"],
    "args": ["--epochs", "$(EPOCHS)"],
    "env": {"DATA": "/data/$(SET)"},
    "cpu": "4",
    "memory": "16Gi",
    "volumes": [{"path": "/data", "claim": "tides-data"}, {"path": "/scratch", "size": "10Gi"}],
    "parameters": [
        {"name": "EPOCHS", "label": "Epochs", "default": "10", "pattern": "[0-9]{1,4}"},
        {"name": "SET", "choices": ["march", "april"], "required": True},
    ],
}


@pytest.fixture
def template(cast: Cast) -> LaunchTemplate:
    return create(terms=read_launch_terms(TERMS), user=cast.admin, now=NOW)


@pytest.fixture
def live(request_: Request, fake: FakeCluster) -> Request:
    pursuit.pursue(request_id=request_.pk, now=NOW, hold_image=IMAGE, connect=lambda _cluster: fake)
    request_.refresh_from_db()
    return request_


def start(request: Request, template: LaunchTemplate, fake: FakeCluster, **changed: Any) -> Launch:
    wanted: dict[str, Any] = {"user": request.requester, "values": {"SET": "march"}, "now": NOW, **changed}
    return launches.start(request=request, template=template, connect=lambda _cluster: fake, **wanted)


def pursue(launch: Launch, fake: FakeCluster, **changed: Any) -> Launch:
    launches.pursue(launch_id=launch.pk, **{"now": NOW, "connect": lambda _cluster: fake, **changed})
    launch.refresh_from_db()
    return launch


def refusal(request: Request, template: LaunchTemplate, fake: FakeCluster, **changed: Any) -> dict[str, Any]:
    with pytest.raises(UnableToLaunch) as refused:
        start(request, template, fake, **changed)
    assert not Launch.objects.exists()
    return refused.value.errors


# --- the object -------------------------------------------------------------------------------------


def test_a_job_joins_the_claim_within_the_restricted_level(
    live: Request, template: LaunchTemplate, fake: FakeCluster
) -> None:
    launch = pursue(start(live, template, fake), fake)
    job = fake.objects["jobs", live.namespace, launch.object_name]
    assert launch.object_name == f"{live.object_name}-{launch.key.hex[:8]}"
    assert job["metadata"]["labels"]["claimdesk.io/request"] == str(live.key)
    assert job["metadata"]["labels"]["claimdesk.io/launch"] == str(launch.key)
    spec = job["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert spec["resourceClaims"] == [{"name": "accelerator", "resourceClaimName": live.object_name}]
    assert container["resources"] == {
        "requests": {"cpu": "4", "memory": "16Gi"},
        "limits": {"cpu": "4", "memory": "16Gi"},
        "claims": [{"name": "accelerator"}],
    }
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert spec["automountServiceAccountToken"] is False
    assert spec["volumes"][0]["persistentVolumeClaim"] == {"claimName": "tides-data"}
    assert spec["volumes"][1]["emptyDir"] == {"sizeLimit": "10Gi"}


def test_what_is_filled_in_is_never_pasted_into_a_command(
    live: Request, template: LaunchTemplate, fake: FakeCluster, cast: Cast
) -> None:
    free = update_terms(template, cast, parameters=[{"name": "SET", "label": "Set"}])
    launch = start(live, free, fake, values={"SET": "$(SECRET); rm -rf /", "PATH": "/evil"})
    (container,) = launch.manifest["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["--epochs", "$(EPOCHS)"]
    assert container["env"] == [
        {"name": "SET", "value": "$$(SECRET); rm -rf /"},
        {"name": "DATA", "value": "/data/$(SET)"},
    ]


def test_a_notebook_is_a_pod_with_a_port(
    live: Request, template: LaunchTemplate, fake: FakeCluster, cast: Cast
) -> None:
    notebook = update_terms(template, cast, kind="notebook", port=8888)
    launch = pursue(start(live, notebook, fake), fake)
    pod = fake.objects["pods", live.namespace, launch.object_name]
    assert pod["spec"]["containers"][0]["ports"] == [{"name": "http", "containerPort": 8888}]
    (told,) = told_of(live)
    assert told.forward.endswith(f"pod/{launch.object_name} 8888:8888")
    assert told.address == "http://localhost:8888/"


def test_a_device_plugin_is_asked_by_limits(cast: Cast, cluster: Cluster, fake: FakeCluster) -> None:
    flavor = catalogue.flavor()
    catalogue.placement(flavor, cluster, device_class="", extended_resource="nvidia.com/gpu")
    catalogue.units(cluster)
    made = requests.submit(
        user=cast.owner,
        values={"project": "protein-folding", "flavor": "h100", "purpose": "x", "duration": 2, "count": 1},
        now=NOW,
        connect=lambda _cluster: fake,
    )
    template = create(terms=read_launch_terms(TERMS), user=cast.admin, now=NOW)
    launch = start(made, template, fake)
    template_ = launch.manifest["spec"]["template"]
    (container,) = template_["spec"]["containers"]
    assert container["resources"]["limits"] == {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    assert template_["metadata"]["labels"]["claimdesk.io/request"] == str(made.key)
    assert "resourceClaims" not in template_["spec"]


# --- starting and stopping --------------------------------------------------------------------------


def test_the_cluster_judges_it_first_and_nothing_is_stored_when_it_refuses(
    live: Request, template: LaunchTemplate, fake: FakeCluster
) -> None:
    fake.fail["create jobs"] = errors.Forbidden('violates PodSecurity "restricted"', status=403)
    assert refusal(live, template, fake) == {"__all__": ['violates PodSecurity "restricted"']}
    fake.fail.clear()
    start(live, template, fake)
    assert [call for call in fake.calls if call[1] == "jobs"][-1][3] is True
    assert fake.names("jobs") == []


def test_the_same_key_is_the_same_launch(live: Request, template: LaunchTemplate, fake: FakeCluster) -> None:
    key = str(uuid.uuid4())
    first, again = (start(live, template, fake, key=key) for _ in range(2))
    assert first == again
    member = Request.objects.get().project.memberships.last()
    assert member is not None
    with pytest.raises(UnableToLaunch):
        start(live, template, fake, key=key, user=member.user)


def test_what_is_filled_in_wrongly_is_told_by_its_name(
    live: Request, template: LaunchTemplate, fake: FakeCluster
) -> None:
    told = refusal(live, template, fake, values={"EPOCHS": "many", "SET": "june"})
    assert set(told) == {"EPOCHS", "SET"}
    assert set(refusal(live, template, fake, values={})) == {"SET"}
    assert set(refusal(live, template, fake, values={"SET": "march\x00"})) == {"SET"}


def test_before_the_request_is_on_the_cluster_it_waits(
    request_: Request, template: LaunchTemplate, fake: FakeCluster
) -> None:
    launch = pursue(start(request_, template, fake), fake)
    assert (launch.state, fake.names("jobs")) == (State.STARTING, [])
    assert launches.due(request_.cluster, now=NOW) == []
    pursuit.pursue(request_id=request_.pk, now=NOW, hold_image=IMAGE, connect=lambda _cluster: fake)
    assert launches.due(request_.cluster, now=NOW) == [launch.pk]
    assert pursue(launch, fake).state == State.STARTED


def test_a_crash_after_creating_makes_no_second_one(
    live: Request, template: LaunchTemplate, fake: FakeCluster
) -> None:
    launch = start(live, template, fake)
    fake.create(JOBS, launch.manifest, namespace=live.namespace)
    assert pursue(launch, fake).state == State.STARTED
    assert fake.names("jobs") == [launch.object_name]


def test_another_ones_object_of_that_name_is_left_alone(
    live: Request, template: LaunchTemplate, fake: FakeCluster
) -> None:
    launch = start(live, template, fake)
    theirs = {"metadata": {"name": launch.object_name, "labels": {}}}
    fake.objects["jobs", live.namespace, launch.object_name] = theirs
    assert pursue(launch, fake).state == State.FAILED
    assert "belongs to somebody else" in launch.message
    launches.stop(launch=launch, user=live.requester, now=NOW)
    assert fake.names("jobs") == [launch.object_name]


def test_a_cluster_that_does_not_answer_is_asked_again_later(
    live: Request, template: LaunchTemplate, fake: FakeCluster
) -> None:
    launch = start(live, template, fake)
    fake.fail["create jobs"] = errors.Unreachable("gone")
    assert pursue(launch, fake).state == State.STARTING
    assert (launch.attempts, launch.due_at) == (1, NOW + backoff(0))
    assert launches.due(live.cluster, now=NOW) == []
    fake.fail.clear()
    assert launches.due(live.cluster, now=NOW + backoff(0)) == [launch.pk]
    assert pursue(launch, fake).state == State.STARTED


def test_it_is_removed_when_somebody_stops_it(
    live: Request, template: LaunchTemplate, fake: FakeCluster
) -> None:
    launch = pursue(start(live, template, fake), fake)
    launches.stop(launch=launch, user=live.requester, now=NOW)
    launches.stop(launch=launch, user=live.requester, now=NOW)
    assert launch.state == State.STOPPING
    pursue(launch, fake)
    assert (pursue(launch, fake).state, fake.names("jobs")) == (State.STOPPED, [])
    actions = AuditEntry.objects.filter(target_kind="launch").order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["launch.start", "launch.started", "launch.stop", "launch.stopped"]


@pytest.mark.parametrize("created", [True, False])
def test_it_ends_with_its_request(
    live: Request, template: LaunchTemplate, fake: FakeCluster, created: bool
) -> None:
    launch = start(live, template, fake)
    if created:
        pursue(launch, fake)
    else:
        # An attempt that died after the call and before it was noted.
        fake.create(JOBS, launch.manifest, namespace=live.namespace)
    requests.release(request=live, user=live.requester, now=NOW)
    assert launches.due(live.cluster, now=NOW) == [launch.pk]
    pursue(launch, fake)
    assert (pursue(launch, fake).state, fake.names("jobs")) == (State.STOPPED, [])
    assert launches.due(live.cluster, now=NOW) == []


def test_stopped_while_it_was_being_created_it_goes_again(
    live: Request, template: LaunchTemplate, fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = start(live, template, fake)
    really = fake.create

    def slow(*args: Any, **kwargs: Any) -> Any:
        launches.stop(launch=Launch.objects.get(), user=live.requester, now=NOW)
        return really(*args, **kwargs)

    monkeypatch.setattr(fake, "create", slow)
    pursue(launch, fake)
    assert (launch.state, fake.names("jobs")) == (State.STOPPING, [])


def test_a_namespace_that_went_to_others_gets_nothing(
    live: Request, template: LaunchTemplate, fake: FakeCluster
) -> None:
    launch = start(live, template, fake)
    NamespaceBinding.objects.filter(namespace=live.namespace).update(valid_until=NOW)
    assert pursue(launch, fake).state == State.FAILED
    Launch.objects.all().delete()
    assert set(refusal(live, template, fake)) == {"__all__"}


def test_beat_looks_for_what_is_due(
    live: Request, template: LaunchTemplate, fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued: list[dict[str, Any]] = []
    monkeypatch.setattr(
        launch_tasks.pursue_launch, "apply_async", lambda kwargs, **_options: queued.append(kwargs)
    )
    launch = start(live, template, fake)
    launch_tasks.tend()
    assert queued == [{"launch_id": launch.pk}]


# --- what is told -----------------------------------------------------------------------------------


def test_its_page_tells_state_events_and_where_logs_are(
    live: Request, template: LaunchTemplate, fake: FakeCluster
) -> None:
    launch = pursue(start(live, template, fake), fake)
    here = {"cluster": live.cluster, "namespace": live.namespace, "resource_version": "1"}
    (told,) = told_of(live)
    assert (told.tone, told.may_stop) == ("wait", True)
    assert told.logs == f"kubectl logs --namespace {live.namespace} --follow job/{launch.object_name}"
    job = Job.objects.create(**here, name=launch.object_name, uid="j")
    pod = Pod.objects.create(
        **here, name=f"{launch.object_name}-x", uid="p", phase="Pending", owner_kind="Job",
        owner_name=launch.object_name,
    )  # fmt: skip
    PodEvent.objects.create(
        cluster=live.cluster, namespace=live.namespace, pod_name=pod.name, pod_uid="p",
        reason="FailedScheduling", message="0/4 nodes are available", last_at=NOW,
    )  # fmt: skip
    (told,) = told_of(live)
    assert told.words == "Its Pod waits for a place."
    assert [event.reason for event in told.events] == ["FailedScheduling"]
    Pod.objects.update(phase="Running", node_name="node-h100")
    assert told_of(live)[0].words == "It runs."
    job.outcome = "Complete"
    job.save()
    assert told_of(live)[0].words == "It has finished."


# --- templates --------------------------------------------------------------------------------------


def update_terms(template: LaunchTemplate, cast: Cast, **changed: Any) -> LaunchTemplate:
    terms = read_launch_terms({**terms_of(template).as_dict(), **changed})
    update(template=template, terms=terms, seen_version=template.version, user=cast.admin, now=NOW)
    return template


def test_a_template_is_read_back_as_it_was_written(template: LaunchTemplate) -> None:
    assert read_launch_terms(terms_of(template).as_dict()) == terms_of(template)
    assert isinstance(terms_of(template), LaunchTerms)


def test_lines_of_a_form_say_the_same_as_json() -> None:
    lines = TERMS | {
        "command": "python\n-m\ntrain",
        "args": "--epochs\n$(EPOCHS)",
        "env": "DATA=/data/$(SET)",
        "volumes": "/data=tides-data\n/scratch=empty:10Gi",
        "parameters": "- {name: EPOCHS, label: Epochs, default: '10', pattern: '[0-9]{1,4}'}\n"
        "- {name: SET, choices: [march, april], required: true}",
    }
    assert read_launch_terms(lines) == read_launch_terms(TERMS)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"slug": "Not A Slug"}, "slug"),
        ({"name": "\u3164"}, "name"),
        ({"image": "two words"}, "image"),
        ({"image": "-v"}, "image"),
        ({"command": ["x"] * 65}, "command"),
        ({"env": "NOEQUALS"}, "env"),
        ({"env": {"bad-name": "1"}}, "env"),
        ({"env": {"X": "a\x00"}}, "env"),
        ({"cpu": "none"}, "cpu"),
        ({"cpu": "0"}, "cpu"),
        ({"memory": "9Ti"}, "memory"),
        ({"volumes": "/=x"}, "volumes"),
        ({"volumes": "/a/../b=x"}, "volumes"),
        ({"volumes": [{"path": "/a", "claim": "x", "size": "1Gi"}]}, "volumes"),
        ({"volumes": [{"path": "/a", "claim": "X_y"}]}, "volumes"),
        ({"volumes": "/a=x\n/a=y"}, "volumes"),
        ({"volumes": [{"path": "/a", "hostPath": "/etc"}]}, "volumes"),
        ({"kind": "notebook"}, "port"),
        ({"kind": "notebook", "port": 70_000}, "port"),
        ({"kind": "daemonset"}, "kind"),
        ({"user_id": 0}, "user_id"),
        ({"parameters": "- [" * 500}, "parameters"),
        ({"parameters": "a: b"}, "parameters"),
        ({"parameters": [{"name": "A"}, {"name": "A"}]}, "parameters"),
        ({"parameters": [{"name": "A", "pattern": "("}]}, "parameters"),
        ({"parameters": [{"name": "A", "pattern": "[0-9]", "default": "x"}]}, "parameters"),
        ({"parameters": [{"name": "A", "shell": "x"}]}, "parameters"),
        ({"parameters": [{"name": "DATA"}]}, "parameters"),
        ({"flavors": ["nothing"]}, "flavors"),
        ({"projects": ["nothing"]}, "projects"),
    ],
)
def test_what_makes_no_sense_is_told_by_its_field(db: None, changed: dict[str, Any], field: str) -> None:
    with pytest.raises(UnableToChangeLaunch) as refused:
        read_launch_terms(TERMS | changed)
    assert list(refused.value.errors) == [field]


def test_a_pattern_that_would_take_for_ever_takes_no_time(
    live: Request, template: LaunchTemplate, fake: FakeCluster, cast: Cast
) -> None:
    slow = update_terms(template, cast, parameters=[{"name": "SET", "pattern": "(a+)+b"}])
    assert set(refusal(live, slow, fake, values={"SET": "a" * 500})) == {"SET"}


def test_the_second_of_two_changes_is_told_of_the_first(template: LaunchTemplate, cast: Cast) -> None:
    seen = template.version
    update_terms(template, cast, name="Other")
    with pytest.raises(UnableToChangeLaunch) as refused:
        update(template=template, terms=read_launch_terms(TERMS), seen_version=seen, user=cast.admin, now=NOW)
    assert refused.value.conflict
    with pytest.raises(UnableToChangeLaunch) as taken:
        create(terms=read_launch_terms(TERMS), user=cast.admin, now=NOW)
    assert list(taken.value.errors) == ["slug"]


def test_it_is_offered_where_it_was_meant_to_be(
    live: Request, template: LaunchTemplate, fake: FakeCluster, cast: Cast, other_project: Project
) -> None:
    catalogue.flavor()
    assert launchable(live) == [template]
    update_terms(template, cast, projects=[other_project.slug])
    assert launchable(live) == []
    assert set(refusal(live, template, fake)) == {"__all__"}
    update_terms(template, cast, projects=[], flavors=["h100"])
    assert launchable(live) == []
    update_terms(template, cast, flavors=[])
    archive(template=template, archived=True, user=cast.admin, now=NOW)
    assert launchable(live) == []
    archive(template=template, archived=False, user=cast.admin, now=NOW)
    assert launchable(live) == [template]
