"""Which request is behind a claim or a Pod on a cluster, for those who plan to disturb it."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from django.urls import reverse

from claims.models import Request, RequestClaim, RequestPod
from claims.requests.news import name_of
from claims.requests.reminders import people_of_all
from inventory.taints.concerned import Concern
from portal.accounts.models import User

CHUNK = 500


def concerned(cluster_id: int, uids: Collection[str]) -> Mapping[str, Concern]:
    """By the uid of a claim, or of a Pod that uses an entitlement; what is no request's is absent."""
    behind = dict(_requests(cluster_id, list(uids)))
    requests = {request.pk: request for request in behind.values()}
    people = people_of_all(requests.values()) if requests else {}
    known = {pk: _concern(request, people[pk]) for pk, request in requests.items()}
    return {uid: known[request.pk] for uid, request in behind.items()}


def _requests(cluster_id: int, uids: list[str]) -> Iterator[tuple[str, Request]]:
    behind = ("request__project", "request__requester", "request__flavor")
    for chunk in (uids[start : start + CHUNK] for start in range(0, len(uids), CHUNK)):
        # What has not been folded into the ledger yet is known by the object that the desk made.
        made = Request.objects.filter(cluster=cluster_id, object_uid__in=chunk)
        rows = made.select_related("project", "requester", "flavor")
        yield from ((request.object_uid, request) for request in rows)
        claims = RequestClaim.objects.filter(cluster=cluster_id, claim_uid__in=chunk).select_related(*behind)
        yield from ((row.claim_uid, row.request) for row in claims)
        pods = RequestPod.objects.filter(cluster=cluster_id, pod_uid__in=chunk).select_related(*behind)
        yield from ((row.pod_uid, row.request) for row in pods)


def _concern(request: Request, people: Sequence[User]) -> Concern:
    return Concern(
        project=request.project,
        key=request.key,
        name=str(name_of(request)),
        url=reverse("request-detail", args=[request.key]),
        until=request.expires_at,
        people=people,
    )
