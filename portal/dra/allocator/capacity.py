"""How much of a device's capacities a request consumes (KEP-5075)."""

from portal.dra import features as gates
from portal.dra.features import Features
from portal.dra.model import CapacityRequestPolicyRange, Device, DeviceCapacity
from portal.dra.quantity import Format, Quantity
from portal.dra.units import NANO, nanos, quantity

Requested = dict[str, str | int | float]

_MILLI = 10**6


def suffices(device: Device, requested: Requested) -> bool:
    """Whether a device that is taken as a whole has what is asked for."""
    return all(
        name in device.capacity and nanos(amount) <= nanos(device.capacity[name].value)
        for name, amount in requested.items()
    )


def share_of(device: Device, requested: Requested, features: Features) -> dict[str, Quantity] | None:
    """What one allocation of a shared device consumes of *each* capacity; None if it is ineligible.

    Not asked for means: the policy's default, or else all of it. Amounts are rounded up as the policy says.
    """
    if any(name not in device.capacity for name in requested):
        return None
    consumed: dict[str, Quantity] = {}
    for name, capacity in device.capacity.items():
        amount = _settled(capacity, requested.get(name), features)
        if amount is None or amount.nanos > nanos(capacity.value):
            return None
        consumed[name] = amount
    return consumed


def _settled(
    capacity: DeviceCapacity, asked: str | int | float | None, features: Features
) -> Quantity | None:
    policy = capacity.request_policy
    if asked is None:
        default = policy.default if policy is not None else None
        return quantity(capacity.value if default is None else default)
    amount = quantity(asked)
    if policy is None:
        return amount
    if policy.valid_range is not None:
        return _within(policy.valid_range, amount, features)
    if policy.valid_values:
        return next((quantity(value) for value in policy.valid_values if nanos(value) >= amount.nanos), None)
    return amount


def _within(valid: CapacityRequestPolicyRange, amount: Quantity, features: Features) -> Quantity | None:
    """Rounded up to the range's minimum and steps; None above its maximum.

    Steps are counted in whole units, or in thousandths where fractional ranges are enabled and used.
    """
    if amount.nanos < nanos(valid.min):
        settled = quantity(valid.min)
    elif valid.step is None:
        settled = amount
    else:
        settled = _stepped(valid.min, valid.max, valid.step, amount, features)
    return None if valid.max is not None and settled.nanos > nanos(valid.max) else settled


def _stepped(
    lowest: str | int | float,
    highest: str | int | float | None,
    step: str | int | float,
    amount: Quantity,
    features: Features,
) -> Quantity:
    """The first of lowest, lowest + step, lowest + 2 × step… that is not below the amount."""
    bounds = [bound for bound in (lowest, highest, step) if bound is not None]
    fractional = features.enabled(gates.FRACTIONAL_CAPACITY_RANGE) and any(nanos(b) % NANO for b in bounds)
    unit = _MILLI if fractional else NANO

    def whole(value: int) -> int:
        return -(-value // unit)

    width = whole(nanos(step))
    if width == 0:
        return amount
    first = whole(nanos(lowest))
    steps = -(-(whole(amount.nanos) - first) // width)
    return Quantity((first + steps * width) * unit, Format.BINARY_SI, scale=-3 if fractional else 0)
