"""One filled database that every call of the table is made against."""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Self

import pytest
from django.core.cache import cache
from django.db import transaction
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import timezone
from pytest_django import DjangoDbBlocker

from claims.catalogue import flavor_terms, flavors
from claims.drill import starting
from claims.launches import launching as launches
from claims.models import (
    Allocation,
    Booking,
    Draft,
    Drill,
    DrillStep,
    Flavor,
    GrowablePool,
    HolderMessage,
    Launch,
    LaunchTemplate,
    Mute,
    Placement,
    PoolPlan,
    Price,
    PriceBook,
    Quota,
    QuotaObject,
    Request,
    RequestChange,
    SavedRequest,
    Watch,
)
from claims.money.price_drafts import create_draft
from claims.requests import actions as requests
from claims.requests.manifests import REQUEST_LABEL
from claims.waiting import holders as asking_holder
from claims.waiting import watches
from inventory import clusters
from inventory.cdi import tokens as node_tokens
from inventory.findings.handling import acknowledge
from inventory.models import (
    Cluster,
    Device,
    DiagnosisTask,
    Finding,
    PlatformContract,
    Pod,
    SyncProblem,
)
from inventory.podresources import tokens as pod_device_tokens
from portal.accounts.announcements import announce
from portal.accounts.audit import record
from portal.accounts.invitations import invite
from portal.accounts.models import ApiToken, Delivery, Membership, Notification, User, Webhook
from portal.accounts.notifications import outbox, webhooks
from portal.accounts.notifications.kinds import Kind
from portal.accounts.notifications.telling import tell
from portal.accounts.notifications.texts import as_written
from portal.accounts.tokens import issue_token
from portal.kube.resources import DEVICE_CLASSES, DEVICE_TAINT_RULES, Resource
from tests.access.table import SCOPES
from tests.access.taints import make_taints, rule_objects
from tests.cast import PASSWORD, Cast, make_cast, person
from tests.claims.fakes import FakeCluster
from tests.claims.money import make_money
from tests.inventory_pages.factories import (
    LONG_AGO,
    bind,
    hold,
    make_class,
    make_cluster,
    make_device,
    make_drift,
    make_node,
    make_profile,
)
from tests.inventory_proposals.rows import make_proposal
from tests.inventory_telemetry.rows import make_source

SECRET_URL = "https://berlin.example.org:6443"


@dataclass(frozen=True)
class World:
    """`things` are what the table calls by a name in its column “with”."""

    cast: Cast
    cluster: Cluster
    live: Request
    answering: "AccessCluster"
    things: Mapping[str, Any]
    # Session keys by role, and plain texts of the administrator's tokens by scope.
    sessions: Mapping[str, str]
    tokens: Mapping[str, str]
    # Plain texts of tokens with every scope, by role.
    passes: Mapping[str, str] = field(default_factory=dict)

    def browser(self, role: str) -> Client:
        """A browser in which the role has signed in; "anonymous" has not."""
        client = Client(raise_request_exception=False)
        if role in self.sessions:
            client.cookies["sessionid"] = self.sessions[role]
        return client

    def user(self, role: str) -> User:
        """The person behind a role of the table."""
        found: User = getattr(self.cast, "member" if role == "owner" else role)
        return found


class AccessCluster(FakeCluster):
    """The cluster in a dictionary, which is always there and takes DeviceClasses, too."""

    url = SECRET_URL

    def served(self, group: str) -> dict[str, dict[str, Resource]]:
        here = {kind.plural: kind for kind in (DEVICE_CLASSES, DEVICE_TAINT_RULES)}
        found = {DEVICE_CLASSES.api_version: here}
        return found if group == DEVICE_CLASSES.group else {}

    def replace(
        self,
        resource: Resource,
        name: str,
        body: Mapping[str, Any],
        *,
        namespace: str = "",  # noqa: ARG002 - as the client has it
        dry_run: bool = False,  # noqa: ARG002 - as the client has it
    ) -> dict[str, Any]:
        self.get(resource, name)
        return dict(body)

    def __enter__(self) -> Self:
        return self

    def delete(self, resource: Resource, name: str, **options: Any) -> dict[str, Any]:
        return (
            self.get(resource, name) if options.get("dry_run") else super().delete(resource, name, **options)
        )

    def reset(self) -> None:
        """As it was before any call."""
        self.objects = {
            (DEVICE_CLASSES.plural, "", name): {"metadata": {"name": name, "uid": name}, "spec": {}}
            for name in ("gpu.nvidia.com", "spare.example.org")
        } | rule_objects()


