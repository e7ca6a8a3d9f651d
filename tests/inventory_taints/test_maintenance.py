"""Maintenance is planned, begins, holds its taint and ends, whatever happens to the desk meanwhile."""

from datetime import timedelta
from typing import Any

import pytest

from inventory.models import DeskRule, Device, DeviceTaintRule, Effect, Maintenance, Stream
from inventory.taints import keeping, maintenance
from inventory.taints.maintenance import ChangedMeanwhile, Terms, UnableToPlan
from inventory.taints.places import UnableToPlace, Where, read_place, selectors_at
from inventory.taints.rules import UPKEEP
from inventory.taints.selecting import Selector
from portal.accounts.models import AuditEntry, Notification
from portal.kube import errors
from tests.inventory_pages.factories import NVIDIA, make_device, make_pool
from tests.inventory_taints.conftest import Town
from tests.inventory_taints.fakes import RULES, mirror_rules

HOUR = timedelta(hours=1)


def plan(town: Town, *, where: Where | None = None, begins: timedelta = HOUR, **terms: str) -> Maintenance:
    return maintenance.plan(
        where=where or read_place(cluster=town.cluster, scope="node", node="gpu-01"),
        terms=Terms(
            starts_at=town.now + begins, ends_at=town.now + begins + HOUR,
            reason=terms.pop("reason", "new fans"), effect=terms.pop("effect", "NoSchedule"),
        ),
        actor=town.cast.administrator,
        now=town.now,
        **terms,
    )  # fmt: skip


def told(town: Town) -> list[str]:
    rows = Notification.objects.filter(person=town.cast.member, kind="maintenance").order_by("pk")
    return [row.subject["message"].split("%(place)s")[1][:12] for row in rows]


def test_it_taints_at_its_start_and_no_more_at_its_end_and_holders_are_told(town: Town) -> None:
    planned = plan(town)
    keeping.keep(now=town.now)
    assert (planned.state, town.fake.rules) == ("planned", {})

    keeping.keep(now=town.now + HOUR)
    planned.refresh_from_db()
    assert planned.state == "active"
    ((name, body),) = town.fake.rules.items()
    assert body["spec"]["deviceSelector"] == {"driver": NVIDIA, "pool": "gpu-01"}
    assert body["spec"]["taint"]["effect"] == "NoSchedule"
    assert body["metadata"]["labels"][UPKEEP] == str(planned.key)

    keeping.keep(now=town.now + 2 * HOUR)
    planned.refresh_from_db()
    assert (planned.state, town.fake.rules) == ("ended", {})
    assert DeskRule.objects.get(name=name).removed_at
    assert told(town) == [" is planned ", " has begun a", " is over."]
    assert Notification.objects.filter(person=town.cast.lead).count() == 0


def test_holders_are_reminded_a_day_and_an_hour_before_each_once(town: Town) -> None:
    plan(town, begins=25 * HOUR)
    for later in (0, 1, 1, 2, 24, 24):
        keeping.keep(now=town.now + later * HOUR)
    assert told(town) == [" is planned ", " begins in %", " begins in %"]


def test_ticking_again_does_nothing_again(town: Town) -> None:
    plan(town)
    for _turn in range(3):
        keeping.keep(now=town.now + HOUR)
    assert [call[0] for call in town.fake.calls] == ["create", "create"], "a rehearsal and the thing"


def test_a_desk_that_died_between_the_cluster_and_its_database_recognises_its_rule(town: Town) -> None:
    planned = plan(town)
    keeping.keep(now=town.now + HOUR)
    before = dict(town.fake.rules)
    DeskRule.objects.all().delete()
    keeping.keep(now=town.now + HOUR)
    assert town.fake.rules == before
    assert DeskRule.objects.get().maintenance == planned


def test_a_rule_of_somebody_else_by_that_name_is_left_alone_and_told(town: Town) -> None:
    planned = plan(town)
    keeping.keep(now=town.now + HOUR)
    DeskRule.objects.all().delete()
    for body in town.fake.rules.values():
        body["metadata"]["labels"] = {}
    keeping.keep(now=town.now + HOUR)
    planned.refresh_from_db()
    assert "already" in planned.problem
    assert not DeskRule.objects.exists()


