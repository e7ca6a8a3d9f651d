"""What others changed about the desk's objects, as findings of the cluster; and their requesters told of it,
once for each time that it begins."""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from django.urls import reverse
from django.utils.translation import gettext_noop

from claims.models import QuotaObject, Request
from claims.requests.drift import THERE, differences_of_all
from claims.requests.news import name_of
from claims.requests.reminders import people_of
from inventory.findings.model import Found
from inventory.findings.strays import CHANGED
from inventory.models import Cluster, Finding
from portal.accounts.models import Membership, Project, User
from portal.accounts.notifications.kinds import Kind
from portal.accounts.notifications.telling import tell
from portal.accounts.notifications.texts import Text, as_written

# The mirror may show an object as it was before the desk's own last step.
SETTLING = timedelta(minutes=1)
# More than so many differences of one object are counted.
LISTED = 3
_KINDS = {"ResourceClaim": "claim", "ResourceClaimTemplate": "template", "Pod": "pod"}


def findings(cluster: Cluster, _now: datetime) -> Iterable[Found]:
    """Objects of requests, and ResourceQuotas, that are not as the desk sent them. Five queries."""
    rows = Request.objects.filter(cluster=cluster, state__in=THERE).exclude(object_uid="")
    requests = {row.pk: row for row in rows.select_related("project", "requester", "cluster")}
    for pk, differences in differences_of_all(list(requests.values())).items():
        request = requests[pk]
        for kind, name in dict.fromkeys((one.kind, one.name) for one in differences):
            paths = [one.path for one in differences if (one.kind, one.name) == (kind, name)]
            more = [f"+{len(paths) - LISTED}"] if len(paths) > LISTED else []
            yield Found(
                subject=f"{request.key}/{kind}",
                object_kind=_KINDS[kind],
                namespace=request.namespace,
                name=name,
                code="object-changed",
                params={
                    "object": f"{kind} {request.namespace}/{name}",
                    "request": str(request.key),
                    "paths": [*paths[:LISTED], *more],
                },
                holds_for=SETTLING,
            )
    for row in QuotaObject.objects.filter(cluster=cluster, state=QuotaObject.State.DRIFT).order_by("pk"):
        # The desk has looked at it on the cluster already.
        yield Found(
            subject=f"quota/{row.pk}",
            object_kind="quota",
            namespace=row.namespace,
            name=row.name,
            code="quota-changed",
            params={"object": str(row), "said": row.message[:300]},
        )


def tell_concerned(*, opened: Collection[Finding], now: datetime) -> None:
    """Of findings that were just opened, those about objects of the desk, to whom they belong: requesters; of
    a ResourceQuota those who have an entitlement in its namespace, or the leads of its project."""
    mine = [finding for finding in opened if finding.kind == CHANGED]
    keys = {finding.params.get("request") for finding in mine} - {None}
    requests = {
        str(row.key): row
        for row in Request.objects.filter(key__in=keys).select_related("requester", "project", "flavor")
    }
    for finding in mine:
        request = requests.get(str(finding.params.get("request", "")))
        if request is not None:
            _tell(
                people_of(request), finding, name=name_of(request), now=now, project=request.project,
                url=reverse("request-detail", args=[request.key]),
            )  # fmt: skip
        elif finding.code == "quota-changed":
            _tell_of_quota(finding, now=now)


def _tell_of_quota(finding: Finding, *, now: datetime) -> None:
    pk = finding.subject.rpartition("/")[2]
    row = QuotaObject.objects.select_related("project", "quota").filter(pk=pk).first()
    if row is None:
        return
    if row.quota is None:
        entitled = Request.objects.filter(
            cluster=row.cluster_id, namespace=row.namespace, shape=Request.Shape.ENTITLEMENT, state__in=THERE
        )
        people = list(User.objects.filter(pk__in=entitled.values("requester")).order_by("pk"))
        url = reverse("project-detail", args=[row.project.slug])
    else:
        leads = Membership.objects.filter(project=row.project, role=Membership.Role.LEAD)
        people = [membership.user for membership in leads.select_related("user").order_by("pk")]
        url = reverse("quota-detail", args=[row.quota.key])
    _tell(people, finding, name=as_written(f"ResourceQuota {row}"), url=url, now=now, project=row.project)


def _tell(
    people: Collection[User], finding: Finding, *, name: Text | str, url: str, now: datetime, project: Project
) -> None:
    paths = finding.params.get("paths") or [finding.params.get("said", "")]
    tell(
        people=people,
        kind=Kind.REQUEST,
        subject=Text(gettext_noop("Somebody changed %(name)s on the cluster, past the desk."), name=name),
        body=Text(
            gettext_noop("Not as it was sent: %(paths)s. The desk changes nothing back by itself."),
            paths=as_written(", ".join(map(str, paths))),
        ),
        url=url,
        project=project,
        key=f"object-changed:{finding.pk}",
        now=now,
    )
