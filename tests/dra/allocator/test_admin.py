"""adminAccess: devices in use by others are open to it, and it keeps nobody out (KEP-5018)."""

from portal.dra import features as gates
from tests.dra.builders import (
    ask,
    claim,
    device,
    devices,
    fleet,
    holding,
    picked,
    results,
    slice_of,
    tried,
    without,
)

ADMIN = ask("admin", adminAccess=True)


def test_administrators_get_devices_that_others_hold() -> None:
    where = fleet(slice_of(device("a")), claims=[holding("pool-1/a")])
    found = tried(where, claim(ADMIN))
    assert results(found) == [
        {
            "request": "admin",
            "driver": "gpu.example.com",
            "pool": "pool-1",
            "device": "a",
            "adminAccess": True,
        }
    ]


def test_a_device_that_an_administrator_looks_at_is_free() -> None:
    where = fleet(slice_of(device("a")), claims=[holding("pool-1/a", adminAccess=True)])
    assert picked(tried(where, claim(ask()))) == ["r=a"]


def test_an_explicit_false_is_an_ordinary_request() -> None:
    where = fleet(slice_of(device("a")))
    (result,) = results(tried(where, claim(ask(adminAccess=False))))
    assert "adminAccess" not in result


def test_a_claim_gets_no_device_twice() -> None:
    where = fleet(slice_of(device("a")))
    assert picked(tried(where, claim(ask("r", adminAccess=True, count=2)))) == "unschedulable"
    assert picked(tried(where, claim(ADMIN, ask("more", adminAccess=True)))) == "unschedulable"


def test_two_claims_of_administrators_may_share_a_device() -> None:
    where = fleet(slice_of(device("a")))
    assert picked(tried(where, claim(ADMIN, name="one"), claim(ADMIN, name="two"))) == ["admin=a", "admin=a"]


def test_access_comes_after_ordinary_use_in_the_same_attempt() -> None:
    where = fleet(slice_of(device("a")))
    assert picked(tried(where, claim(ask()), claim(ADMIN, name="two"))) == ["r=a", "admin=a"]


def test_selectors_apply_to_administrators_too() -> None:
    where = fleet(slice_of(device("a", attrs={"n": 1}), device("b", attrs={"n": 2})))
    wanted = claim(ask("r", "device.attributes['gpu.example.com'].n == 2", adminAccess=True))
    assert picked(tried(where, wanted)) == ["r=b"]


def test_taints_have_to_be_tolerated_by_administrators_too() -> None:
    where = fleet(slice_of(device("a", taints=[{"key": "sick", "effect": "NoExecute"}])))
    tolerant = ask("r", adminAccess=True, tolerations=[{"operator": "Exists"}])
    assert picked(tried(where, claim(ADMIN))) == "unschedulable"
    assert picked(tried(where, claim(tolerant))) == ["r=a"]


def test_access_consumes_counters_like_any_use() -> None:
    counters = [{"counterSet": "c", "counters": {"m": {"value": "1"}}}]
    shared = [{"name": "c", "counters": {"m": {"value": "2"}}}]
    slices = [
        slice_of(count=2, name="s0", sharedCounters=shared),
        slice_of(*devices("a", "b", "c", consumesCounters=counters), count=2),
    ]
    held = fleet(*slices, claims=[holding("pool-1/a")])
    assert picked(tried(held, claim(ADMIN))) == ["admin=a"]
    assert picked(tried(held, claim(ask("r", adminAccess=True, count=2)))) == "unschedulable"
    assert picked(tried(held, claim(ADMIN), claim(ask(), name="two"))) == "unschedulable"
    full = fleet(*slices, claims=[holding("pool-1/a", "pool-1/b")])
    assert picked(tried(full, claim(ADMIN))) == "unschedulable"


def test_counters_are_free_again_once_the_claim_with_access_is_allocated() -> None:
    counters = [{"counterSet": "c", "counters": {"m": {"value": "1"}}}]
    where = fleet(
        slice_of(count=2, name="s0", sharedCounters=[{"name": "c", "counters": {"m": {"value": "1"}}}]),
        slice_of(*devices("a", consumesCounters=counters), count=2),
        claims=[holding("pool-1/a", adminAccess=True)],
    )
    assert picked(tried(where, claim(ask()))) == ["r=a"]


def test_access_consumes_no_capacity_and_has_no_share() -> None:
    where = fleet(
        slice_of(device("a", allowMultipleAllocations=True, capacity={"m": "1"})),
        claims=[holding("pool-1/a", shareID="s", consumedCapacity={"m": "1"})],
    )
    (result,) = results(tried(where, claim(ADMIN)))
    assert "shareID" not in result
    assert "consumedCapacity" not in result


def test_without_the_gate_the_field_may_not_even_be_false() -> None:
    where = fleet(slice_of(device("a")), features=without(gates.ADMIN_ACCESS))
    assert picked(tried(where, claim(ask(adminAccess=False)))) == "claim: gate-off"
    assert picked(tried(where, claim(ask()))) == ["r=a"]


def test_the_gate_has_to_be_on() -> None:
    where = fleet(slice_of(device("a")), features=without(gates.ADMIN_ACCESS))
    found = tried(where, claim(ADMIN))
    assert picked(found) == "claim: gate-off"
    assert str(getattr(found, "error", "")) == (
        "claim team/claim, request admin: adminAccess is used, but the feature DRAAdminAccess is off"
    )
