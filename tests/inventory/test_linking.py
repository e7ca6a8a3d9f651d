"""Names link what several pools publish of one piece of hardware."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.linking import Offer, pci_address, pieces_of


def keys(*offers: Offer) -> list[list[int]]:
    return [[offer.key for offer in piece] for piece in pieces_of(offers)]


BOTH = Offer(0, "gpu", uuid="GPU-1", address="0000:1b:00.0")
BY_UUID = Offer(1, "dcgm", uuid="GPU-1")
BY_ADDRESS = Offer(2, "vfio", address="0000:1b:00.0")


def test_whoever_publishes_both_names_links_those_who_publish_one() -> None:
    assert keys(BY_UUID, BY_ADDRESS, BOTH) == [[1, 2, 0]]


def test_a_uuid_and_an_address_that_nobody_links_are_two() -> None:
    assert keys(BY_UUID, BY_ADDRESS) == [[1], [2]]


def test_two_that_publish_only_the_address_are_one() -> None:
    assert keys(BY_ADDRESS, replace(BY_ADDRESS, key=3, pool="nic")) == [[2, 3]]


def test_one_driver_may_publish_a_piece_in_several_modes() -> None:
    assert keys(BOTH, replace(BY_ADDRESS, pool="gpu")) == [[0, 2]]


def test_a_pool_knows_its_own_devices() -> None:
    other = replace(BOTH, key=3, uuid="GPU-2")
    # Two uuids at one address: parts that the driver tells apart.
    assert keys(BOTH, other, BY_ADDRESS) == [[0], [3], [2]]
    # One uuid at several addresses: the driver has one for all of its node.
    assert keys(BOTH, replace(BOTH, key=3, address="0000:1c:00.0"), BY_UUID) == [[0], [3], [1]]


def test_serials_link_only_what_has_no_better_name() -> None:
    board = Offer(1, "gaudi", serial="AM1")
    assert keys(board, replace(board, key=2, pool="qat")) == [[1, 2]]
    assert keys(replace(board, uuid="a"), replace(board, key=2, uuid="b")) == [[1], [2]]


def test_what_has_no_name_is_a_piece_of_its_own() -> None:
    assert keys(Offer(1, "a"), Offer(2, "b")) == [[1], [2]]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0000:1b:00.0", "0000:1b:00.0"), ("00000000:1B:00.0", "0000:1b:00.0"), ("1b:00.0", "0000:1b:00.0"),
        (" 0001:1b:0.7 ", "0001:1b:00.7"), ("10000:01:00.0", "10000:01:00.0"), ("", ""), ("Slot 7", "slot 7"),
        ("1b:00.8", "1b:00.8"),
    ],
)  # fmt: skip
def test_addresses_are_compared_in_one_way_of_writing(text: str, address: str) -> None:
    assert pci_address(text) == address


# --- properties -------------------------------------------------------------------------------------

NAMES = st.sampled_from(["", "", "a", "b", "c", "d"])
OFFERS = st.lists(st.tuples(st.sampled_from("xyz"), NAMES, NAMES), max_size=7).map(
    lambda rows: [Offer(n, pool, uuid, address) for n, (pool, uuid, address) in enumerate(rows)]
)


def names(offer: Offer) -> set[tuple[str, str]]:
    return {(kind, name) for kind, name in (("u", offer.uuid), ("a", offer.address)) if name}


def vague(offers: list[Offer]) -> set[tuple[str, str]]:
    found = set()
    for one, other in itertools.permutations(offers, 2):
        if one.pool == other.pool and one.uuid and one.address and other.uuid and other.address:
            if one.uuid == other.uuid and one.address != other.address:
                found.add(("u", one.uuid))
            if one.address == other.address and one.uuid != other.uuid:
                found.add(("a", one.address))
    return found


@given(OFFERS)
def test_pieces_are_what_is_linked_over_any_number_of_steps(offers: list[Offer]) -> None:
    """Against the definition, step by step."""
    unclear = vague(offers)
    linked = {(a.key, b.key) for a in offers for b in offers if a == b or (names(a) & names(b)) - unclear}
    while len(linked) < len(more := linked | {(a, d) for a, b in linked for c, d in linked if b == c}):
        linked = more
    expected = {frozenset(b for a, b in linked if a == offer.key) for offer in offers}
    assert {frozenset(piece) for piece in keys(*offers)} == expected


@given(OFFERS)
def test_every_offer_is_in_one_piece(offers: list[Offer]) -> None:
    assert sorted(itertools.chain(*keys(*offers))) == [offer.key for offer in offers]


@given(OFFERS, st.randoms(use_true_random=False))
def test_the_order_does_not_matter(offers: list[Offer], random: object) -> None:
    mixed = list(offers)
    random.shuffle(mixed)  # type: ignore[attr-defined]  # hypothesis' Random
    assert {frozenset(piece) for piece in keys(*mixed)} == {frozenset(piece) for piece in keys(*offers)}


@given(OFFERS)
def test_an_offer_without_a_name_adds_one_piece(offers: list[Offer]) -> None:
    assert len(keys(*offers, Offer(99, "x"))) == len(keys(*offers)) + 1


@given(OFFERS)
def test_whoever_repeats_what_is_there_adds_none(offers: list[Offer]) -> None:
    """A further driver that publishes exactly what one has published, under names of its own."""
    named = [offer for offer in offers if names(offer) and not names(offer) & vague(offers)]
    again = [replace(offer, key=offer.key + 100, pool="again") for offer in named[:1]]
    assert len(keys(*offers, *again)) == len(keys(*offers))
