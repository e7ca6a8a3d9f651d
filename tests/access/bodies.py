"""What the writing calls of the table send: something that succeeds for whoever may."""

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from claims.catalogue import derive, flavor_terms
from claims.models import Flavor, PoolPlan, Quota
from claims.poolmoves import planner, switching
from claims.quotas import admin as quotas_admin
from claims.quotas import forms as quota_forms
from tests.access import taints
from tests.access.world import World
from tests.cast import PASSWORD

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: desk
contexts: [{name: desk, context: {cluster: oslo, user: desk}}]
clusters: [{name: oslo, cluster: {server: "https://oslo.example.org:6443"}}]
users: [{name: desk, user: {token: kube-secret-token}}]
"""
NEW_PASSWORD = "quite another long pass phrase"
_ask = {
    "project": "tides",
    "cluster": "berlin",
    "device_class": "gpu.nvidia.com",
    "count": "1",
    "shape": "claim",
    "duration": "8",
    "purpose": "harmonic analysis",
}
_class_text = "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: big}\n"
METRICS = "http://127.0.0.1:9"
_source = {"token": "hush", "idle_percent": "5", "idle_hours": "0", "keep_days": "60", "enabled": "on"}
_query = {"name": "Waiting", "kind": "drivers", "expression": "workqueue_depth", "unit": "number"}
_class = {"expression": ['device.driver == "gpu.nvidia.com"'], "extended_resource_name": "", "config": ""}
_rules = {"selectors": [{"cel": {"expression": 'device.driver == "gpu.nvidia.com" && true'}}]}
_prices = {"name": "Neap prices", "currency": "EUR", "prices": [{"per_hour": "2.50"}]}
_pool = {
    "cluster": "berlin",
    "labels": "pool=burst",
    "max_nodes": "2",
    "devices": "8",
    "device_class": "gpu.nvidia.com",
}
_plan = {
    "cluster": "berlin",
    "labels": "pool=night",
    "extended_resource": "nvidia.com/gpu",
    "device_class": "gpu.nvidia.com",
    "way": "dra",
    "reason": "Groups share cards",
    "version": "1",
}
_back = {"version": "1", "stage": "dual", "why": "Too early"}
_starter = {"name": "Starter", "kind": "job", "image": "example.org/run:1", "cpu": "1", "memory": "1Gi"}
_flavor = flavor_terms.Terms(slug="", name="").as_dict()
_served = {"version": "1", "stage": "automatic"}

_booking = {
    "project": "tides",
    "flavor": "large",
    "start": (datetime.now(tz=UTC) + timedelta(days=3)).isoformat(timespec="minutes"),
    "duration": "8",
    "purpose": "harmonic analysis",
}

_quota = {"project": "tides", "kind": "devices", "limit": "90", "action": "notify"}
_quota_changed = {"limit": "80", "action": "notify", "version": "1", "valid_from": "2026-01-01"}


def _looked(values: dict[str, Any], quota: Quota | None = None) -> dict[str, Any]:
    """Sent by who has seen what the quota would mean."""
    now = datetime.now(tz=UTC)
    said = quotas_admin.read_said(values, now=now, quota=quota)
    seen = quota_forms.digest(quotas_admin.effect(said=said, now=now, quota=quota))
    return {**values, "version": "1", "looked": seen, "step": "save"}


def _switched(world: World) -> dict[str, Any]:
    """Sent by who has seen what switching the pool's flavors would do."""
    plan = PoolPlan.objects.select_related("cluster").get(pk=world.things["plan"])
    members = planner.members_now(plan)
    rows = switching.places_in(plan, members)
    targets = switching.targets_of(plan, rows, members)
    return {"seen": switching.effect(plan, members, targets=targets, rows=rows).seen, "why": "It is good"}


