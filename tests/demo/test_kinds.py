"""What the mirror reads besides devices: runtimes, groups of Pods, and the objects that Kueue installs."""

from typing import Any

import pytest

from tests.demo.api import Api, Object, fields, pod

KUEUE, KUEUE_OLD = "/apis/kueue.x-k8s.io/v1beta2", "/apis/kueue.x-k8s.io/v1beta1"
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/lab"
RUNTIMES = "/apis/node.k8s.io/v1/runtimeclasses"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"


def cluster_queue(name: str = "all", **spec: Any) -> Object:
    quota: Object = {"name": "nvidia.com/gpu", "nominalQuota": 8}
    group = {
        "coveredResources": ["nvidia.com/gpu"],
        "flavors": [{"name": "any", "resources": [quota]}],
    }
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {"namespaceSelector": {}, "resourceGroups": [group], **spec},
    }


def local_queue(**spec: Any) -> Object:
    return {"metadata": {"name": "team"}, "spec": {"clusterQueue": "all", **spec}}


def queued(**spec: Any) -> Object:
    template = {"spec": {"containers": [{"name": "main", "image": "registry.example/worker:1"}]}}
    pod_sets = [{"template": template}]
    return {"metadata": {"name": "one"}, "spec": {"podSets": pod_sets, "queueName": "team", **spec}}


def test_kueue_is_found_like_any_installed_definition(api: Api) -> None:
    group = api.ok("GET", "/apis/kueue.x-k8s.io")
    assert group["preferredVersion"]["version"] == "v1beta2"
    served = {item["name"]: item for item in api.ok("GET", KUEUE)["resources"]}
    assert {"clusterqueues", "localqueues", "resourceflavors", "workloads"} <= set(served)
    assert "workloads/status" in served
    assert "resourceflavors/status" not in served
    assert served["localqueues"]["namespaced"]
    assert not served["clusterqueues"]["namespaced"]


def test_a_queue_gets_its_defaults_and_keeps_quantities_as_written(api: Api) -> None:
    spec = api.ok("POST", f"{KUEUE}/clusterqueues", cluster_queue())["spec"]
    assert (spec["queueingStrategy"], spec["stopPolicy"]) == ("BestEffortFIFO", "None")
    assert spec["preemption"]["withinClusterQueue"] == "Never"
    assert spec["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] == 8


def test_items_of_installed_definitions_say_what_they_are(api: Api) -> None:
    api.ok("POST", f"{KUEUE}/clusterqueues", cluster_queue())
    (item,) = api.ok("GET", f"{KUEUE_OLD}/clusterqueues")["items"]
    assert (item["apiVersion"], item["kind"]) == ("kueue.x-k8s.io/v1beta1", "ClusterQueue")


def test_the_older_version_has_other_names(api: Api) -> None:
    api.ok("POST", f"{KUEUE}/clusterqueues", cluster_queue(cohortName="institute"))
    old = api.ok("GET", f"{KUEUE_OLD}/clusterqueues/all")
    assert old["spec"]["cohort"] == "institute"
    assert "cohortName" not in old["spec"]
    assert old["spec"]["flavorFungibility"]["whenCanBorrow"] == "Borrow"
    made = api.ok("POST", f"{KUEUE_OLD}/namespaces/lab/localqueues", local_queue())
    made["status"] = {"pendingWorkloads": 1, "flavorUsage": [{"name": "any", "resources": []}]}
    api.ok("PUT", f"{KUEUE_OLD}/namespaces/lab/localqueues/team/status", made)
    new = api.ok("GET", f"{KUEUE}/namespaces/lab/localqueues/team")
    assert new["status"]["flavorsUsage"] == [{"name": "any"}]
    old_workload = queued(priority=5, priorityClassName="urgent",
                          priorityClassSource="kueue.x-k8s.io/workloadpriorityclass")  # fmt: skip
    api.ok("POST", f"{KUEUE_OLD}/namespaces/lab/workloads", old_workload)
    reference = api.ok("GET", f"{KUEUE}/namespaces/lab/workloads/one")["spec"]["priorityClassRef"]
    assert reference == {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "urgent"}
    back = api.ok("GET", f"{KUEUE_OLD}/namespaces/lab/workloads/one")["spec"]
    assert back["priorityClassName"] == "urgent"
    assert back["priorityClassSource"] == "kueue.x-k8s.io/workloadpriorityclass"


def test_two_resources_may_be_called_workloads(api: Api) -> None:
    api.ok("POST", f"{KUEUE}/namespaces/lab/workloads", queued())
    assert api.ok("GET", f"{GROUPS}/workloads")["items"] == []
    missing = api.call("GET", f"{KUEUE}/namespaces/lab/workloads/two")
    assert missing.body["message"] == 'workloads.kueue.x-k8s.io "two" not found'


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"queueingStrategy": "Lottery"}, "spec.queueingStrategy"),
        ({"stopPolicy": "Pause"}, "spec.stopPolicy"),
        (
            {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": []}]},
            "spec.resourceGroups[0].flavors",
        ),
        ({"resourceGroups": "all"}, "spec.resourceGroups"),
        (
            {"resourceGroups": [{"coveredResources": ["cpu", "memory"], "flavors": [
                {"name": "any", "resources": [{"name": "cpu", "nominalQuota": 1}]}]}]},
            "spec.resourceGroups[0]",
        ),
        (
            {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [
                {"name": "any", "resources": [{"name": "cpu", "nominalQuota": "many"}]}]}]},
            "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota",
        ),
        (
            {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [
                {"name": "any", "resources": [{"name": "cpu", "nominalQuota": 1, "borrowingLimit": 1}]}]}]},
            "spec",
        ),
    ],
)  # fmt: skip
def test_a_queue_that_does_not_add_up_is_refused(api: Api, change: Object, field: str) -> None:
    refused = api.call("POST", f"{KUEUE}/clusterqueues", cluster_queue(**change))
    assert refused.code == 422
    assert fields(refused) == {field}