def test_a_cluster_out_of_reach_is_tried_again_and_nothing_is_called_over_before(town: Town) -> None:
    planned = plan(town)
    keeping.keep(now=town.now + HOUR)
    town.fake.fail["delete"] = errors.Unreachable("connection refused")
    keeping.keep(now=town.now + 2 * HOUR)
    planned.refresh_from_db()
    assert (planned.state, planned.problem) == ("ending", "connection refused")
    assert len(town.fake.rules) == 1
    town.fake.fail.clear()
    keeping.keep(now=town.now + 2 * HOUR + timedelta(seconds=30))
    planned.refresh_from_db()
    assert planned.state == "ending", "not asked again at once"
    keeping.keep(now=town.now + 2 * HOUR + timedelta(minutes=2))
    planned.refresh_from_db()
    assert (planned.state, planned.problem, town.fake.rules) == ("ended", "", {})


def test_what_the_desk_slept_through_is_missed_and_taints_nothing(town: Town) -> None:
    planned = plan(town)
    keeping.keep(now=town.now + 5 * HOUR)
    planned.refresh_from_db()
    assert (planned.state, town.fake.rules) == ("missed", {})
    assert Notification.objects.filter(person=town.cast.administrator, kind="maintenance").exists()


def test_a_start_that_was_slept_through_is_late_and_its_end_is_not(town: Town) -> None:
    planned = plan(town)
    keeping.keep(now=town.now + HOUR + timedelta(minutes=50))
    assert len(town.fake.rules) == 1
    keeping.keep(now=town.now + 2 * HOUR)
    planned.refresh_from_db()
    assert (planned.state, town.fake.rules) == ("ended", {})


def test_a_device_that_comes_to_the_node_is_tainted_and_one_that_shares_a_pool_by_name(town: Town) -> None:
    plan(town)
    keeping.keep(now=town.now + HOUR)
    shared = make_pool(town.cluster, "fabric", driver="nic.example.com")
    profile = Device.objects.all()[0].profile
    make_device(town.cluster, "nic-1", node="gpu-01", pool=shared, profile=profile)
    make_device(town.cluster, "nic-2", node="gpu-02", pool=shared, profile=profile)
    keeping.keep(now=town.now + HOUR + timedelta(seconds=15))
    selectors = [body["spec"]["deviceSelector"] for body in town.fake.rules.values()]
    assert {"driver": "nic.example.com", "pool": "fabric", "device": "nic-1"} in selectors
    assert len(selectors) == 2


def test_a_rule_that_somebody_deletes_meanwhile_is_not_fought_over(town: Town) -> None:
    planned = plan(town)
    keeping.keep(now=town.now + HOUR)
    town.fake.objects.clear()
    assert not DeviceTaintRule.objects.exists()
    later = town.now + HOUR + timedelta(minutes=10)
    Stream.objects.filter(resource=RULES).update(heard_at=later)
    keeping.keep(now=later)
    keeping.keep(now=later)
    assert town.fake.rules == {}
    assert planned.events.filter(what="rule-gone").count() == 1


def test_effect_and_end_can_be_changed_while_it_is_under_way(town: Town) -> None:
    planned = plan(town)
    keeping.keep(now=town.now + HOUR)
    planned.refresh_from_db()
    maintenance.change(
        maintenance=planned, seen_version=planned.version, actor=town.cast.administrator,
        now=town.now + HOUR,
        terms=Terms(starts_at=town.now, ends_at=town.now + 3 * HOUR, reason="longer", effect="NoExecute"),
    )  # fmt: skip
    keeping.settle(planned, now=town.now + HOUR)
    assert list(town.fake.effects.values()) == ["NoExecute"]
    keeping.keep(now=town.now + 2 * HOUR)
    planned.refresh_from_db()
    assert (planned.state, planned.starts_at) == ("active", town.now + HOUR)


def test_two_who_change_the_same_get_a_conflict(town: Town) -> None:
    planned = plan(town)
    terms = Terms(starts_at=town.now + HOUR, ends_at=town.now + 3 * HOUR, reason="mine", effect="")
    who: dict[str, Any] = {"actor": town.cast.administrator, "now": town.now}
    maintenance.change(maintenance=planned, seen_version=1, terms=terms, **who)
    with pytest.raises(ChangedMeanwhile):
        maintenance.change(maintenance=planned, seen_version=1, terms=terms, **who)
    with pytest.raises(ChangedMeanwhile):
        maintenance.cancel(maintenance=planned, seen_version=1, **who)


