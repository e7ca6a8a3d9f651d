"""What is kept over a restart, and over ``kill -9``."""

import json
from pathlib import Path

import pytest
import urllib3

from portal.demo.journal import DataInUse, SqliteJournal
from portal.demo.store import Store
from tests.demo.api import CLAIMS, Object, claim, serving
from tests.embedded import EmbeddedCluster


def restarted(directory: Path, store: Store) -> Store:
    store.close()
    return Store(journal=SqliteJournal(directory))


@pytest.fixture
def kept(tmp_path: Path) -> Store:
    store = Store(journal=SqliteJournal(tmp_path))
    store.create("namespaces", {"metadata": {"name": "lab"}})
    return store


def test_objects_versions_and_uids_survive(tmp_path: Path, kept: Store) -> None:
    made = kept.create("resourceclaims", claim(), namespace="lab")
    again = restarted(tmp_path, kept)
    assert again.get("resourceclaims", "one", namespace="lab") == made
    assert again.revision == kept.revision
    again.close()


def test_a_deletion_is_kept_and_its_version_is_not_given_again(tmp_path: Path, kept: Store) -> None:
    kept.create("resourceclaims", claim(), namespace="lab")
    kept.delete("resourceclaims", "one", namespace="lab")
    again = restarted(tmp_path, kept)
    assert again.find("resourceclaims", "one", namespace="lab") is None
    made = again.create("resourceclaims", claim("two"), namespace="lab")
    assert int(made["metadata"]["resourceVersion"]) == kept.revision + 1
    again.close()


def test_selectors_work_after_a_restart(tmp_path: Path, kept: Store) -> None:
    kept.create("resourceclaims", claim(labels={"a": "b"}), namespace="lab")
    again = restarted(tmp_path, kept)
    assert len(again.list("resourceclaims", labels="a=b", fields="metadata.name=one")) == 1
    again.close()


def test_the_past_is_not_kept_so_old_versions_are_a_410(tmp_path: Path) -> None:
    with serving(tmp_path) as api:
        old = api.ok("GET", CLAIMS)["metadata"]["resourceVersion"]
        api.ok("POST", CLAIMS, claim())
        last = api.ok("GET", CLAIMS)["metadata"]["resourceVersion"]
    with serving(tmp_path) as api:
        with api.watch(f"{CLAIMS}?watch=1&resourceVersion={old}") as events:
            assert [event["object"]["code"] for event in events] == [410]
        with api.watch(f"{CLAIMS}?watch=1&resourceVersion={last}") as events:
            api.ok("POST", CLAIMS, claim("two"))
            assert next(events)["object"]["metadata"]["name"] == "two"


def test_a_data_directory_serves_one_cluster_at_a_time(tmp_path: Path, kept: Store) -> None:
    with pytest.raises(DataInUse, match="another embedded cluster"):
        SqliteJournal(tmp_path)
    kept.close()


def test_steps_taken_together_are_kept_together_or_not_at_all(tmp_path: Path, kept: Store) -> None:
    def interrupted() -> None:
        with kept.journal.together():
            kept.create("resourceclaims", claim(), namespace="lab")
            raise RuntimeError("the power is gone")

    with pytest.raises(RuntimeError):
        interrupted()
    again = restarted(tmp_path, kept)
    assert again.find("resourceclaims", "one", namespace="lab") is None
    assert again.exists("namespaces", "lab")
    again.close()


def test_a_failed_write_leaves_memory_as_the_disk(kept: Store) -> None:
    kept.journal.close()
    revision = kept.revision
    with pytest.raises(Exception, match="closed database"):
        kept.create("resourceclaims", claim(), namespace="lab")
    assert kept.revision == revision
    assert kept.find("resourceclaims", "one", namespace="lab") is None


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    cluster = EmbeddedCluster(tmp_path, options=("--no-controllers",)).start()
    token = json.loads(cluster.kubeconfig.read_text())["users"][0]["user"]["token"]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    pool = urllib3.PoolManager(retries=False, timeout=10)

    def call(method: str, path: str, body: object = None) -> Object:
        data = json.dumps(body) if body is not None else None
        answer = pool.request(method, cluster.url + path, body=data, headers=headers)
        return dict(json.loads(answer.data))

    path = CLAIMS.replace("/lab/", "/default/")
    try:
        made = [call("POST", path, claim(f"c{number}")) for number in range(20)]
        cluster.kill()
        cluster.start()
        listed = call("GET", path)
    finally:
        cluster.stop()
        pool.clear()
    uids = {item["metadata"]["uid"] for item in listed["items"]}
    assert uids == {item["metadata"]["uid"] for item in made}
    # The same token still opens the door, and versions go on from where they were.
    assert int(listed["metadata"]["resourceVersion"]) >= int(made[-1]["metadata"]["resourceVersion"])