# By call; what is not here sends nothing. A function where it depends on the world.
BODIES: dict[str, dict[str, Any] | list[dict[str, object]] | Callable[[World], dict[str, Any]]] = {
    "POST account_login": {"login": "mina", "password": PASSWORD},
    "POST account_reauthenticate": {"password": PASSWORD},
    "POST account_change_password": {
        "oldpassword": PASSWORD,
        "password1": NEW_PASSWORD,
        "password2": NEW_PASSWORD,
    },
    "POST quota-create": lambda _world: _looked(_quota),
    "POST quota-edit": lambda world: _looked(
        _quota_changed, Quota.objects.select_related("project", "flavor").get(key=world.things["quota"])
    ),
    "POST api-project-quota-list": _quota,
    "POST api-project-quota-effect": _quota,
    "PUT api-project-quota-detail": _quota_changed,
    "POST profile": {"first_name": "Renamed", "last_name": "", "language": "", "time_zone": ""},
    "POST set_language": {"language": "zh-hans", "next": "/"},
    "POST token-list": {"name": "export", "scopes": ["chargeback"], "lifetime": "30"},
    "POST watch-create": {"flavor": "large", "count": "1", "days": "3"},
    "POST device-ask": {"text": "When will it be free?"},
    "POST message-thread": {"text": "Thank you."},
    "PUT api-notification-choices": [{"kind": "request", "channel": "webhook", "wanted": False}],
    "POST api-watch-list": {"flavor": "large", "count": 2},
    "POST notification-choices": {"request-mail": "on"},
    "POST webhook-list": {"url": "https://chat.example.org/in"},
    "POST project-webhook-list": {"url": "https://chat.example.org/in"},
    "POST project-create": {"name": "Dunes", "slug": "dunes", "description": "", "cost_centre": ""},
    "POST project-edit": {"name": "Tides and waves", "description": "", "cost_centre": ""},
    "POST member-add": {"username": "stig", "role": "member"},
    "POST member-role": {"role": "lead"},
    "POST price-draft-edit": {
        "version": "1",
        "name": "Neap prices",
        "currency": "EUR",
        "prices-0-per_hour": "2.50",
    },
    "POST statement-move": {"action": "reopen"},
    "POST statement-nobody-move": {"action": "review"},
    "POST reconciliation": {"totals": "project;currency;amount\ntides;EUR;12.50"},
    "POST dispute-create": {"text": "We never had it"},
    "POST dispute-detail": {"text": "We look into it", "state": "open"},
    "POST adjustment-create": {
        "kind": "credit",
        "amount": "5",
        "currency": "EUR",
        "month": "2026-01",
        "reason": "A broken node",
    },
    "POST adjustment-decide": {"decision": "approve"},
    "POST ledger-policy": {"bound": "operator", "valid_from": "2999-01-01"},
    "POST api-statement-move": {"action": "reopen"},
    "POST api-statement-nobody-move": {"action": "review"},
    "POST api-statement-move-all": {"action": "review"},
    "POST api-adjustment-list": {
        "project": "tides",
        "month": "2026-01",
        "amount": "-5",
        "currency": "EUR",
        "reason": "A broken node",
    },
    "POST api-adjustment-decide": {"approve": True},
    "POST api-charge-dispute": {"text": "We never had it"},
    "POST api-dispute-detail": {"text": "We look into it", "state": "open"},
    "PUT api-budget": {"amount": "500", "thresholds": [80, 100]},
    "POST budget": {"amount": "500", "currency": "EUR", "thresholds": "80, 100"},
    "POST cost-centres": {"code": "NEAP", "valid_from": "2999-01-01"},
    "POST price-draft-publish": {"version": "1", "valid_from": "2999-01-01"},
    "POST api-price-book-list": {**_prices, "valid_from": "2999-01-01T00:00:00Z"},
    "POST api-price-book-try": {**_prices, "month": "2026-01"},
    "POST announcement-create": {"level": "1", "text": "Neap tide"},
    "POST announcement-edit": {"level": "2", "text": "Neap tide"},
    "POST binding-add": lambda world: {"cluster": world.cluster.pk, "namespace": "waves"},
    "POST invitation-list": {"role": "member", "email": "", "lifetime": "7"},
    "POST person-detail": {"roles": ["finance"]},
    "POST import-people": {"projects": "project;name\nsea-ice;Sea ice", "apply": "yes"},
    "POST api-import": {"projects": "project;name\nsea-ice;Sea ice", "apply": True},
    "POST migration-create": {**_plan, "name": "dawn"},
    "POST migration-edit": {**_plan, "name": "dusk"},
    "POST migration-stage": _back,
    "POST migration-switch": _switched,
    "POST migration-sign": {"note": "Runbook 7"},
    "POST cluster-readiness-sign": {"note": "Reviewed"},
    "POST api-cluster-readiness": {"point": "drivers", "note": "Reviewed"},
    "POST drill-create": {"namespace": "drills", "part": "canary"},
    "POST drill-answer": {"question": "driver-restart", "answer": "did"},
    "POST api-drill-list": {"namespace": "drills", "questions": ["claim-created"]},
    "POST api-drill-answer": {"question": "driver-restart", "did": True},
    "POST api-migration-list": {**_plan, "name": "dawn"},
    "PUT api-migration-detail": {**_plan, "name": "dusk"},
    "POST api-migration-stage": _back,
    "POST api-migration-switch": _switched,
    "POST api-migration-sign": {"item": "way-back", "note": "Runbook 7"},
    "POST growable-pool-create": {**_pool, "name": "burst"},
    "POST growable-pool-edit": {**_pool, "name": "night"},
    "POST api-growable-pool-list": {**_pool, "name": "burst"},
    "PUT api-growable-pool-detail": {**_pool, "name": "night"},
    "POST api-request-preview": _ask,
    "POST flavor-create": {**_flavor, "slug": "huge", "name": "Huge"},
    "POST flavor-edit": lambda _world: {
        **_flavor,
        "slug": "large",
        "name": "Larger",
        "version": Flavor.objects.get(slug="large").version,
    },
    "POST flavor-move": {"to": "up"},
    "POST flavor-derive": lambda _world: {"key": derive.proposals()[0].key},
    "POST placement-create": {
        "cluster": "berlin",
        "pool": "b",
        "node_selector": "pool=b",
        "device_class": "gpu.nvidia.com",
        **_served,
    },
    "POST placement-edit": {"cluster": "berlin", "device_class": "spare.example.org", **_served},
    "POST placement-switch": {"stage": "dra"},
    "POST request-reject": {"comment": "too much"},
    "POST request-change": {"duration": "10", "reason": "spring tide"},
    "POST api-request-changes": {"duration": 10, "reason": "spring tide"},
    "POST request-offer": {"duration": "4"},
    "POST api-request-offer": {"duration": 4},
    "POST change-reject": {"comment": "too much"},
    "POST api-change-reject": {"comment": "too much"},
    "POST api-request-reject": {"comment": "too much"},
    "POST api-catalogue-list": {"slug": "huge", "name": "Huge"},
    "PUT api-catalogue-detail": lambda _world: {
        "slug": "large",
        "name": "Larger",
        "version": Flavor.objects.get(slug="large").version,
    },
    "POST api-catalogue-place-list": {
        "cluster": "berlin",
        "pool": "b",
        "node_selector": {"pool": "b"},
        "device_class": "gpu.nvidia.com",
        "version": 1,
    },
    "PUT api-catalogue-place-detail": {
        "cluster": "berlin",
        "device_class": "spare.example.org",
        "version": 1,
    },
    "POST api-catalogue-place-switch": {"stage": "dra"},
    "POST api-catalogue-proposals": lambda _world: {"key": derive.proposals()[0].key},
    "PUT api-cluster-switch": {"enabled": False},
    "POST api-cdi-token-list": {"cluster": "berlin", "node": "gpu-02", "days": 30},
    "POST api-pod-device-token-list": {"cluster": "berlin", "node": "gpu-02", "days": 30},
    "POST cdi-token": {"cluster": "berlin", "node": "gpu-02", "lifetime": "30"},
    "POST cluster-pod-device-token": {"node": "gpu-02", "lifetime": "30"},
    "POST cluster-add": {"name": "oslo", "credentials": "stored", "kubeconfig_text": KUBECONFIG},
    "POST cluster-switch": {"enabled": "no"},
    "POST class-create": {"cluster": "berlin", "name": "big", **_class},
    "POST class-restore": {"seen_version": "7", "reason": "as before"},
    "POST api-class-restore": {"resource_version": "7"},
    "POST class-propose": {
        "name": "spare.example.org",
        "kind": "edit",
        "spec": '{"selectors": [{"cel": {"expression": "true"}}]}',
        "cluster": "berlin",
        "reason": "more of them",
        "propose": "1",
    },
    "POST api-class-list": {"cluster": "berlin", "name": "big", "spec": _rules},
    "PUT api-class-detail": {"resource_version": "7", "spec": _rules},
    "POST api-class-effect": {"name": "big", "clusters": ["berlin"], "spec": _rules},
    "POST api-class-proposal-list": {
        "name": "spare.example.org",
        "clusters": ["berlin"],
        "spec": _rules,
        "reason": "more of them",
    },
    "POST api-class-proposal-approve": {"revision": 1},
    "POST api-class-proposal-reject": {"revision": 1, "comment": "not yet"},
    "POST api-class-proposal-comments": {"comment": "which cards?"},
    "POST api-class-proposal-redraw": {"revision": 1},
    "POST class-proposal-approve": {"revision": "1"},
    "POST class-proposal-reject": {"revision": "1", "comment": "not yet"},
    "POST class-proposal-redraw": {"revision": "1"},
    "POST class-proposal-comment": {"comment": "which cards?"},
    "POST class-edit": {"seen_version": "", **_class},
    "POST expression-check": {"cluster": "berlin", **_class},
    "POST class-effect": {"cluster": "berlin", "name": "big", **_class},
    "POST class-import": {"cluster": "berlin", "text": _class_text},
    "POST finding-handle": {"action": "acknowledge", "note": "known", "days": "7"},
    "POST finding-task": {"state": "in-work", "owner": "anouk", "note": "looking"},
    "POST contract-edit": {"kubernetes": ">=1.36", "drivers": "", "group": ""},
    "POST launch-template-create": {**_starter, "slug": "other", "name": "Other"},
    "POST launch-template-edit": {**_starter, "slug": "starter", "memory": "2Gi", "version": "1"},
    "POST api-launch-template-list": {**_starter, "slug": "other", "name": "Other"},
    "PUT api-launch-template-detail": {**_starter, "slug": "starter", "memory": "2Gi", "version": 1},
    "POST api-request-launches": {"template": "starter"},
    "POST draft-keep": _ask,
    "POST api-draft-list": {"values": _ask},
    "PUT api-draft-detail": {"values": _ask},
    "POST saved-create": {**_ask, "save_name": "Tonight", "save_project": "tides"},
    "POST saved-edit": {"save_name": "Tomorrow", "save_project": "tides"},
    "POST api-saved-list": {"name": "Tonight", "project": "tides", "values": _ask},
    "PUT api-saved-detail": {"name": "Tomorrow", "project": "tides"},
    "POST request-create": lambda _world: {"key": str(uuid.uuid4()), **_ask},
    "POST api-request-list": _ask,
    "POST booking-create": lambda _world: {"key": str(uuid.uuid4()), **_booking},
    "POST booking-reject": {"comment": "too much"},
    "POST api-booking-list": _booking,
    "POST api-booking-reject": {"comment": "too much"},
    "POST api-finding-acknowledge": {"note": "known"},
    "POST api-finding-snooze": {"note": "later", "days": 3},
    "PUT api-task-detail": {"state": "in-work", "owner": "anouk", "note": "looking"},
    "PUT api-contract": {"kubernetes": ">=1.36"},
    "POST monitoring-edit": {"url": METRICS, **_source},
    "POST monitoring-query-create": _query,
    "POST monitoring-query-edit": _query,
    "PUT api-monitoring": {"url": METRICS, "token": "hush"},
    # Nobody listens there: a trial says so.
    "POST api-monitoring-try": {"url": METRICS, "token": "hush"},
    "POST api-monitoring-query-list": {"name": "Waiting", "expression": "workqueue_depth"},
    "PUT api-monitoring-query": {"name": "Waiting", "expression": "workqueue_depth"},
    **taints.BODIES,
}


def body_of(call: str, world: World) -> dict[str, Any] | list[dict[str, object]]:
    """What to send with a call of the table."""
    body = BODIES.get(call, {})
    return body(world) if callable(body) else body
