"""Depth-first search for devices: claims, requests and alternatives in their order, devices in theirs.

The first solution in that order is the answer, as kube-scheduler finds it. What is left out on the way
cannot hold an earlier solution: within one request devices are chosen in ascending order (any other order of
the same devices is the same choice), and a device whose twin has just failed in the same place is not tried.
"""

from collections.abc import Hashable, Iterator

import msgspec

from portal.dra.allocator.requests import MAX_RESULTS, Ask, Wish, label
from portal.dra.allocator.state import State, Taken, constrain
from portal.dra.errors import ClaimError, NodeError
from portal.dra.pools import NodePool, Pool, PoolDevice


class StepLimitError(Exception):
    """The search took more steps than allowed."""


class HopelessError(Exception):
    """There is a request that can never be fulfilled, whatever the others get."""


class Place(msgspec.Struct, frozen=True):
    """Where the search stands: at a device of a request's alternative (None while none is chosen)."""

    claim: int
    request: int = 0
    wish: Wish | None = None
    device: int = 0
    cursor: int = 0


class Search:
    """One attempt to fulfil all claims on one node."""

    def __init__(
        self, asks: tuple[Ask, ...], pools: tuple[NodePool, ...], state: State, max_steps: int
    ) -> None:
        self._asks = asks
        self._pools = pools
        self._state = state
        self._offsets: list[tuple[int, NodePool]] = []
        total = 0
        for seen in pools:
            self._offsets.append((total, seen))
            total += len(seen.devices)
        self._twins = Twins(asks, state)
        self._left = Left(pools, state)
        self._steps_left = max_steps
        self._checks = {-1, max_steps * 99 // 100}
        self._invalid: Pool | None = None
        self.taken: list[list[Taken]] = [[] for _ in asks]
        self.chosen: list[list[Wish]] = [[] for _ in asks]

    def run(self) -> bool:
        """Whether there is a solution; it is then in `taken` and `chosen`, claim by claim.

        Raises ClaimError or NodeError where the search meets a fault, StepLimitError when it takes too long.
        """
        try:
            found = self._walk()
        except HopelessError:
            found = False
        if not found and self._invalid is not None:
            raise NodeError("invalid-pool", pool="/".join(self._invalid.key), why=self._invalid.invalid)
        return found

    def _walk(self) -> bool:
        stack: list[Iterator[Place]] = []
        place: Place | None = Place(claim=0)
        while True:
            if place is not None:
                choice = self._choices(place)
                if choice is None:
                    return True
                stack.append(choice)
            place = next(stack[-1], None)
            if place is None:
                stack.pop()
                if not stack:
                    return False

    def _choices(self, place: Place) -> Iterator[Place] | None:
        """Ways to go on from here; None when everything is fulfilled."""
        if place.claim >= len(self._asks):
            return None
        ask = self._asks[place.claim]
        if place.request >= len(ask.alternatives):
            return iter((Place(claim=place.claim + 1),))
        if place.wish is None:
            return self._alternatives(place, ask)
        if place.device >= place.wish.count:
            return iter((Place(claim=place.claim, request=place.request + 1),))
        if place.wish.takes_all:
            return self._all(place, ask, place.wish)
        return self._one(place, ask, place.wish)

    def _alternatives(self, place: Place, ask: Ask) -> Iterator[Place]:
        for wish in ask.alternatives[place.request]:
            if wish.takes_all and not wish.all_devices:
                continue
            # A choice that leaves too little room for the requests to come is none.
            rest = ask.least_from[place.request + 1]
            if len(self.taken[place.claim]) + wish.count + rest > MAX_RESULTS:
                continue
            self.chosen[place.claim].append(wish)
            yield Place(claim=place.claim, request=place.request, wish=wish)
            self.chosen[place.claim].pop()

    def _all(self, place: Place, ask: Ask, wish: Wish) -> Iterator[Place]:
        """The next of the devices that are all needed: it can be had, or there is no solution this way."""
        self._step()
        seen, item = wish.all_devices[place.device]
        if self._state.in_use(wish, item, place.claim):
            return
        taken = self._take(place, ask, wish, seen, item)
        if taken is None:
            return
        self.taken[place.claim].append(taken)
        yield Place(claim=place.claim, request=place.request, wish=wish, device=place.device + 1)
        self.taken[place.claim].pop()
        taken.undo()

    def _one(self, place: Place, ask: Ask, wish: Wish) -> Iterator[Place]:
        """Every device that can be the next one of a request, in search order."""
        failed: set[Hashable] = set()
        needed = wish.count - place.device
        for offset, seen in self._offsets:
            if seen.pool.incomplete or offset + len(seen.devices) < place.cursor:
                continue
            if seen.pool.invalid is not None:
                # Nothing is taken from it, but without it nobody can say that the claims do not fit.
                self._invalid = self._invalid or seen.pool
                continue
            for index in range(max(0, place.cursor - offset), len(seen.devices)):
                item = seen.devices[index]
                if needed > 1 and self._left.too_few(wish, offset + index, needed):
                    return
                self._step()
                if self._state.in_use(wish, item, place.claim) or not wish.selects(item):
                    continue
                twin = self._twins.signature(item)
                if twin in failed:
                    continue
                taken = self._take(place, ask, wish, seen, item)
                if taken is None:
                    continue
                self.taken[place.claim].append(taken)
                yield Place(
                    claim=place.claim,
                    request=place.request,
                    wish=wish,
                    device=place.device + 1,
                    cursor=offset + index,
                )
                self.taken[place.claim].pop()
                taken.undo()
                failed.add(twin)

    def _take(self, place: Place, ask: Ask, wish: Wish, seen: NodePool, item: PoolDevice) -> Taken | None:
        taken = self._state.take(wish, seen, item, place.claim)
        if taken is None:
            return None
        release = constrain(ask.constraints, wish, item)
        if release is None:
            taken.undo()
            if wish.takes_all and wish.name == wish.parent:
                # A claim that asks for all devices and constrains them contradicts itself here. Among
                # alternatives it is just one that does not fit.
                raise ClaimError(
                    "all-unconstrainable", at=label(ask.claim, wish.name), device="/".join(item.id)
                )
            return None
        give_back = taken.undo

        def undo() -> None:
            release()
            give_back()

        taken.undo = undo
        return taken

    def _step(self) -> None:
        self._steps_left -= 1
        if self._steps_left in self._checks and self._hopeless():
            raise HopelessError
        if self._steps_left < 0:
            raise StepLimitError

    def _hopeless(self) -> bool:
        """Whether it is certain by now that some request has too few devices, whichever alternative is taken.

        Looked at when the search takes long: it would go through all choices for the requests before.
        """
        return any(
            all(self._left.too_few_at_all(wish) for wish in wishes)
            for ask in self._asks
            for wishes in ask.alternatives
        )


class Left:
    """How many devices at most are left for a request from some position on, once all of them were looked at.

    As long as one was not, going on may still bring to light that its selector has no answer.
    """

    def __init__(self, pools: tuple[NodePool, ...], state: State) -> None:
        self._items = [item for seen in pools for item in seen.devices]
        self._uncertain = any(seen.pool.incomplete or seen.pool.invalid is not None for seen in pools)
        self._state = state
        self._from: dict[int, list[int]] = {}
        self._asked: dict[int, int] = {}

    def too_few(self, wish: Wish, position: int, needed: int) -> bool:
        """Whether fewer than `needed` devices can come; False where that is not known."""
        if self._uncertain:
            return False
        counts = self._from.get(id(wish))
        if counts is None:
            # Looking whether all is known costs a pass over all devices: not at every step.
            asked = self._asked[id(wish)] = self._asked.get(id(wish), 0) + 1
            if asked % max(1, len(self._items)):
                return False
            counts = self._count(wish)
            if counts is None:
                return False
            self._from[id(wish)] = counts
        return counts[position] < needed

    def too_few_at_all(self, wish: Wish) -> bool:
        """Whether there are fewer than the request wants, even if no other gets any; False if not known."""
        if wish.takes_all:
            return not wish.all_devices
        if self._uncertain:
            return False
        found = 0
        for item in self._items:
            if not wish.admin and self._state.held(item):
                continue
            chosen = wish.would_select(item)
            if chosen is None or (chosen and self._state.shareable(item)):
                return False
            found += chosen
        return found < wish.count

    def _count(self, wish: Wish) -> list[int] | None:
        counts = [0]
        for item in reversed(self._items):
            held = not wish.admin and self._state.held(item)
            chosen = False if held else wish.known_to_select(item)
            if chosen is None or (chosen and self._state.shareable(item)):
                return None
            counts.append(counts[-1] + chosen)
        return counts[::-1]


class Twins:
    """Devices that are the same to every request, constraint and ledger of this attempt."""

    def __init__(self, asks: tuple[Ask, ...], state: State) -> None:
        self._state = state
        self._matchers = {
            id(clause.matcher): clause.matcher
            for ask in asks
            for wishes in ask.alternatives
            for wish in wishes
            for clause in wish.clauses
            if clause.matcher.bad is None
        }
        self._constraints = [constraint for ask in asks for constraint in ask.constraints]
        self._sizes = any(wish.capacity for ask in asks for wishes in ask.alternatives for wish in wishes)
        self._fixed: dict[int, Hashable] = {}

    def signature(self, item: PoolDevice) -> Hashable:
        """Equal for devices that can stand for each other at this moment."""
        fixed = self._fixed.get(id(item))
        if fixed is None:
            fixed = self._fixed[id(item)] = self._describe(item)
        now: Hashable = self._state.tried_by(item)
        if self._state.shareable(item):
            now = (now, self._state.counted(item), tuple(sorted(self._state.consumed(item).items())))
        return fixed, now

    def _describe(self, item: PoolDevice) -> Hashable:
        driver, pool, _ = item.id
        device = item.device
        shared = self._state.shareable(item)
        return (
            driver,
            pool,
            tuple(matcher.verdict(driver, device) for matcher in self._matchers.values()),
            tuple(constraint.values(driver, device) for constraint in self._constraints),
            tuple((taint.key, taint.value, taint.effect) for taint in item.taints),
            tuple(
                (
                    consumption.counter_set,
                    tuple(
                        sorted((name, str(counter.value)) for name, counter in consumption.counters.items())
                    ),
                    consumption.compatibility_groups,
                )
                for consumption in device.consumes_counters
            ),
            shared,
            bool(device.binding_conditions),
            tuple(sorted(device.capacity.items(), key=lambda pair: pair[0])) if shared or self._sizes else (),
            (item.node_name, item.source.spec.per_device_node_selection and device.node_selector),
        )
