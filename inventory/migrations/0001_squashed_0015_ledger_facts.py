"""Everything up to here at once: a new database is made in a fraction of the time. One that has some of
what it replaces goes on step by step."""

from importlib import import_module

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import portal.creation

bindings = import_module("inventory.migrations.0010_bindings_do_not_overlap")


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("inventory", "0001_initial"),
        ("inventory", "0002_cdi"),
        ("inventory", "0003_findings"),
        ("inventory", "0004_policies"),
        ("inventory", "0005_queues"),
        ("inventory", "0006_counted_units"),
        ("inventory", "0007_stream_lag"),
        ("inventory", "0008_device_health"),
        ("inventory", "0009_availability_in_history"),
        ("inventory", "0010_bindings_do_not_overlap"),
        ("inventory", "0011_one_index_is_enough"),
        ("inventory", "0012_containers_and_device_history"),
        ("inventory", "0013_twins"),
        ("inventory", "0014_devices_by_node"),
        ("inventory", "0015_ledger_facts"),
    ]

    dependencies = [
        ("accounts", "0001_squashed_0004_notifications"),
        ("accounts", "__first__"),
    ]

    operations = [
        portal.creation.CreateModels(
            operations=[
                migrations.CreateModel(
                    name="Cluster",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.SlugField(max_length=63, unique=True)),
                        ("region", models.CharField(blank=True, max_length=63)),
                        (
                            "credentials",
                            models.CharField(
                                choices=[
                                    ("in-cluster", "the portal's own service account"),
                                    ("kubeconfig", "a kubeconfig file on the portal's disk"),
                                    ("stored", "a kubeconfig stored encrypted"),
                                ],
                                max_length=12,
                            ),
                        ),
                        ("kubeconfig_path", models.CharField(blank=True, max_length=1000)),
                        ("kubeconfig_context", models.CharField(blank=True, max_length=253)),
                        ("kubeconfig_encrypted", models.BinaryField(blank=True, null=True)),
                        ("enabled", models.BooleanField(default=True)),
                        ("created_at", models.DateTimeField()),
                        ("api_url", models.CharField(blank=True, max_length=500)),
                        ("server_version", models.CharField(blank=True, max_length=40)),
                        ("uid", models.CharField(blank=True, max_length=64)),
                        ("served", models.JSONField(default=dict)),
                        ("missing_permissions", models.JSONField(default=list)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("new", "not contacted yet"),
                                    ("synced", "in step"),
                                    ("syncing", "first lists are running"),
                                    ("unreachable", "cannot be reached"),
                                    ("refused", "credentials refused"),
                                    ("misconfigured", "credentials cannot be read"),
                                    ("disabled", "not followed"),
                                ],
                                default="new",
                                max_length=14,
                            ),
                        ),
                        ("message", models.CharField(blank=True, max_length=2000)),
                        ("contacted_at", models.DateTimeField(blank=True, null=True)),
                        ("clock_skew_us", models.BigIntegerField(blank=True, null=True)),
                        ("lease_holder", models.CharField(blank=True, max_length=120)),
                        ("lease_expires_at", models.DateTimeField(blank=True, null=True)),
                        ("mirror_version", models.BigIntegerField(default=0)),
                        ("fleet_version", models.BigIntegerField(default=0)),
                        ("relist_requested_at", models.DateTimeField(blank=True, null=True)),
                    ],
                ),
                migrations.CreateModel(
                    name="DeviceProfile",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("digest", models.CharField(max_length=64, unique=True)),
                        ("driver", models.CharField(db_index=True, max_length=63)),
                        ("attributes", models.JSONField()),
                        ("capacity", models.JSONField()),
                        ("allow_multiple_allocations", models.BooleanField(default=False)),
                        ("vendor", models.CharField(blank=True, max_length=63)),
                        ("product", models.CharField(blank=True, db_index=True, max_length=128)),
                        ("kind", models.CharField(blank=True, max_length=32)),
                        ("memory_bytes", models.BigIntegerField(null=True)),
                    ],
                ),
                migrations.CreateModel(
                    name="Claim",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=253)),
                        ("uid", models.CharField(max_length=64)),
                        ("resource_version", models.CharField(max_length=63)),
                        ("namespace", models.CharField(max_length=63)),
                        ("labels", models.JSONField(default=dict)),
                        ("annotations", models.JSONField(default=dict)),
                        ("created_at", models.DateTimeField(null=True)),
                        ("spec", models.JSONField()),
                        ("status", models.JSONField(default=dict)),
                        (
                            "deleted_at",
                            models.DateTimeField(help_text="metadata.deletionTimestamp", null=True),
                        ),
                        ("allocated", models.BooleanField(default=False)),
                        ("epoch", models.IntegerField(default=0)),
                        ("allocated_at", models.DateTimeField(null=True)),
                        ("node_name", models.CharField(blank=True, max_length=253)),
                        ("leaving", models.JSONField(default=dict)),
                        ("leaving_since", models.DateTimeField(db_index=True, null=True)),
                        ("owner_pod_uid", models.CharField(blank=True, max_length=64)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["cluster", "uid"], name="inventory_c_cluster_453e01_idx")
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("cluster", "namespace", "name"), name="one_claim_per_name"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="CdiNode",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=253)),
                        ("created_at", models.DateTimeField()),
                        ("received_at", models.DateTimeField(null=True)),
                        ("reporting_since", models.DateTimeField(null=True)),
                        ("sent_at", models.DateTimeField(null=True)),
                        ("changed_at", models.DateTimeField(null=True)),
                        ("digest", models.CharField(blank=True, max_length=64)),
                        ("interval_seconds", models.IntegerField(default=0)),
                        ("clock_skew_ms", models.BigIntegerField(null=True)),
                        ("collector", models.CharField(blank=True, max_length=40)),
                        ("directories", models.JSONField(default=list)),
                        ("runtime", models.JSONField(default=dict)),
                        ("files_left_out", models.IntegerField(default=0)),
                        ("writers", models.JSONField(default=dict)),
                        ("refused_at", models.DateTimeField(null=True)),
                        ("refusal", models.CharField(blank=True, max_length=40)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="cdi_nodes",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("cluster", "name"), name="one_cdi_node_per_name")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ClusterQueue",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=253)),
                        ("uid", models.CharField(max_length=64)),
                        ("resource_version", models.CharField(max_length=63)),
                        ("active", models.BooleanField(default=True)),
                        ("message", models.TextField(blank=True)),
                        ("stop_policy", models.CharField(blank=True, max_length=32)),
                        ("usage", models.JSONField(default=dict)),
                        ("reserved", models.JSONField(default=dict)),
                        ("pending", models.IntegerField(default=0)),
                        ("reserving", models.IntegerField(default=0)),
                        ("admitted", models.IntegerField(default=0)),
                        ("cohort", models.CharField(blank=True, max_length=253)),
                        ("strategy", models.CharField(blank=True, max_length=32)),
                        ("created_at", models.DateTimeField(null=True)),
                        ("quotas", models.JSONField(default=list)),
                        ("borrowed", models.JSONField(default=dict)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("cluster", "name"), name="one_cluster_queue_per_name"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="CountedUnits",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("node_name", models.CharField(max_length=253)),
                        ("resource", models.CharField(max_length=317)),
                        ("vendor", models.CharField(blank=True, max_length=63)),
                        ("product", models.CharField(max_length=128)),
                        ("kind", models.CharField(max_length=32)),
                        ("memory_bytes", models.BigIntegerField(null=True)),
                        ("sharing", models.CharField(blank=True, max_length=63)),
                        ("replicas", models.IntegerField(default=1)),
                        ("mig_strategy", models.CharField(blank=True, max_length=32)),
                        ("capacity", models.IntegerField()),
                        ("allocatable", models.IntegerField()),
                        ("used", models.IntegerField(null=True)),
                        ("free", models.IntegerField(default=0)),
                        ("unavailable", models.IntegerField(default=0)),
                        ("both_ways", models.BooleanField(default=False)),
                        ("counts", models.BooleanField(default=True)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="counted_units",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("cluster", "node_name", "resource"), name="one_count_per_resource"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="DeviceClass",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=253)),
                        ("uid", models.CharField(max_length=64)),
                        ("resource_version", models.CharField(max_length=63)),
                        ("spec", models.JSONField()),
                        ("labels", models.JSONField(default=dict)),
                        ("annotations", models.JSONField(default=dict)),
                        ("extended_resource_name", models.CharField(blank=True, max_length=253)),
                        ("created_at", models.DateTimeField(null=True)),
                        ("problem", models.CharField(blank=True, max_length=1000)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("cluster", "name"), name="one_class_per_name")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="DeviceTaintRule",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=253)),
                        ("uid", models.CharField(max_length=64)),
                        ("resource_version", models.CharField(max_length=63)),
                        ("selects", models.BooleanField()),
                        ("driver", models.CharField(blank=True, max_length=63)),
                        ("pool_name", models.CharField(blank=True, max_length=253)),
                        ("device_name", models.CharField(blank=True, max_length=63)),
                        ("key", models.CharField(max_length=317)),
                        ("value", models.CharField(blank=True, max_length=63)),
                        ("effect", models.CharField(max_length=63)),
                        ("added_at", models.DateTimeField(null=True)),
                        ("spec", models.JSONField()),
                        ("conditions", models.JSONField(default=list)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("cluster", "name"), name="one_taint_rule_per_name"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Finding",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("kind", models.CharField(max_length=40)),
                        ("subject", models.CharField(max_length=700)),
                        (
                            "severity",
                            models.CharField(
                                choices=[("bad", "bad"), ("warning", "warning"), ("info", "for information")],
                                max_length=8,
                            ),
                        ),
                        ("object_kind", models.CharField(max_length=12)),
                        ("namespace", models.CharField(blank=True, max_length=63)),
                        ("name", models.CharField(max_length=253)),
                        ("code", models.CharField(max_length=40)),
                        ("params", models.JSONField(default=dict)),
                        ("since", models.DateTimeField(null=True)),
                        ("first_seen_at", models.DateTimeField()),
                        ("opened_at", models.DateTimeField(null=True)),
                        ("last_seen_at", models.DateTimeField()),
                        ("unknown_since", models.DateTimeField(null=True)),
                        ("resolved_at", models.DateTimeField(null=True)),
                        ("acknowledged_at", models.DateTimeField(null=True)),
                        ("snoozed_until", models.DateTimeField(null=True)),
                        ("note", models.CharField(blank=True, max_length=1000)),
                        (
                            "acknowledged_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="findings",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["resolved_at", "first_seen_at"], name="finding_list"),
                            models.Index(fields=["cluster", "kind", "resolved_at"], name="finding_rule"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("resolved_at", None)),
                                fields=("cluster", "kind", "subject"),
                                name="one_open_finding_per_subject",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Job",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=253)),
                        ("uid", models.CharField(max_length=64)),
                        ("resource_version", models.CharField(max_length=63)),
                        ("namespace", models.CharField(max_length=63)),
                        ("labels", models.JSONField(default=dict)),
                        ("annotations", models.JSONField(default=dict)),
                        ("created_at", models.DateTimeField(null=True)),
                        ("owner_kind", models.CharField(blank=True, max_length=63)),
                        ("owner_name", models.CharField(blank=True, max_length=253)),
                        ("owner_uid", models.CharField(blank=True, max_length=64)),
                        ("suspended", models.BooleanField(default=False)),
                        ("parallelism", models.IntegerField(default=1)),
                        ("completions", models.IntegerField(null=True)),
                        ("active", models.IntegerField(default=0)),
                        ("succeeded", models.IntegerField(default=0)),
                        ("failed", models.IntegerField(default=0)),
                        ("started_at", models.DateTimeField(null=True)),
                        ("finished_at", models.DateTimeField(null=True)),
                        ("outcome", models.CharField(blank=True, max_length=32)),
                        ("queue_name", models.CharField(blank=True, max_length=253)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["cluster", "uid"], name="inventory_j_cluster_b6a683_idx")
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("cluster", "namespace", "name"), name="one_job_per_name"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="LocalQueue",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=253)),
                        ("uid", models.CharField(max_length=64)),
                        ("resource_version", models.CharField(max_length=63)),
                        ("namespace", models.CharField(max_length=63)),
                        ("labels", models.JSONField(default=dict)),
                        ("annotations", models.JSONField(default=dict)),
                        ("created_at", models.DateTimeField(null=True)),
                        ("active", models.BooleanField(default=True)),
                        ("message", models.TextField(blank=True)),
                        ("stop_policy", models.CharField(blank=True, max_length=32)),
                        ("usage", models.JSONField(default=dict)),
                        ("reserved", models.JSONField(default=dict)),
                        ("pending", models.IntegerField(default=0)),
                        ("reserving", models.IntegerField(default=0)),
                        ("admitted", models.IntegerField(default=0)),
                        ("cluster_queue", models.CharField(blank=True, max_length=253)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("cluster", "namespace", "name"), name="one_local_queue_per_name"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Namespace",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=253)),
                        ("uid", models.CharField(max_length=64)),
                        ("resource_version", models.CharField(max_length=63)),
                        ("labels", models.JSONField(default=dict)),
                        ("created_at", models.DateTimeField(null=True)),
                        (
                            "deleted_at",
                            models.DateTimeField(help_text="metadata.deletionTimestamp", null=True),
                        ),
                        ("admin_access", models.BooleanField(default=False)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("cluster", "name"), name="one_namespace_per_name")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="NamespaceBinding",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("namespace", models.CharField(max_length=63)),
                        ("valid_from", models.DateTimeField()),
                        ("valid_until", models.DateTimeField(blank=True, null=True)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="bindings",
                                to="inventory.cluster",
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="bindings",
                                to="accounts.project",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("valid_until", None)),
                                fields=("cluster", "namespace"),
                                name="one_open_binding_per_namespace",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("valid_until", None),
                                    ("valid_until__gt", models.F("valid_from")),
                                    _connector="OR",
                                ),
                                name="binding_period_not_empty",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Node",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=253)),
                        ("uid", models.CharField(max_length=64)),
                        ("resource_version", models.CharField(max_length=63)),
                        ("ready", models.BooleanField()),
                        ("unschedulable", models.BooleanField()),
                        ("labels", models.JSONField(default=dict)),
                        ("taints", models.JSONField(default=list)),
                        ("capacity", models.JSONField(default=dict)),
                        ("allocatable", models.JSONField(default=dict)),
                        ("kubelet_version", models.CharField(blank=True, max_length=63)),
                        ("container_runtime", models.CharField(blank=True, max_length=128)),
                        ("kernel_version", models.CharField(blank=True, max_length=128)),
                        ("os_image", models.CharField(blank=True, max_length=128)),
                        ("created_at", models.DateTimeField(null=True)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("cluster", "name"), name="one_node_per_name")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Observation",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("claim-created", "Claim Created"),
                                    ("claim-allocated", "Claim Allocated"),
                                    ("allocation-detailed", "Allocation Detailed"),
                                    ("claim-released", "Claim Released"),
                                    ("claim-deleted", "Claim Deleted"),
                                    ("consumer-joined", "Consumer Joined"),
                                    ("consumer-left", "Consumer Left"),
                                    ("pod-scheduled", "Pod Scheduled"),
                                    ("pod-detailed", "Pod Detailed"),
                                    ("extended-claim", "Extended Claim"),
                                    ("pod-finished", "Pod Finished"),
                                    ("device-appeared", "Device Appeared"),
                                    ("device-gone", "Device Gone"),
                                    ("device-tainted", "Device Tainted"),
                                    ("device-untainted", "Device Untainted"),
                                    ("device-unavailable", "Device Unavailable"),
                                    ("device-available", "Device Available"),
                                    ("node-down", "Node Down"),
                                    ("node-up", "Node Up"),
                                    ("gap", "Gap"),
                                ],
                                max_length=20,
                            ),
                        ),
                        ("at", models.DateTimeField()),
                        (
                            "source",
                            models.CharField(
                                choices=[
                                    ("allocationTimestamp", "Allocation"),
                                    ("managedFields", "Managed Fields"),
                                    ("creationTimestamp", "Creation"),
                                    ("deletionTimestamp", "Deletion"),
                                    ("condition", "Condition"),
                                    ("pod", "Pod"),
                                    ("observed", "Observed"),
                                ],
                                max_length=20,
                            ),
                        ),
                        ("uncertainty_us", models.BigIntegerField(default=0)),
                        ("observed_at", models.DateTimeField()),
                        ("namespace", models.CharField(blank=True, max_length=63)),
                        ("name", models.CharField(max_length=253)),
                        ("uid", models.CharField(max_length=64)),
                        ("facts", models.JSONField(default=dict)),
                        ("key", models.CharField(max_length=200)),
                        (
                            "cluster",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="observations",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["cluster", "id"], name="inventory_o_cluster_5e3912_idx"),
                            models.Index(fields=["uid"], name="observation_uid"),
                            models.Index(
                                condition=models.Q(
                                    (
                                        "kind__in",
                                        (
                                            "device-appeared",
                                            "device-gone",
                                            "device-unavailable",
                                            "device-available",
                                            "gap",
                                            "claim-created",
                                            "claim-deleted",
                                        ),
                                    )
                                ),
                                fields=["kind", "at"],
                                name="observation_charted",
                            ),
                            models.Index(
                                condition=models.Q(
                                    (
                                        "kind__in",
                                        (
                                            "device-appeared",
                                            "device-gone",
                                            "device-tainted",
                                            "device-untainted",
                                            "device-unavailable",
                                            "device-available",
                                        ),
                                    )
                                ),
                                fields=["cluster", "key"],
                                name="observation_of_device",
                                opclasses=["int8_ops", "varchar_pattern_ops"],
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("cluster", "key"), name="one_observation_per_fact"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ObservationArchive",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("month", models.CharField(max_length=7)),
                        ("part", models.IntegerField()),
                        ("file_name", models.CharField(max_length=255, unique=True)),
                        ("size", models.BigIntegerField()),
                        ("sha256", models.CharField(max_length=64)),
                        ("rows", models.BigIntegerField()),
                        ("objects_count", models.BigIntegerField()),
                        ("schema", models.IntegerField()),
                        ("written_at", models.DateTimeField()),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="observation_archives",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("cluster", "month", "part"), name="one_archive_per_part"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="PlatformChange",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("part", models.CharField(max_length=80)),
                        ("before", models.JSONField(null=True)),
                        ("after", models.JSONField()),
                        ("seen_at", models.DateTimeField()),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="platform_changes",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["cluster", "part", "seen_at"], name="platform_history")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="PlatformContract",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("group", models.SlugField(blank=True, max_length=63)),
                        ("kubernetes", models.CharField(blank=True, max_length=200)),
                        ("kubelet", models.CharField(blank=True, max_length=200)),
                        ("runtime", models.CharField(blank=True, max_length=200)),
                        ("drivers", models.JSONField(default=dict)),
                        ("changed_at", models.DateTimeField()),
                        (
                            "changed_by",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "cluster",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="contract",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="Pod",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=253)),
                        ("uid", models.CharField(max_length=64)),
                        ("resource_version", models.CharField(max_length=63)),
                        ("namespace", models.CharField(max_length=63)),
                        ("labels", models.JSONField(default=dict)),
                        ("annotations", models.JSONField(default=dict)),
                        ("created_at", models.DateTimeField(null=True)),
                        ("phase", models.CharField(max_length=12)),
                        ("node_name", models.CharField(blank=True, max_length=253)),
                        (
                            "deleted_at",
                            models.DateTimeField(help_text="metadata.deletionTimestamp", null=True),
                        ),
                        ("scheduled_at", models.DateTimeField(null=True)),
                        ("started_at", models.DateTimeField(null=True)),
                        ("finished_at", models.DateTimeField(null=True)),
                        ("claim_names", models.JSONField(default=dict)),
                        ("claim_uses", models.JSONField(default=list)),
                        ("extended_resources", models.JSONField(default=dict)),
                        ("extended_mapping", models.JSONField(default=dict)),
                        ("unschedulable_message", models.TextField(blank=True)),
                        ("owner_kind", models.CharField(blank=True, max_length=63)),
                        ("owner_name", models.CharField(blank=True, max_length=253)),
                        ("owner_uid", models.CharField(blank=True, max_length=64)),
                        ("pod_group", models.CharField(blank=True, max_length=253)),
                        ("device_health", models.JSONField(default=list)),
                        ("complains", models.BooleanField(default=False)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["cluster", "uid"], name="inventory_p_cluster_076ee4_idx"),
                            models.Index(
                                condition=models.Q(("complains", True)),
                                fields=["cluster"],
                                name="complaining_pods",
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("cluster", "namespace", "name"), name="one_pod_per_name"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="PodEvent",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("namespace", models.CharField(max_length=63)),
                        ("pod_name", models.CharField(max_length=253)),
                        ("pod_uid", models.CharField(max_length=64)),
                        ("reason", models.CharField(max_length=128)),
                        ("message", models.TextField()),
                        ("count", models.IntegerField(default=1)),
                        ("last_at", models.DateTimeField()),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("cluster", "pod_uid", "reason"), name="latest_event_per_reason"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="PodGroup",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=253)),
                        ("uid", models.CharField(max_length=64)),
                        ("resource_version", models.CharField(max_length=63)),
                        ("namespace", models.CharField(max_length=63)),
                        ("labels", models.JSONField(default=dict)),
                        ("annotations", models.JSONField(default=dict)),
                        ("created_at", models.DateTimeField(null=True)),
                        ("owner_kind", models.CharField(blank=True, max_length=63)),
                        ("owner_name", models.CharField(blank=True, max_length=253)),
                        ("owner_uid", models.CharField(blank=True, max_length=64)),
                        ("workload_name", models.CharField(blank=True, max_length=253)),
                        ("template_name", models.CharField(blank=True, max_length=253)),
                        ("min_count", models.IntegerField(null=True)),
                        ("claim_names", models.JSONField(default=dict)),
                        ("conditions", models.JSONField(default=list)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["cluster", "uid"], name="inventory_p_cluster_a446de_idx")
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("cluster", "namespace", "name"), name="one_pod_group_per_name"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Pool",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("driver", models.CharField(max_length=63)),
                        ("name", models.CharField(max_length=253)),
                        ("generation", models.BigIntegerField()),
                        ("slices_expected", models.IntegerField()),
                        ("slices_seen", models.IntegerField()),
                        ("complete", models.BooleanField()),
                        ("has_counters", models.BooleanField(default=False)),
                        ("missing_gate", models.CharField(blank=True, max_length=63)),
                        ("problem", models.CharField(blank=True, max_length=1000)),
                        (
                            "cluster",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="pools",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("cluster", "driver", "name"), name="one_pool_per_name"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="QueuedWorkload",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=253)),
                        ("uid", models.CharField(max_length=64)),
                        ("resource_version", models.CharField(max_length=63)),
                        ("namespace", models.CharField(max_length=63)),
                        ("labels", models.JSONField(default=dict)),
                        ("annotations", models.JSONField(default=dict)),
                        ("created_at", models.DateTimeField(null=True)),
                        ("owner_kind", models.CharField(blank=True, max_length=63)),
                        ("owner_name", models.CharField(blank=True, max_length=253)),
                        ("owner_uid", models.CharField(blank=True, max_length=64)),
                        ("queue_name", models.CharField(blank=True, max_length=253)),
                        ("cluster_queue", models.CharField(blank=True, max_length=253)),
                        ("priority", models.IntegerField(default=0)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("pending", "waits for quota"),
                                    ("reserved", "has quota, waits for admission"),
                                    ("admitted", "admitted"),
                                    ("evicted", "evicted"),
                                    ("finished", "finished"),
                                    ("inactive", "switched off"),
                                ],
                                max_length=12,
                            ),
                        ),
                        ("reason", models.CharField(blank=True, max_length=1024)),
                        ("message", models.TextField(blank=True)),
                        ("state_since", models.DateTimeField(null=True)),
                        ("queued_at", models.DateTimeField(null=True)),
                        ("pod_sets", models.JSONField(default=list)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["cluster", "state"], name="queued_by_state"),
                            models.Index(fields=["cluster", "owner_uid"], name="queued_by_owner"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("cluster", "namespace", "name"), name="one_queued_workload_per_name"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ResourceFlavor",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=253)),
                        ("uid", models.CharField(max_length=64)),
                        ("resource_version", models.CharField(max_length=63)),
                        ("created_at", models.DateTimeField(null=True)),
                        ("node_labels", models.JSONField(default=dict)),
                        ("node_taints", models.JSONField(default=list)),
                        ("topology", models.CharField(blank=True, max_length=253)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("cluster", "name"), name="one_flavor_per_name")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ResourceQuota",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=253)),
                        ("uid", models.CharField(max_length=64)),
                        ("resource_version", models.CharField(max_length=63)),
                        ("namespace", models.CharField(max_length=63)),
                        ("labels", models.JSONField(default=dict)),
                        ("annotations", models.JSONField(default=dict)),
                        ("created_at", models.DateTimeField(null=True)),
                        ("hard", models.JSONField(default=dict)),
                        ("used", models.JSONField(default=dict)),
                        ("counted", models.BooleanField(default=False)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("cluster", "namespace", "name"), name="one_quota_per_name"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="RuleState",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("kind", models.CharField(max_length=40)),
                        ("judged_at", models.DateTimeField(null=True)),
                        ("tried_at", models.DateTimeField()),
                        ("unknown_since", models.DateTimeField(null=True)),
                        ("missing", models.CharField(blank=True, max_length=63)),
                        ("truncated", models.BooleanField(default=False)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("cluster", "kind"), name="one_state_per_rule")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="RuntimeClass",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=253)),
                        ("uid", models.CharField(max_length=64)),
                        ("resource_version", models.CharField(max_length=63)),
                        ("handler", models.CharField(max_length=253)),
                        ("labels", models.JSONField(default=dict)),
                        ("created_at", models.DateTimeField(null=True)),
                        ("scheduling", models.JSONField(default=dict)),
                        ("overhead", models.JSONField(default=dict)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("cluster", "name"), name="one_runtime_class_per_name"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="SchedulingWorkload",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=253)),
                        ("uid", models.CharField(max_length=64)),
                        ("resource_version", models.CharField(max_length=63)),
                        ("namespace", models.CharField(max_length=63)),
                        ("labels", models.JSONField(default=dict)),
                        ("annotations", models.JSONField(default=dict)),
                        ("created_at", models.DateTimeField(null=True)),
                        ("owner_kind", models.CharField(blank=True, max_length=63)),
                        ("owner_name", models.CharField(blank=True, max_length=253)),
                        ("owner_uid", models.CharField(blank=True, max_length=64)),
                        ("controller_kind", models.CharField(blank=True, max_length=63)),
                        ("controller_name", models.CharField(blank=True, max_length=253)),
                        ("groups", models.JSONField(default=list)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("cluster", "namespace", "name"),
                                name="one_scheduling_workload_per_name",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Stream",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("resource", models.CharField(max_length=63)),
                        ("api_version", models.CharField(blank=True, max_length=63)),
                        ("resource_version", models.CharField(blank=True, max_length=63)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("new", "not listed yet"),
                                    ("listing", "listing"),
                                    ("watching", "watching"),
                                    ("failed", "failing"),
                                    ("not-permitted", "not permitted"),
                                    ("not-served", "not served by this cluster"),
                                ],
                                default="new",
                                max_length=14,
                            ),
                        ),
                        ("message", models.CharField(blank=True, max_length=2000)),
                        ("listed_at", models.DateTimeField(blank=True, null=True)),
                        ("heard_at", models.DateTimeField(blank=True, null=True)),
                        ("object_count", models.BigIntegerField(default=0)),
                        ("event_at", models.DateTimeField(blank=True, null=True)),
                        ("lag_us", models.BigIntegerField(blank=True, null=True)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="streams",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("cluster", "resource"), name="one_stream_per_resource"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="SyncProblem",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("resource", models.CharField(max_length=63)),
                        ("namespace", models.CharField(blank=True, max_length=63)),
                        ("name", models.CharField(max_length=253)),
                        ("path", models.CharField(blank=True, max_length=500)),
                        ("reason", models.CharField(max_length=2000)),
                        ("seen_at", models.DateTimeField()),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="problems",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("cluster", "resource", "namespace", "name"),
                                name="one_problem_per_object",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ClaimTemplate",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=253)),
                        ("uid", models.CharField(max_length=64)),
                        ("resource_version", models.CharField(max_length=63)),
                        ("namespace", models.CharField(max_length=63)),
                        ("labels", models.JSONField(default=dict)),
                        ("annotations", models.JSONField(default=dict)),
                        ("created_at", models.DateTimeField(null=True)),
                        ("spec", models.JSONField()),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("cluster", "namespace", "name"), name="one_template_per_name"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="DiagnosisTask",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("subject", models.CharField(max_length=700)),
                        (
                            "state",
                            models.CharField(
                                choices=[("open", "open"), ("in-work", "in work"), ("done", "done")],
                                default="open",
                                max_length=8,
                            ),
                        ),
                        ("opened_at", models.DateTimeField()),
                        ("changed_at", models.DateTimeField()),
                        ("done_at", models.DateTimeField(null=True)),
                        ("note", models.CharField(blank=True, max_length=1000)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="diagnosis_tasks",
                                to="inventory.cluster",
                            ),
                        ),
                        (
                            "owner",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "finding",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="tasks",
                                to="inventory.finding",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("done_at", None)),
                                fields=("cluster", "subject"),
                                name="one_open_task_per_subject",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("done_at__gte", models.F("opened_at")), ("state", "done")),
                                    models.Q(models.Q(("state", "done"), _negated=True), ("done_at", None)),
                                    _connector="OR",
                                ),
                                name="done_tasks_say_when",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ArchivedObject",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("uid", models.CharField(db_index=True, max_length=64)),
                        ("epoch", models.IntegerField(default=0)),
                        (
                            "archive",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="objects_in",
                                to="inventory.observationarchive",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("archive", "uid"), name="archived_object_natural_key"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ResourceSlice",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=253)),
                        ("uid", models.CharField(max_length=64)),
                        ("resource_version", models.CharField(max_length=63)),
                        ("generation", models.BigIntegerField()),
                        ("node_name", models.CharField(blank=True, db_index=True, max_length=253)),
                        ("manifest", models.JSONField()),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                        (
                            "pool",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="slices",
                                to="inventory.pool",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("cluster", "name"), name="one_slice_per_name")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="CdiSpecFile",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("directory", models.CharField(max_length=1000)),
                        ("name", models.CharField(max_length=255)),
                        ("uid", models.BigIntegerField()),
                        ("gid", models.BigIntegerField()),
                        ("mode", models.IntegerField()),
                        ("size", models.BigIntegerField()),
                        ("modified_at", models.DateTimeField()),
                        ("sha256", models.CharField(blank=True, max_length=64)),
                        ("unread", models.CharField(blank=True, max_length=40)),
                        ("version", models.CharField(blank=True, max_length=253)),
                        ("kind", models.CharField(blank=True, max_length=253)),
                        ("valid", models.BooleanField(null=True)),
                        ("devices", models.JSONField(default=list)),
                        ("edits", models.JSONField(default=dict)),
                        ("problems", models.JSONField(default=list)),
                        ("claim_uid", models.CharField(blank=True, max_length=64)),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="files",
                                to="inventory.cdinode",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("node", "directory", "name"), name="one_cdi_file_per_path"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="CdiToken",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("digest", models.CharField(max_length=64, unique=True)),
                        ("prefix", models.CharField(max_length=16)),
                        ("created_at", models.DateTimeField()),
                        ("expires_at", models.DateTimeField()),
                        ("revoked_at", models.DateTimeField(null=True)),
                        ("last_used_at", models.DateTimeField(null=True)),
                        (
                            "created_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="tokens",
                                to="inventory.cdinode",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("expires_at__gt", models.F("created_at"))),
                                name="cdi_token_lives",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Device",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=63)),
                        ("position", models.IntegerField()),
                        ("identity", models.JSONField(default=dict)),
                        ("hardware_id", models.CharField(blank=True, max_length=128)),
                        ("node_name", models.CharField(blank=True, max_length=253)),
                        ("taints", models.JSONField(default=list)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("free", "free"),
                                    ("held", "held"),
                                    ("partly", "partly held"),
                                    ("unavailable", "unavailable"),
                                ],
                                max_length=12,
                            ),
                        ),
                        (
                            "reason",
                            models.CharField(
                                blank=True,
                                choices=[
                                    ("", "none"),
                                    ("node-cordoned", "its node is cordoned"),
                                    ("node-not-ready", "its node is not ready"),
                                    ("node-tainted", "its node is tainted"),
                                    ("node-missing", "its node does not exist"),
                                    ("device-tainted", "it is tainted"),
                                    ("pool-incomplete", "its pool is incomplete"),
                                    ("pool-invalid", "its pool is invalid"),
                                    (
                                        "pool-gated",
                                        "its pool needs a feature that the cluster does not have on",
                                    ),
                                    ("counters-used", "a partition of the same device is held"),
                                ],
                                max_length=20,
                            ),
                        ),
                        (
                            "health",
                            models.CharField(
                                choices=[
                                    ("good", "no complaint"),
                                    ("tainted", "tainted"),
                                    ("unhealthy", "reported unhealthy"),
                                ],
                                default="good",
                                max_length=10,
                            ),
                        ),
                        ("first_seen_at", models.DateTimeField()),
                        (
                            "cluster",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="devices",
                                to="inventory.cluster",
                            ),
                        ),
                        (
                            "profile",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="devices",
                                to="inventory.deviceprofile",
                            ),
                        ),
                        (
                            "pool",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="devices",
                                to="inventory.pool",
                            ),
                        ),
                        (
                            "slice",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="devices",
                                to="inventory.resourceslice",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["hardware_id"], name="device_hardware"),
                            models.Index(
                                fields=["profile", "cluster", "state", "health"], name="device_counts"
                            ),
                            models.Index(
                                fields=["node_name", "name", "pool", "cluster", "profile", "state", "health"],
                                name="device_browse",
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(fields=("pool", "name"), name="one_device_per_name")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ClaimDevice",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("driver", models.CharField(max_length=63)),
                        ("pool_name", models.CharField(max_length=253)),
                        ("device_name", models.CharField(max_length=63)),
                        ("request", models.CharField(max_length=130)),
                        ("share_id", models.CharField(blank=True, max_length=64)),
                        ("admin_access", models.BooleanField(default=False)),
                        ("consumed_capacity", models.JSONField(default=dict)),
                        ("conditions", models.JSONField(default=list)),
                        ("network_data", models.JSONField(default=dict)),
                        ("driver_data", models.JSONField(default=dict)),
                        ("identified", models.BooleanField(default=False)),
                        (
                            "claim",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="devices",
                                to="inventory.claim",
                            ),
                        ),
                        (
                            "device",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="holds",
                                to="inventory.device",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                fields=["driver", "pool_name", "device_name"],
                                name="inventory_c_driver_0e96ee_idx",
                            )
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("claim", "driver", "pool_name", "device_name", "share_id", "request"),
                                name="one_result_per_device",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ClassProfile",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "device",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="inventory.device",
                            ),
                        ),
                        (
                            "device_class",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="matches",
                                to="inventory.deviceclass",
                            ),
                        ),
                        (
                            "profile",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="classes",
                                to="inventory.deviceprofile",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("device", None)),
                                fields=("device_class", "profile"),
                                name="one_match_per_profile",
                            ),
                            models.UniqueConstraint(
                                fields=("device_class", "device"), name="one_match_per_device"
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Twin",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("piece", models.BigIntegerField()),
                        ("counts", models.BooleanField()),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                        (
                            "device",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="twin",
                                to="inventory.device",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [models.Index(fields=["cluster", "piece"], name="twins_of_piece")],
                    },
                ),
            ],
        ),
        migrations.RunPython(bindings.add, bindings.remove),
    ]
