"""A server that has forgotten the changes since we last looked, and says so only within the watch."""

from inventory.models import Claim, Observation, Stream
from tests.inventory.follow.conftest import Followed
from tests.inventory.objects import allocation, claim, gpu, node, resource_slice, result
from tests.kube.scripted import Reply, line, status


def test_the_time_that_a_refused_watch_could_not_tell_of_is_not_called_covered(followed: Followed) -> None:
    held = claim(allocated=allocation(result("gpu-0")))
    followed.mini.put(node(), resource_slice("s1", [gpu(0)]), held)
    followed.until(followed.synced)
    last_heard = Stream.objects.get(resource="resourceclaims").heard_at
    assert last_heard is not None

    followed.mini.drop(held, quietly=True)
    gone = Reply(stream=[line("ERROR", status(410, "Expired", "too old resource version"))])
    followed.mini.watches["resourceclaims"] = [gone]
    followed.until(lambda: not Claim.objects.exists())

    deleted = Observation.objects.get(kind="claim-deleted")
    # It was released at some time after we last heard of it: nothing narrower is known.
    assert deleted.uncertainty_us >= (deleted.at - last_heard).total_seconds() * 1e6 - 1000
