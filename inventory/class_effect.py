"""What another spec of a DeviceClass would change on its cluster, computed from the mirror."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inventory.browse import product_name
from inventory.class_users import names_class
from inventory.mirror import matching
from inventory.mirror.turn import chunks
from inventory.mirror.writer import features_of
from inventory.models import Claim, ClaimDevice, Cluster, Device, DeviceProfile


@dataclass(frozen=True)
class Effect:
    """Devices by product, most first. `keeping` claims hold a device that would match no longer (they keep
    it); `problem` says why the expressions cannot be evaluated, or fail for some device."""

    gained: Sequence[tuple[str, int]]
    lost: Sequence[tuple[str, int]]
    before: int
    after: int
    keeping: int
    problem: str


def effect_of(
    *, cluster: Cluster, name: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> Effect:
    """From one spec of the class to another; None = there is no class."""
    profiles = matching.profiles_in(cluster.pk)
    old, _ = _matched(cluster, before, profiles)
    new, problem = _matched(cluster, after, profiles)
    names = {profile.pk: product_name(profile) for profile in profiles}
    lost = old.keys() - new.keys()
    return Effect(
        gained=_by_product((new[pk] for pk in new.keys() - old.keys()), names),
        lost=_by_product((old[pk] for pk in lost), names),
        before=len(old),
        after=len(new),
        keeping=_keeping(cluster, name, lost),
        problem=problem,
    )


def _matched(
    cluster: Cluster, spec: Mapping[str, Any] | None, profiles: Sequence[DeviceProfile]
) -> tuple[Mapping[int, int], str]:
    """Matching devices with their profiles, and what is wrong."""
    if spec is None:
        return {}, ""
    features = features_of(cluster.server_version, served=cluster.served)
    expressions = matching.compile_all(matching.expressions_of(spec), features=features)
    found = matching.match(expressions, profiles, cluster_id=cluster.pk)
    devices = dict(found.devices)
    if found.profiles:
        whole = Device.objects.filter(cluster=cluster, profile__in=found.profiles)
        devices |= dict(whole.values_list("pk", "profile_id"))
    return devices, expressions.problem or found.error


def _by_product(profiles: Iterable[int], names: Mapping[int, str]) -> Sequence[tuple[str, int]]:
    counts = Counter(names[pk] for pk in profiles)
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def _keeping(cluster: Cluster, name: str, lost: Iterable[int]) -> int:
    claims: set[int] = set()
    for ids in chunks(lost):
        claims |= set(ClaimDevice.objects.filter(device_id__in=ids).values_list("claim_id", flat=True))
    return sum(
        names_class(claim.spec, name)
        for ids in chunks(claims)
        for claim in Claim.objects.filter(pk__in=ids, cluster=cluster).only("spec")
    )
