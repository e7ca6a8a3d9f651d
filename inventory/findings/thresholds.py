"""For how long something has to last until it is a finding. Each desk sets its own: see `FINDING_MINUTES`
in the settings."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta


@dataclass(frozen=True)
class Thresholds:
    """The defaults leave time for what drivers and controllers do in the ordinary course of things."""

    # Drivers replace the slices of a pool one by one.
    pool_incomplete: timedelta = timedelta(minutes=5)
    pool_empty: timedelta = timedelta(minutes=15)
    # A driver publishes nothing while its Pod is being replaced, or the node starts.
    hardware_without_slice: timedelta = timedelta(minutes=15)
    # kubelet and driver need a while to notice that a node is gone; reboots take minutes.
    node_gone: timedelta = timedelta(minutes=5)
    node_not_ready: timedelta = timedelta(minutes=15)
    doubly_managed: timedelta = timedelta(minutes=5)
    claim_deleted: timedelta = timedelta(minutes=10)
    # The controller releases an unused claim within seconds, a new consumer comes within a minute.
    claim_unused: timedelta = timedelta(minutes=15)
    consumer_gone: timedelta = timedelta(minutes=10)
    group_partly: timedelta = timedelta(minutes=15)
    # How far back a failed preparation still counts.
    prepare_window: timedelta = timedelta(minutes=30)
    pending: timedelta = timedelta(minutes=15)
    # Two parts that change within it may have to do with each other, and with what broke since.
    change_window: timedelta = timedelta(hours=24)
    # Beyond what a node may be late anyway: while the desk itself was away, nobody could report.
    reports_missing: timedelta = timedelta(minutes=10)
    taint_age: timedelta = timedelta(hours=24)
    class_missing: timedelta = timedelta(minutes=15)
    contract_broken: timedelta = timedelta(minutes=30)


def from_minutes(minutes: Mapping[str, float]) -> Thresholds:
    """Thresholds with some of them set, by name and in minutes. Raises ValueError for a name that there is
    not and for what is no length of time."""
    names = {field.name for field in fields(Thresholds)}
    if unknown := sorted(minutes.keys() - names):
        raise ValueError(f"unknown thresholds: {', '.join(unknown)}; there are: {', '.join(sorted(names))}")
    if wrong := sorted(name for name, value in minutes.items() if not 0 <= value <= 525_600):
        raise ValueError(f"not between 0 and 525600 minutes: {', '.join(wrong)}")
    return Thresholds(**{name: timedelta(minutes=value) for name, value in minutes.items()})