@contextmanager
def reachable_cluster() -> Iterator[AccessCluster]:
    """Whatever the portal asks of a cluster is answered from memory."""
    fake = AccessCluster()
    fake.reset()
    introduction = clusters.Introduction(
        url=SECRET_URL, version="v1.36.2", uid="", served={"deviceclasses": "resource.k8s.io/v1"}, missing=()
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clusters, "client_for", lambda _cluster: fake)
        patch.setattr(clusters, "introduce", lambda _client, **_more: introduction)
        patch.setitem(requests.submit.__kwdefaults__, "connect", lambda _cluster: fake)  # type: ignore[arg-type] # the kwdefaults are there
        patch.setitem(starting.start.__kwdefaults__, "connect", lambda _cluster: fake)  # type: ignore[arg-type] # the kwdefaults are there
        patch.setitem(starting.start.__kwdefaults__, "free_of", lambda _drill: 9)  # type: ignore[arg-type] # the kwdefaults are there
        patch.setitem(launches.start.__kwdefaults__, "connect", lambda _cluster: fake)  # type: ignore[arg-type] # the kwdefaults are there
        yield fake


def make_world(answering: AccessCluster) -> World:
    """Fills the database."""
    cast, now = make_cast(), timezone.now()
    # A second lead: the last one could neither leave nor become a member.
    Membership.objects.create(user=person("lars"), project=cast.project, role="lead")
    cluster = make_cluster()
    profile = make_profile()
    make_node(cluster, "gpu-01")
    held, free = (make_device(cluster, f"gpu-{n}", profile=profile) for n in range(2))
    complete_slice(held)
    agreed, drifted = make_drift(make_class(cluster, "gpu.nvidia.com", profiles=(profile,)))
    # Nobody uses it: it may be deleted without more ado.
    make_class(cluster, "spare.example.org", profiles=(profile,))
    binding = bind(cluster, "tides", cast.project)
    bind(cluster, "glaciers", cast.other)
    claim = hold(held, namespace="tides", claim="harmonics", pod="work", at=now - timedelta(hours=5))
    Pod.objects.filter(cluster=cluster, name="work").update(pod_group="ring")
    live = make_request(cast, cluster, state=Request.State.ALLOCATED, object_uid=claim.uid)
    claim.labels = {REQUEST_LABEL: str(live.key)}
    claim.save()
    book = PriceBook.objects.create(name="2026", currency="EUR", valid_from=LONG_AGO)
    Price.objects.create(book=book, product=profile.product, per_hour="2.5")
    Allocation.objects.create(
        cluster=cluster,
        namespace="tides",
        claim_name="harmonics",
        claim_uid=claim.uid,
        epoch=1,
        driver=profile.driver,
        pool_name="gpu-01",
        device_name="gpu-0",
        node_name="gpu-01",
        request_name="gpu",
        product=profile.product,
        device_class="gpu.nvidia.com",
        started_at=now - timedelta(hours=5),
        start_source="observed",
        request=live,
        project=cast.project,
    )
    finding, known = make_finding(cluster, "gpu-1"), make_finding(cluster, "gpu-0")
    acknowledge(finding=known, actor=cast.administrator, note="known", now=now)
    task = DiagnosisTask.objects.create(
        cluster=cluster, subject=finding.subject, finding=finding, opened_at=now, changed_at=now
    )
    PlatformContract.objects.create(
        cluster=cluster, kubernetes=">=1.30", changed_at=now, changed_by=cast.administrator
    )
    SyncProblem.objects.create(
        cluster=cluster, resource="resourceclaims", namespace="tides", name="odd", path="spec", reason="odd",
        seen_at=now,
    )  # fmt: skip
    cdi_token, _plain = node_tokens.issue(
        cluster=cluster, node_name="gpu-01", actor=cast.administrator, now=now
    )
    pod_device_token, _plain = pod_device_tokens.issue(
        cluster=cluster, node_name="gpu-01", actor=cast.administrator, now=now
    )
    own_token, _plain = issue(cast.member, ["inventory"])
    entry = record(now=now, actor=cast.lead, action="project.change", target=cast.project)
    announcement = announce(values={"level": 1, "text": "Spring tide"}, actor=cast.administrator, now=now)
    flavor, placement = make_flavors(cast, cluster)
    draft = create_draft(based_on=book, actor=cast.administrator, now=now)
    invitation, secret = invite(
        project=cast.project, role="member", lifetime=timedelta(days=7), actor=cast.lead, now=now
    )
    failed = make_request(cast, cluster, state=Request.State.FAILED)
    fresh = make_request(cast, cluster, state=Request.State.SUBMITTED)
    starter = LaunchTemplate.objects.create(
        slug="starter", name="Starter", kind="job", image="example.org/run:1", cpu="1", memory="1Gi",
        created_at=now, changed_at=now,
    )  # fmt: skip
    launch = Launch.objects.create(
        request=live, template=starter, person=cast.member, manifest={"kind": "Job"}, object_name="started",
        state=Launch.State.STARTED, created_at=now, changed_at=now,
    )  # fmt: skip
    saved = SavedRequest.objects.create(
        owner=cast.member, project=cast.project, name="Every night", created_at=now, changed_at=now
    )
    waiting = make_request(
        cast, cluster, state=Request.State.WAITING_FOR_APPROVAL, approval=Flavor.Approval.LEAD
    )
    note, hook, project_hook, delivery = make_news(cast)
    message, muted, wish = make_talk(cast, held, flavor)
    return World(
        cast=cast,
        cluster=cluster,
        live=live,
        answering=answering,
        things={
            "tides-membership": Membership.objects.get(user=cast.teammate).pk,
            "tides-binding": binding.pk,
            "held-device": held.pk,
            "free-device": free.pk,
            "live-request": live.key,
            "fresh-request": fresh.key,
            "failed-request": failed.key,
            "waiting-request": waiting.key,
            "waiting-change": make_change(cast, cluster).key,
            "offered-change": make_change(
                cast,
                cluster,
                state="offered",
                offered={"duration_hours": 9},
                offered_as="lead",
                offered_by=cast.lead,
            ).key,
            "saved": saved.key,
            "owners-draft": Draft.objects.create(
                owner=cast.member, values={"count": "2"}, created_at=now, changed_at=now
            ).key,
            "starter": starter.slug,
            "launch": launch.key,
            "finding": finding.pk,
            "known-finding": known.pk,
            "task": task.pk,
            "node-token": cdi_token.pk,
            "pod-device-token": pod_device_token.pk,
            "class-version": agreed.pk,
            "class-drift": drifted.pk,
            **make_proposals(cast, cluster),
            "owners-token": own_token.token_key,
            "entry": entry.pk,
            "announcement": announcement.pk,
            "price-book": book.pk,
            "price-draft": draft.pk,
            **make_money(cast, book),
            "teammate": cast.teammate.pk,
            "owners-note": note.pk,
            "owners-hook": hook.key,
            "tides-hook": project_hook.key,
            "delivery": delivery.pk,
            "message": message.key,
            "owners-mute": muted.pk,
            "owners-watch": wish.pk,
            "flavor": flavor.slug,
            "booking": make_booking(cast, flavor, cluster).key,
            "waiting-booking": make_booking(
                cast, flavor, cluster, state="waiting-for-approval", approval=Flavor.Approval.LEAD
            ).key,
            "placement": placement.pk,
            **make_quota(cast, cluster),
            **make_taints(cast, cluster),
            "plan": make_plan(cast, cluster).pk,
            "drill": make_drill(cast, cluster).key,
            "metric-query": make_source(cluster, actor=cast.administrator, now=now).pk,
            "pool": GrowablePool.objects.create(
                cluster=cluster,
                name="night",
                labels={"pool": "night"},
                max_nodes=2,
                devices=8,
                device_class="gpu.nvidia.com",
                changed_at=now,
            ).pk,
            "invitation": invitation.pk,
            "invitation-secret": secret,
        },
        sessions={role: _session(user) for role, user in _by_role(cast).items()},
        tokens={scope: issue(cast.administrator, [scope])[1] for scope in SCOPES},
        passes={role: issue(user, ApiToken.Scope.values)[1] for role, user in _by_role(cast).items()},
    )


