"""The desk that only looks: whatever would write to a cluster is refused here, before it is sent."""

from django.utils.translation import gettext as _

from portal.kube import errors
from portal.kube.client import Answer, Client, Request
from portal.kube.resources import ACCESS_REVIEWS


class OnlyLooks(errors.Unreachable):
    """Nothing was sent. Like a cluster that cannot be reached: what is due is tried again later."""


class LookingClient(Client):
    """Reads, and asks what it may do; sends nothing else, not even on trial."""

    def send(self, request: Request, *, total: float | None = None) -> Answer:
        if request.method != "GET" and request.path != ACCESS_REVIEWS.path():
            raise OnlyLooks(_("This desk only looks: it writes to no cluster."))
        return super().send(request, total=total)