def test_called_off_it_never_begins_and_ended_early_its_taint_goes(town: Town) -> None:
    first, second = plan(town), plan(town, begins=timedelta())
    keeping.settle(second, now=town.now)
    assert len(town.fake.rules) == 1
    for one in (first, second):
        maintenance.cancel(
            maintenance=one, seen_version=one.version, actor=town.cast.administrator, now=town.now
        )
        keeping.settle(one, now=town.now)
    keeping.keep(now=town.now + HOUR)
    assert (first.state, second.state, town.fake.rules) == ("cancelled", "ended", {})
    actions = set(AuditEntry.objects.values_list("action", flat=True))
    assert {"maintenance.plan", "maintenance.cancel", "maintenance.end", "taint_rule.create"} <= actions


def test_a_whole_cluster_is_tainted_only_after_its_name_was_typed(town: Town) -> None:
    whole = Where(town.cluster, "cluster")
    for typed in ("", "lakeside"):
        with pytest.raises(UnableToPlan) as refused:
            plan(town, where=whole, confirmed=typed)
        assert refused.value.field == "confirm"
    plan(town, where=whole, effect="")
    plan(town, where=whole, confirmed="berlin")
    keeping.keep(now=town.now + HOUR)
    assert [body["spec"]["deviceSelector"] for body in town.fake.rules.values()] == [{}]


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"reason": "  "}, "reason"),
        ({"reason": "a\x00b"}, "reason"),
        ({"reason": "x" * 501}, "reason"),
        ({"effect": "PreferNoSchedule"}, "effect"),
        ({"begins": -HOUR}, "starts_at"),
        ({"begins": timedelta(days=3000)}, "starts_at"),
    ],
)
def test_senseless_plans_are_refused_by_field(town: Town, values: dict[str, str], field: str) -> None:
    with pytest.raises(UnableToPlan) as refused:
        plan(town, **values)  # type: ignore[arg-type] # a timedelta where begins says so
    assert refused.value.field == field


def test_where_no_rules_are_served_only_announcing_is_left(town: Town) -> None:
    town.cluster.served = {"resourceslices": "resource.k8s.io/v1"}
    with pytest.raises(UnableToPlan, match=r"DRADeviceTaintRules.*resource\.k8s\.io/v1beta2"):
        plan(town)
    assert plan(town, effect="").pk
    town.cluster.served = {"devicetaintrules": "resource.k8s.io/v1alpha3"}
    town.cluster.server_version = "v1.34.1"
    with pytest.raises(UnableToPlan, match="None"):
        plan(town, effect=Effect.NONE)


def test_places_are_read_as_people_write_them(town: Town) -> None:
    line = f"{NVIDIA}/gpu-01/gpu-1"
    place = read_place(cluster=town.cluster, scope="devices", devices=f"\n {line}\n{line}\n")
    assert selectors_at(place) == [Selector(NVIDIA, "gpu-01", "gpu-1")]
    for scope, field, values in (
        ("devices", "devices", {"devices": "gpu-1"}),
        ("devices", "devices", {"devices": f"{NVIDIA}/gpu-01/gpu-9"}),
        ("devices", "devices", {}),
        ("node", "node", {"node": "nowhere"}),
        ("pool", "pool", {"driver": NVIDIA, "pool": "nowhere"}),
        ("rack", "scope", {}),
    ):
        with pytest.raises(UnableToPlace) as refused:
            read_place(cluster=town.cluster, scope=scope, **values)
        assert refused.value.field == field


def test_leftovers_are_found_and_taken_away(town: Town) -> None:
    planned = plan(town, begins=timedelta())
    keeping.settle(planned, now=town.now)
    mirror_rules(town.cluster, town.fake)
    # As after a desk that was restored from a backup made before the end.
    Maintenance.objects.update(state="ended")
    assert [row.maintenance for row in keeping.leftovers()] == [planned]
    assert "left over" in town.client("auditor").get("/taints/").content.decode()
    keeping.keep(now=town.now)
    assert (list(keeping.leftovers()), town.fake.rules) == ([], {})


def test_what_is_under_way_is_not_prolonged_for_ever(town: Town) -> None:
    planned = plan(town, begins=timedelta())
    keeping.keep(now=town.now)
    planned.refresh_from_db()
    later = town.now + maintenance.LONGEST + HOUR
    terms = Terms(starts_at=town.now, ends_at=later, reason="for ever", effect="")
    who: dict[str, Any] = {"actor": town.cast.administrator, "seen_version": planned.version}
    with pytest.raises(UnableToPlan, match="90 days"):
        maintenance.change(maintenance=planned, terms=terms, now=town.now, **who)
    maintenance.change(maintenance=planned, terms=terms, now=town.now + HOUR, **who)
    assert planned.ends_at == later