def test_an_installed_definition_takes_no_strategic_patch(api: Api) -> None:
    api.ok("POST", f"{KUEUE}/clusterqueues", cluster_queue())
    patch = {"spec": {"stopPolicy": "Hold"}}
    assert api.call("PATCH", f"{KUEUE}/clusterqueues/all", patch, content_type=STRATEGIC).code == 415
    patched = api.ok("PATCH", f"{KUEUE}/clusterqueues/all", patch, content_type=MERGE)
    assert (patched["spec"]["stopPolicy"], patched["metadata"]["generation"]) == ("Hold", 2)


def test_a_local_queue_stays_with_its_cluster_queue(api: Api) -> None:
    api.ok("POST", f"{KUEUE}/namespaces/lab/localqueues", local_queue())
    patch = {"spec": {"clusterQueue": "another"}}
    refused = api.call("PATCH", f"{KUEUE}/namespaces/lab/localqueues/team", patch, content_type=MERGE)
    assert fields(refused) == {"spec.clusterQueue"}


def test_a_runtime_class_decides_for_the_pods_that_name_it(api: Api) -> None:
    kata = {
        "metadata": {"name": "kata"},
        "handler": "kata",
        "overhead": {"podFixed": {"memory": "160Mi"}},
        "scheduling": {"nodeSelector": {"sandbox": "yes"}},
    }
    missing = api.call("POST", "/api/v1/namespaces/lab/pods", pod(runtimeClassName="kata"))
    assert missing.code == 403
    assert 'RuntimeClass "kata" not found' in missing.body["message"]
    api.ok("POST", RUNTIMES, kata)
    spec = api.ok("POST", "/api/v1/namespaces/lab/pods", pod(runtimeClassName="kata"))["spec"]
    assert (spec["overhead"], spec["nodeSelector"]) == ({"memory": "160Mi"}, {"sandbox": "yes"})
    refused = api.call("PATCH", f"{RUNTIMES}/kata", {"handler": "other"}, content_type=MERGE)
    assert fields(refused) == {"handler"}
    assert fields(api.call("POST", RUNTIMES, {"metadata": {"name": "x"}})) == {"handler"}


def workload(**template: Any) -> Object:
    template = {"name": "ranks", "schedulingPolicy": {"gang": {"minCount": 4}}, **template}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "Workload",
        "metadata": {"name": "run"},
        "spec": {"podGroupTemplates": [template]},
    }


def pod_group(**spec: Any) -> Object:
    reference = {"workload": {"workloadName": "run", "podGroupTemplateName": "ranks"}}
    policy: Object = {"gang": {"minCount": 4}}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "run-ranks-0"},
        "spec": {"podGroupTemplateRef": reference, "schedulingPolicy": policy, **spec},
    }


def test_a_pod_group_follows_its_workload(api: Api) -> None:
    early = api.call("POST", f"{GROUPS}/podgroups", pod_group())
    assert early.code == 403
    api.ok("POST", f"{GROUPS}/workloads", workload(disruptionMode="PodGroup"))
    made = api.ok("POST", f"{GROUPS}/podgroups", pod_group(disruptionMode="PodGroup"))
    assert made["spec"] == pod_group(disruptionMode="PodGroup")["spec"]
    assert api.ok("GET", f"{GROUPS}/workloads/run")["spec"] == workload(disruptionMode="PodGroup")["spec"]
    patch = {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    refused = api.call("PATCH", f"{GROUPS}/podgroups/run-ranks-0", patch, content_type=MERGE)
    assert fields(refused) == {"spec"}


def test_a_mode_of_disruption_has_to_be_known(api: Api) -> None:
    refused = api.call("POST", f"{GROUPS}/workloads", workload(disruptionMode="Never"))
    assert fields(refused) == {"spec.podGroupTemplates[0].disruptionMode"}


@pytest.mark.parametrize("policy", [{}, {"basic": {}, "gang": {"minCount": 1}}, {"gang": {"minCount": 0}}])
def test_a_group_has_exactly_one_policy(api: Api, policy: Object) -> None:
    refused = api.call("POST", f"{GROUPS}/workloads", workload(schedulingPolicy=policy))
    assert refused.code == 422
    assert all("schedulingPolicy" in field for field in fields(refused))