def complete_slice(device: Device) -> None:
    """The device's slice as a driver would have published it, for what reads the fleet from slices."""
    pool = {"name": device.pool.name, "generation": 1, "resourceSliceCount": 1}
    device.slice.manifest["spec"]["pool"] = pool
    device.slice.save(update_fields=["manifest"])


def make_request(cast: Cast, cluster: Cluster, **values: Any) -> Request:
    """A request of the cast's member for their project."""
    now = timezone.now()
    made: Request = Request.objects.create(
        **{
            "project": cast.project, "requester": cast.member, "cluster": cluster, "namespace": "tides",
            "device_class": "gpu.nvidia.com", "count": 1, "shape": "claim", "duration": timedelta(hours=8),
            "purpose": "harmonic analysis", "created_at": now, "changed_at": now,
            "object_name": f"desk-{uuid.uuid4().hex[:8]}", **values,
        }
    )  # fmt: skip
    return made


def make_proposals(cast: Cast, cluster: Cluster) -> dict[str, int]:
    """One that waits, one that has stopped, one that is applied."""
    common: dict[str, Any] = {"cluster": cluster, "author": cast.administrator, "now": timezone.now()}
    return {
        "proposal": make_proposal(**common).pk,
        "stopped-proposal": make_proposal(**common, state="failed", step="failed", outcome="conflict").pk,
        "applied-proposal": make_proposal(**common, name="made.example.org", state="applied", step="done").pk,
    }


