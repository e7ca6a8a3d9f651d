"""Pages of taints, maintenance and drains."""

from django.urls import path

from inventory.views import drains, maintenance, taints
from portal import paths  # noqa: F401 - the converters of Kubernetes names

urlpatterns = [
    path("taints/", taints.taint_list, name="taint-list"),
    path("taint-devices/", taints.taint_rule_create, name="taint-rule-create"),
    path("remove-left-over-taints/", taints.taint_leftovers, name="taint-leftovers"),
    path("taints/<slug:cluster>/<k8s:name>/", taints.taint_rule_detail, name="taint-rule-detail"),
    path("taints/<slug:cluster>/<k8s:name>/edit/", taints.taint_rule_edit, name="taint-rule-edit"),
    path("taints/<slug:cluster>/<k8s:name>/delete/", taints.taint_rule_delete, name="taint-rule-delete"),
    path("maintenance/", maintenance.maintenance_list, name="maintenance-list"),
    path("plan-maintenance/", maintenance.maintenance_create, name="maintenance-create"),
    path("maintenance/<uuid:key>/", maintenance.maintenance_detail, name="maintenance-detail"),
    path("maintenance/<uuid:key>/edit/", maintenance.maintenance_edit, name="maintenance-edit"),
    path("maintenance/<uuid:key>/cancel/", maintenance.maintenance_cancel, name="maintenance-cancel"),
    path("drains/", drains.drain_list, name="drain-list"),
    path("empty-node/", drains.drain_create, name="drain-create"),
    path("drains/<uuid:key>/", drains.drain_detail, name="drain-detail"),
    path("drains/<uuid:key>/ask/", drains.drain_ask, name="drain-ask"),
    path("drains/<uuid:key>/close/", drains.drain_close, name="drain-close"),
    path("drains/<uuid:key>/evict/", drains.drain_evict, name="drain-evict"),
    path("drains/<uuid:key>/hand-over/", drains.drain_hand_over, name="drain-hand-over"),
    path("drains/<uuid:key>/finish/", drains.drain_finish, name="drain-finish"),
    path("drain-holders/<uuid:key>/answer/", drains.drain_answer, name="drain-answer"),
]