def make_change(cast: Cast, cluster: Cluster, **values: Any) -> RequestChange:
    """The cast's member asks for two hours more of a request that holds a device; a lead has to agree."""
    now = timezone.now()
    made: RequestChange = RequestChange.objects.create(
        **{
            "request": make_request(cast, cluster, state=Request.State.ALLOCATED),
            "person": cast.member, "current": {"duration_hours": 8}, "wanted": {"duration_hours": 10},
            "reason": "spring tide", "approval": Flavor.Approval.LEAD, "created_at": now, "changed_at": now,
            **values,
        }
    )  # fmt: skip
    return made


def make_booking(cast: Cast, flavor: Flavor, cluster: Cluster, **values: Any) -> Booking:
    """A booking of the cast's member for tomorrow."""
    now = timezone.now()
    made: Booking = Booking.objects.create(
        **{
            "project": cast.project, "requester": cast.member, "flavor": flavor, "cluster": cluster,
            "namespace": "tides", "count": 1, "starts_at": now + timedelta(days=1),
            "ends_at": now + timedelta(days=1, hours=8), "purpose": "harmonic analysis", "created_at": now,
            "changed_at": now, **values,
        }
    )  # fmt: skip
    return made


def make_quota(cast: Cast, cluster: Cluster) -> dict[str, Any]:
    """More than anybody asks for, and its object on the cluster that somebody else has changed."""
    now = timezone.now()
    quota = Quota.objects.create(
        project=cast.project, kind="devices", limit="100", action="block", enforced=True,
        valid_from=now - timedelta(days=9), created_at=now, changed_at=now,
    )  # fmt: skip
    changed = QuotaObject.objects.create(
        quota=quota, project=cast.project, cluster=cluster, namespace="tides", name="claimdesk-quota",
        wanted={"pods": "100"}, state=QuotaObject.State.DRIFT,
    )  # fmt: skip
    return {"quota": quota.key, "quota-object": changed.pk}


def make_plan(cast: Cast, cluster: Cluster) -> PoolPlan:
    """A pool that is said to be at its last stage, though its flavors are not there yet."""
    now = timezone.now()
    made: PoolPlan = PoolPlan.objects.create(
        cluster=cluster, name="night", labels={"pool": "night"}, canary_labels={"pool": "canary"},
        extended_resource="nvidia.com/gpu", device_class="gpu.nvidia.com", way="dra", reason="Sharing",
        stage=PoolPlan.Stage.MIGRATED, created_at=now, changed_at=now, changed_by=cast.administrator,
    )  # fmt: skip
    return made


def make_drill(cast: Cast, cluster: Cluster) -> Drill:
    """A drill on another pool, which asks an operator for something."""
    now = timezone.now()
    plan = PoolPlan.objects.create(
        cluster=cluster, name="dawn-pool", labels={"pool": "dawn"}, extended_resource="amd.com/gpu",
        device_class="gpu.amd.com", created_at=now, changed_at=now,
    )  # fmt: skip
    made: Drill = Drill.objects.create(
        plan=plan, cluster=cluster, namespace="drills", device_class="gpu.amd.com", image="pause",
        person=cast.administrator, created_at=now, due_at=now,
    )  # fmt: skip
    DrillStep.objects.create(
        drill=made, position=0, code="driver-restart", state="asking", phase="restart", started_at=now,
        phase_at=now, asked_at=now,
    )  # fmt: skip
    return made


def make_flavors(cast: Cast, cluster: Cluster) -> tuple[Flavor, Placement]:
    """Two flavors for everybody, and where the second is served: in both ways, so that it can be switched."""
    now = timezone.now()
    _first, flavor = (
        flavors.create(terms=flavor_terms.Terms(slug=slug, name=slug), user=cast.administrator, now=now)
        for slug in ("small", "large")
    )
    placement = Placement.objects.create(
        flavor=flavor, cluster=cluster, device_class="gpu.nvidia.com", extended_resource="nvidia.com/gpu"
    )
    return flavor, placement


def make_news(cast: Cast) -> tuple[Notification, Webhook, Webhook, Delivery]:
    """What the owner was told, a webhook of theirs and one of the project's, and what that was sent."""
    now = timezone.now()
    tell(
        people=[cast.member], kind=Kind.QUOTA, subject=as_written("Nearly used up"),
        url=reverse("project-list"), now=now,
    )  # fmt: skip
    own, theirs = (
        webhooks.add_webhook(
            url="https://hooks.example.org/", actor=who, now=now, permitted=(), project=project
        )[0]
        for who, project in ((cast.member, None), (cast.lead, cast.project))
    )
    delivery = webhooks.try_out(hook=theirs, actor=cast.lead, now=now)
    outbox.failed([delivery], now=now, why=as_written("refused"), final=True)
    return Notification.objects.get(), own, theirs, delivery


def make_talk(cast: Cast, held: Device, flavor: Flavor) -> tuple[HolderMessage, Mute, Watch]:
    """The stranger has asked the owner, who has answered; whom the owner does not hear, and what they wait
    for."""
    now = timezone.now()
    (message,) = asking_holder.ask(device=held, sender=cast.stranger, text="Until when?", now=now)
    asking_holder.answer(thread=message, sender=cast.member, text="Until Friday.", now=now)
    asking_holder.mute(person=cast.member, muted=cast.finance, now=now)
    wish = watches.watch(person=cast.member, count=1, days=3, now=now, flavor=flavor)
    return message, Mute.objects.get(), wish


def make_finding(cluster: Cluster, device: str) -> Finding:
    """A health fault of a device."""
    now = timezone.now()
    made: Finding = Finding.objects.create(
        cluster=cluster, kind="health-fault", subject=f"gpu.nvidia.com/gpu-01/{device}", severity="bad",
        object_kind="device", name=device, code="tainted",
        params={"device": device, "key": "gpu.nvidia.com/xid", "value": "43", "effect": "NoExecute"},
        first_seen_at=now, opened_at=now, last_seen_at=now,
    )  # fmt: skip
    return made


def issue(user: User, scopes: Any) -> tuple[ApiToken, str]:
    """A token and its plain text."""
    return issue_token(
        user=user, name="nightly", scopes=list(scopes), lifetime=timedelta(days=7), now=timezone.now()
    )


def _by_role(cast: Cast) -> dict[str, User]:
    roles = ("teammate", "lead", "stranger", "finance", "administrator", "auditor")
    return {"owner": cast.member} | {role: getattr(cast, role) for role in roles}


def _session(user: User) -> str:
    """As after the sign-in page, so that what wants a recent password lets the person through."""
    client = Client()
    client.post(reverse("account_login"), {"login": user.username, "password": PASSWORD})
    client.post(reverse("account_reauthenticate"), {"password": PASSWORD})
    return client.cookies["sessionid"].value


@pytest.fixture(scope="module")
def world(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[World]:
    """Made once for a module of tests, and undone with its transaction; each test, and each call, works in a
    savepoint of its own."""
    # Hashing must not be what tests wait for.
    hashers = override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"])
    with django_db_blocker.unblock(), transaction.atomic():
        # Attempts to sign in are counted there.
        cache.clear()
        with hashers, reachable_cluster() as fake:
            yield make_world(fake)
        transaction.set_rollback(True)


__all__ = ["World", "make_world", "world"]
