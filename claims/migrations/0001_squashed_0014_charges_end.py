"""Everything up to here at once: a new database is made in a fraction of the time. One that has some of
what it replaces goes on step by step."""

import datetime
import uuid
from importlib import import_module

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import claims.models.charges
import portal.creation
import portal.sql

ledger = import_module("claims.migrations.0006_ledger_facts")


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("claims", "0001_initial"),
        ("claims", "0002_ledger_time_in_microseconds"),
        ("claims", "0003_history_by_node_and_device"),
        ("claims", "0004_catalogue"),
        ("claims", "0005_quotas"),
        ("claims", "0006_ledger_facts"),
        ("claims", "0007_bookings"),
        ("claims", "0008_prices_and_charges"),
        ("claims", "0009_changes"),
        ("claims", "0010_saved_requests_and_launches"),
        ("claims", "0011_growable_pools"),
        ("claims", "0012_watches_idleness_and_messages"),
        ("claims", "0013_ledger_changes"),
        ("claims", "0014_charges_end"),
    ]

    dependencies = [
        ("accounts", "0001_squashed_0004_notifications"),
        ("accounts", "__first__"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("inventory", "0001_squashed_0015_ledger_facts"),
    ]

    operations = [
        portal.creation.CreateModels(
            operations=[
                migrations.CreateModel(
                    name="BookingBook",
                    fields=[
                        (
                            "cluster",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                primary_key=True,
                                related_name="+",
                                serialize=False,
                                to="inventory.cluster",
                            ),
                        ),
                        ("changes", models.PositiveBigIntegerField(default=0)),
                    ],
                ),
                migrations.CreateModel(
                    name="Budget",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("currency", models.CharField(max_length=3)),
                        ("minor", models.BigIntegerField()),
                        ("thresholds", models.JSONField(default=list)),
                        ("blocks", models.BooleanField(default=False)),
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
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="budgets",
                                to="accounts.project",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("project", "currency"), name="one_budget_per_currency"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("minor__gt", 0)), name="budget_positive"
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Consumer",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("claim_uid", models.CharField(max_length=64)),
                        ("epoch", models.IntegerField()),
                        ("resource", models.CharField(max_length=63)),
                        ("name", models.CharField(max_length=253)),
                        ("uid", models.CharField(max_length=64)),
                        ("joined_at", models.DateTimeField()),
                        ("left_at", models.DateTimeField(null=True)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["uid"], name="consumer_uid"),
                            models.Index(fields=["name"], name="consumer_name"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("cluster", "claim_uid", "epoch", "uid"), name="consumer_natural_key"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="CostCentre",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("code", models.CharField(blank=True, max_length=40)),
                        ("valid_from", models.DateTimeField()),
                        ("valid_until", models.DateTimeField(blank=True, null=True)),
                        ("recorded_at", models.DateTimeField()),
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="cost_centres",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "recorded_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("project", "valid_from"), name="one_cost_centre_at_once"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("valid_until", None),
                                    ("valid_until__gt", models.F("valid_from")),
                                    _connector="OR",
                                ),
                                name="cost_centre_period_not_empty",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Draft",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("key", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                        ("values", models.JSONField()),
                        ("created_at", models.DateTimeField()),
                        ("changed_at", models.DateTimeField()),
                        (
                            "owner",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="request_drafts",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [models.Index(fields=["owner", "-changed_at"], name="drafts_of_person")],
                    },
                ),
                migrations.CreateModel(
                    name="Flavor",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("slug", models.SlugField(max_length=63, unique=True)),
                        ("name", models.CharField(max_length=120, unique=True)),
                        ("description", models.CharField(blank=True, max_length=1000)),
                        ("offers", models.CharField(blank=True, max_length=1000)),
                        ("icon", models.CharField(default="cpu", max_length=40)),
                        ("position", models.PositiveIntegerField(default=0)),
                        ("min_count", models.PositiveIntegerField(default=1)),
                        ("default_count", models.PositiveIntegerField(default=1)),
                        ("max_count", models.PositiveIntegerField(default=8)),
                        ("min_memory", models.CharField(blank=True, max_length=32)),
                        ("default_memory", models.CharField(blank=True, max_length=32)),
                        ("max_memory", models.CharField(blank=True, max_length=32)),
                        ("min_duration", models.DurationField()),
                        ("default_duration", models.DurationField()),
                        ("max_duration", models.DurationField()),
                        (
                            "visibility",
                            models.CharField(
                                choices=[
                                    ("all", "everybody"),
                                    ("projects", "chosen projects"),
                                    ("leads", "leads, for their projects"),
                                    ("groups", "chosen groups of people"),
                                    ("administrators", "administrators only"),
                                ],
                                default="all",
                                max_length=14,
                            ),
                        ),
                        (
                            "approval",
                            models.CharField(
                                choices=[
                                    ("none", "none, within the quota"),
                                    ("lead", "a lead of the project"),
                                    ("administrator", "an administrator"),
                                    ("both", "a lead and an administrator"),
                                ],
                                default="none",
                                max_length=14,
                            ),
                        ),
                        ("own_approval", models.BooleanField(default=False)),
                        ("idle_hours", models.PositiveIntegerField(default=0)),
                        ("idle_release", models.BooleanField(default=False)),
                        ("bookable_days", models.PositiveIntegerField(default=28)),
                        ("bookings_kept", models.BooleanField(default=False)),
                        ("ends_pods", models.BooleanField(default=False)),
                        ("hold_steps_aside", models.BooleanField(default=False)),
                        ("hold_image", models.CharField(blank=True, max_length=255)),
                        ("hold_pull_secret", models.CharField(blank=True, max_length=253)),
                        ("hold_priority_class", models.CharField(blank=True, max_length=253)),
                        ("hold_tolerations", models.JSONField(default=list)),
                        ("version", models.PositiveIntegerField(default=1)),
                        ("created_at", models.DateTimeField()),
                        ("changed_at", models.DateTimeField()),
                        ("archived_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "changed_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("groups", models.ManyToManyField(blank=True, related_name="+", to="auth.group")),
                        (
                            "projects",
                            models.ManyToManyField(blank=True, related_name="+", to="accounts.project"),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("min_count__gte", 1),
                                    ("default_count__gte", models.F("min_count")),
                                    ("max_count__gte", models.F("default_count")),
                                ),
                                name="flavor_counts_in_order",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("default_duration__gte", models.F("min_duration")),
                                    ("max_duration__gte", models.F("default_duration")),
                                ),
                                name="flavor_durations_in_order",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="GrowablePool",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=63)),
                        ("labels", models.JSONField(default=dict)),
                        ("max_nodes", models.PositiveIntegerField()),
                        ("device_class", models.CharField(blank=True, max_length=253)),
                        ("extended_resource", models.CharField(blank=True, max_length=317)),
                        ("devices", models.PositiveIntegerField()),
                        ("product", models.CharField(blank=True, max_length=128)),
                        ("memory", models.CharField(blank=True, max_length=32)),
                        ("domain", models.CharField(blank=True, max_length=63)),
                        ("note", models.CharField(blank=True, max_length=500)),
                        ("changed_at", models.DateTimeField()),
                        (
                            "changed_by",
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
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("cluster", "name", "device_class", "extended_resource"),
                                name="one_growable_pool_per_kind",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("device_class", ""), ("extended_resource", ""), _negated=True
                                ),
                                name="growable_pool_brings_something",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("devices__gte", 1), ("max_nodes__gte", 1)),
                                name="growable_pool_grows",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="LedgerAudit",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("checked_at", models.DateTimeField()),
                        ("since", models.DateTimeField(null=True)),
                        ("until", models.DateTimeField(null=True)),
                        ("sums", models.JSONField(default=dict)),
                        ("devices", models.IntegerField(default=0)),
                        ("violations", models.JSONField(default=list)),
                        ("violation_count", models.IntegerField(default=0)),
                        (
                            "cluster",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="ledger_audit",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="LedgerCursor",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("observation_id", models.BigIntegerField(default=0)),
                        ("changes", models.BigIntegerField(default=0)),
                        (
                            "cluster",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="ledger_cursor",
                                to="inventory.cluster",
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="LedgerPolicy",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("valid_from", models.DateTimeField(unique=True)),
                        (
                            "bound",
                            models.CharField(
                                choices=[
                                    ("tenant", "in favour of who pays"),
                                    ("operator", "in favour of who operates"),
                                ],
                                max_length=8,
                            ),
                        ),
                        ("set_at", models.DateTimeField()),
                        (
                            "set_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="Mute",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("created_at", models.DateTimeField()),
                        (
                            "muted",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "person",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="mutes",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("person", "muted"), name="one_mute_per_person")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="PriceBook",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=80)),
                        ("currency", models.CharField(help_text="ISO 4217", max_length=3)),
                        ("valid_from", models.DateTimeField(unique=True)),
                        ("note", models.CharField(blank=True, default="", max_length=500)),
                        ("published_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "published_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="PriceDraft",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("document", models.JSONField()),
                        ("version", models.PositiveIntegerField(default=1)),
                        ("created_at", models.DateTimeField()),
                        ("changed_at", models.DateTimeField()),
                        (
                            "changed_by",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="SavedRequest",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("key", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                        ("name", models.CharField(max_length=80)),
                        ("values", models.JSONField(default=dict)),
                        ("created_at", models.DateTimeField()),
                        ("changed_at", models.DateTimeField()),
                        (
                            "owner",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="accounts.project",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("project", None)),
                                fields=("owner", "name"),
                                name="one_saved_request_per_owner",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("project__isnull", False)),
                                fields=("project", "name"),
                                name="one_saved_request_per_project",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Statement",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("month", models.CharField(max_length=7)),
                        ("zone", models.CharField(max_length=64)),
                        ("starts_at", models.DateTimeField()),
                        ("ends_at", models.DateTimeField()),
                        (
                            "state",
                            models.CharField(
                                choices=[("open", "open"), ("review", "in review"), ("closed", "closed")],
                                default="open",
                                max_length=6,
                            ),
                        ),
                        ("reviewed_at", models.DateTimeField(null=True)),
                        ("closed_at", models.DateTimeField(null=True)),
                        ("digest", models.CharField(blank=True, max_length=64)),
                        (
                            "closed_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="statements",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "reviewed_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["month", "state"], name="claims_stat_month_4b5420_idx")
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("project", "month"), name="one_statement_a_month"
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("project", None)),
                                fields=("month",),
                                name="one_statement_a_month_of_nobody",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(
                                        ("closed_at__isnull", False),
                                        ("state", "closed"),
                                        models.Q(("digest", ""), _negated=True),
                                    ),
                                    models.Q(("state", "closed"), _negated=True),
                                    _connector="OR",
                                ),
                                name="statement_closed_with_digest",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="BookedTotal",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("month", models.CharField(max_length=7)),
                        ("currency", models.CharField(max_length=3)),
                        ("minor", models.BigIntegerField()),
                        ("imported_at", models.DateTimeField()),
                        (
                            "imported_by",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="accounts.project",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("project", "month", "currency"), name="one_booked_total"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="BudgetAlert",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("month", models.CharField(max_length=7)),
                        ("threshold", models.PositiveIntegerField()),
                        ("told_at", models.DateTimeField()),
                        (
                            "budget",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="alerts",
                                to="claims.budget",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("budget", "month", "threshold"), name="told_once_a_month"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Charge",
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
                                    ("usage", "use"),
                                    ("idle", "idle time, on the operator's account"),
                                    ("shared", "part of the idle time, passed on"),
                                    ("correction", "correction of a closed month"),
                                    ("credit", "credit note"),
                                    ("adjustment", "adjustment"),
                                ],
                                default="usage",
                                max_length=10,
                            ),
                        ),
                        ("source", models.CharField(max_length=64)),
                        ("month", models.CharField(max_length=7)),
                        ("started_us", models.BigIntegerField()),
                        ("ended_us", models.BigIntegerField()),
                        ("cost_centre", models.CharField(blank=True, max_length=40)),
                        ("claim_uid", models.CharField(blank=True, max_length=64)),
                        ("epoch", models.IntegerField(default=0)),
                        ("driver", models.CharField(blank=True, max_length=63)),
                        ("pool_name", models.CharField(blank=True, max_length=253)),
                        ("device_name", models.CharField(blank=True, max_length=253)),
                        ("hardware_id", models.CharField(blank=True, max_length=128)),
                        ("device_class", models.CharField(blank=True, max_length=253)),
                        ("product", models.CharField(blank=True, max_length=128)),
                        ("profile_digest", models.CharField(blank=True, max_length=64)),
                        ("resource", models.CharField(blank=True, max_length=317)),
                        ("use", models.CharField(default="held", max_length=6)),
                        ("rule", models.PositiveIntegerField(null=True)),
                        ("currency", models.CharField(blank=True, max_length=3)),
                        ("unit", models.CharField(default="device", max_length=8)),
                        ("per", models.CharField(blank=True, max_length=32)),
                        ("quantity", claims.models.charges.FractionField(max_length=120)),
                        ("list_micros", models.BigIntegerField(null=True)),
                        ("discount_micros", models.IntegerField(default=0)),
                        ("fixed", claims.models.charges.FractionField(max_length=120, null=True)),
                        ("note", models.CharField(blank=True, max_length=500)),
                        ("content", models.CharField(max_length=64)),
                        ("closed", models.BooleanField(default=False)),
                        (
                            "cluster",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                        (
                            "origin",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="followed_by",
                                to="claims.charge",
                            ),
                        ),
                        (
                            "person",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="charges",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "book",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="claims.pricebook",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["project", "month"], name="charge_by_project"),
                            models.Index(fields=["month", "kind"], name="charge_by_month"),
                            models.Index(fields=["started_us", "id"], name="charge_by_time"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("source", "kind", "month", "started_us", "project"),
                                name="charge_natural_key",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("project", None)),
                                fields=("source", "kind", "month", "started_us"),
                                name="charge_natural_key_of_nobody",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("ended_us__gte", models.F("started_us"))),
                                name="charge_not_negative",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="LaunchTemplate",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("slug", models.SlugField(max_length=40, unique=True)),
                        ("name", models.CharField(max_length=80, unique=True)),
                        ("description", models.CharField(blank=True, max_length=1000)),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("job", "Job: runs to its end"),
                                    ("notebook", "Notebook: a Pod that serves a port until the request ends"),
                                ],
                                max_length=10,
                            ),
                        ),
                        ("image", models.CharField(max_length=400)),
                        ("command", models.JSONField(default=list)),
                        ("args", models.JSONField(default=list)),
                        ("env", models.JSONField(default=dict)),
                        ("cpu", models.CharField(max_length=32)),
                        ("memory", models.CharField(max_length=32)),
                        ("volumes", models.JSONField(default=list)),
                        ("port", models.PositiveIntegerField(blank=True, null=True)),
                        ("user_id", models.PositiveIntegerField(default=1000)),
                        ("parameters", models.JSONField(default=list)),
                        ("version", models.PositiveIntegerField(default=1)),
                        ("created_at", models.DateTimeField()),
                        ("changed_at", models.DateTimeField()),
                        ("archived_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "changed_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("flavors", models.ManyToManyField(blank=True, related_name="+", to="claims.flavor")),
                        (
                            "projects",
                            models.ManyToManyField(blank=True, related_name="+", to="accounts.project"),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="Placement",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("pool", models.CharField(blank=True, max_length=63)),
                        ("position", models.PositiveIntegerField(default=0)),
                        ("node_selector", models.JSONField(default=dict)),
                        ("tolerations", models.JSONField(default=list)),
                        ("device_class", models.CharField(blank=True, max_length=253)),
                        ("selectors", models.JSONField(default=list)),
                        ("config", models.JSONField(default=list)),
                        ("device_tolerations", models.JSONField(default=list)),
                        ("extended_resource", models.CharField(blank=True, max_length=317)),
                        (
                            "stage",
                            models.CharField(
                                choices=[
                                    ("automatic", "as the conditions say"),
                                    ("device-plugin", "Device Plugin, whatever the conditions say"),
                                    ("dra", "DRA, whatever the conditions say"),
                                ],
                                default="automatic",
                                max_length=14,
                            ),
                        ),
                        ("kubernetes", models.CharField(blank=True, max_length=200)),
                        ("driver", models.CharField(blank=True, max_length=63)),
                        ("driver_versions", models.CharField(blank=True, max_length=200)),
                        ("runtime", models.CharField(blank=True, max_length=200)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                        (
                            "flavor",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="placements",
                                to="claims.flavor",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("flavor", "cluster", "pool"), name="one_placement_per_pool"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("device_class", ""), ("extended_resource", ""), _negated=True
                                ),
                                name="placement_serves_somehow",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Price",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("device_class", models.CharField(blank=True, max_length=253)),
                        ("product", models.CharField(blank=True, max_length=128)),
                        ("per_hour", models.DecimalField(decimal_places=6, max_digits=18)),
                        (
                            "book",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="prices",
                                to="claims.pricebook",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("book", "device_class", "product"), name="one_price_per_target"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("per_hour__gte", 0)), name="price_not_negative"
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="PriceDiscount",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("position", models.PositiveIntegerField()),
                        ("cost_centre", models.CharField(blank=True, max_length=40)),
                        ("percent", models.DecimalField(decimal_places=4, max_digits=7)),
                        (
                            "book",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="discounts",
                                to="claims.pricebook",
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="accounts.project",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("book", "position"), name="one_discount_per_position"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("percent__gt", 0), ("percent__lte", 100)),
                                name="discount_is_a_percentage",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("cost_centre__gt", ""), ("project", None)),
                                    models.Q(("cost_centre", ""), ("project__isnull", False)),
                                    _connector="OR",
                                ),
                                name="discount_for_one_thing",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="PriceRule",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("position", models.PositiveIntegerField()),
                        ("label", models.CharField(blank=True, max_length=80)),
                        (
                            "use",
                            models.CharField(
                                choices=[
                                    ("held", "held"),
                                    ("unused", "held but not used"),
                                    ("idle", "idle: nobody holds it"),
                                ],
                                default="held",
                                max_length=6,
                            ),
                        ),
                        ("device_class", models.CharField(blank=True, max_length=253)),
                        ("product", models.CharField(blank=True, max_length=128)),
                        ("profile", models.CharField(blank=True, max_length=64)),
                        ("resource", models.CharField(blank=True, max_length=317)),
                        ("expression", models.CharField(blank=True, max_length=4000)),
                        (
                            "unit",
                            models.CharField(
                                choices=[
                                    ("device", "per device and hour"),
                                    ("capacity", "per unit of capacity and hour"),
                                    (
                                        "counters",
                                        "per whole device and hour, by the partition's share of its counters",
                                    ),
                                ],
                                default="device",
                                max_length=8,
                            ),
                        ),
                        ("capacity", models.CharField(blank=True, max_length=320)),
                        ("per", models.CharField(blank=True, max_length=32)),
                        ("per_hour", models.DecimalField(decimal_places=6, max_digits=15)),
                        (
                            "book",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="rules",
                                to="claims.pricebook",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("book", "position"), name="one_rule_per_position"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("per_hour__gte", 0)), name="rule_price_not_negative"
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Quota",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("key", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("devices", "devices at once"),
                                    ("memory", "device memory at once"),
                                    ("device-hours", "device-hours in a calendar month"),
                                    ("money", "money in a calendar month"),
                                ],
                                max_length=12,
                            ),
                        ),
                        ("limit", models.CharField(max_length=32)),
                        ("currency", models.CharField(blank=True, max_length=3)),
                        (
                            "action",
                            models.CharField(
                                choices=[
                                    ("notify", "notify"),
                                    ("block", "refuse new requests"),
                                    ("release", "refuse new requests, and release the newest"),
                                ],
                                max_length=7,
                            ),
                        ),
                        ("enforced", models.BooleanField(default=False)),
                        ("valid_from", models.DateTimeField()),
                        ("valid_until", models.DateTimeField(blank=True, null=True)),
                        ("note", models.CharField(blank=True, max_length=500)),
                        ("over_since", models.DateTimeField(blank=True, null=True)),
                        ("version", models.PositiveIntegerField(default=1)),
                        ("created_at", models.DateTimeField()),
                        ("changed_at", models.DateTimeField()),
                        (
                            "changed_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "flavor",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="quotas",
                                to="claims.flavor",
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="quotas",
                                to="accounts.project",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [models.Index(fields=["project", "valid_from"], name="quotas_of_project")],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("valid_until", None),
                                    ("valid_until__gte", models.F("valid_from")),
                                    _connector="OR",
                                ),
                                name="quota_validity_in_order",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("kind", "money"), models.Q(("currency", ""), _negated=True)),
                                    models.Q(models.Q(("kind", "money"), _negated=True), ("currency", "")),
                                    _connector="OR",
                                ),
                                name="quota_currency_with_money",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("enforced", False), ("kind", "devices"), _connector="OR"),
                                name="quota_enforced_in_devices",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Request",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("key", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                        ("namespace", models.CharField(max_length=63)),
                        (
                            "backend",
                            models.CharField(
                                choices=[
                                    ("dra", "Dynamic Resource Allocation"),
                                    ("device-plugin", "Device Plugin"),
                                ],
                                default="dra",
                                max_length=14,
                            ),
                        ),
                        ("pool", models.CharField(blank=True, max_length=63)),
                        ("device_class", models.CharField(blank=True, max_length=253)),
                        ("extended_resource", models.CharField(blank=True, max_length=317)),
                        ("node_selector", models.JSONField(default=dict)),
                        ("tolerations", models.JSONField(default=list)),
                        ("count", models.PositiveIntegerField()),
                        ("min_memory", models.CharField(blank=True, max_length=32)),
                        (
                            "shape",
                            models.CharField(
                                choices=[
                                    ("claim", "shared claim: Pods join one ResourceClaim"),
                                    ("template", "template: every Pod gets a claim of its own"),
                                    ("entitlement", "entitlement: Pods ask for units of a Device Plugin"),
                                ],
                                max_length=12,
                            ),
                        ),
                        ("options", models.JSONField(default=dict)),
                        ("spec", models.JSONField(default=dict)),
                        ("duration", models.DurationField()),
                        ("purpose", models.CharField(max_length=1000)),
                        (
                            "approval",
                            models.CharField(
                                choices=[
                                    ("none", "none, within the quota"),
                                    ("lead", "a lead of the project"),
                                    ("administrator", "an administrator"),
                                    ("both", "a lead and an administrator"),
                                ],
                                default="none",
                                max_length=14,
                            ),
                        ),
                        ("own_approval", models.BooleanField(default=False)),
                        ("ends_pods", models.BooleanField(default=False)),
                        ("hold_steps_aside", models.BooleanField(default=False)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("waiting-for-approval", "waiting for approval"),
                                    ("submitted", "submitted"),
                                    ("approved", "approved"),
                                    ("creating", "being created"),
                                    ("failed", "failed"),
                                    ("cancelled", "cancelled"),
                                    ("rejected", "rejected"),
                                    ("expired", "expired"),
                                    ("waiting-for-pod", "waiting for a Pod"),
                                    ("waiting-for-device", "waiting for a device"),
                                    ("allocated", "allocated"),
                                    ("in-use", "in use"),
                                    ("ending", "ending"),
                                    ("ended", "released"),
                                ],
                                default="submitted",
                                max_length=20,
                            ),
                        ),
                        (
                            "reason",
                            models.CharField(
                                blank=True,
                                choices=[
                                    ("", "nothing to add"),
                                    (
                                        "retrying",
                                        "the cluster did not answer as it should; the desk tries again",
                                    ),
                                    ("refused", "the cluster refused it"),
                                    ("name-taken", "an object that the desk did not make has its name"),
                                    ("namespace-lost", "its namespace no longer belongs to the project"),
                                    (
                                        "deleted-elsewhere",
                                        "its object was deleted on the cluster, not by the desk",
                                    ),
                                    ("not-scheduled", "a Pod waits for it, and the scheduler found no place"),
                                    ("partly", "some of its Pods still wait for a device"),
                                    ("released", "released by a person"),
                                    ("expired", "the time asked for is over"),
                                    ("idle", "nobody used it"),
                                    ("not-decided", "nobody decided about it in time"),
                                    (
                                        "still-used",
                                        "Pods still use it: they hold the device, and it still costs",
                                    ),
                                    ("replaced", "another request has taken its place"),
                                    ("winding-up", "its objects are being removed"),
                                    ("over-quota", "its project is over its quota"),
                                ],
                                max_length=20,
                            ),
                        ),
                        ("message", models.TextField(blank=True)),
                        ("created_at", models.DateTimeField()),
                        ("changed_at", models.DateTimeField()),
                        ("expires_at", models.DateTimeField(blank=True, null=True)),
                        ("ends_by", models.DateTimeField(blank=True, null=True)),
                        ("asked_at", models.DateTimeField(blank=True, null=True)),
                        ("allocated_at", models.DateTimeField(blank=True, null=True)),
                        ("ended_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "end_reason",
                            models.CharField(
                                blank=True,
                                choices=[
                                    ("", "nothing to add"),
                                    (
                                        "retrying",
                                        "the cluster did not answer as it should; the desk tries again",
                                    ),
                                    ("refused", "the cluster refused it"),
                                    ("name-taken", "an object that the desk did not make has its name"),
                                    ("namespace-lost", "its namespace no longer belongs to the project"),
                                    (
                                        "deleted-elsewhere",
                                        "its object was deleted on the cluster, not by the desk",
                                    ),
                                    ("not-scheduled", "a Pod waits for it, and the scheduler found no place"),
                                    ("partly", "some of its Pods still wait for a device"),
                                    ("released", "released by a person"),
                                    ("expired", "the time asked for is over"),
                                    ("idle", "nobody used it"),
                                    ("not-decided", "nobody decided about it in time"),
                                    (
                                        "still-used",
                                        "Pods still use it: they hold the device, and it still costs",
                                    ),
                                    ("replaced", "another request has taken its place"),
                                    ("winding-up", "its objects are being removed"),
                                    ("over-quota", "its project is over its quota"),
                                ],
                                max_length=20,
                            ),
                        ),
                        ("object_name", models.CharField(max_length=253)),
                        ("object_uid", models.CharField(blank=True, max_length=64)),
                        ("object_created_at", models.DateTimeField(blank=True, null=True)),
                        ("object_seen", models.BooleanField(default=False)),
                        ("hold_wanted", models.BooleanField(default=False)),
                        ("hold_pod_uid", models.CharField(blank=True, max_length=64)),
                        ("due_at", models.DateTimeField(blank=True, null=True)),
                        ("attempts", models.PositiveIntegerField(default=0)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="requests",
                                to="inventory.cluster",
                            ),
                        ),
                        (
                            "flavor",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="requests",
                                to="claims.flavor",
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="requests",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "requester",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="requests",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                fields=["cluster", "object_uid"], name="claims_requ_cluster_09722f_idx"
                            ),
                            models.Index(fields=["project", "state"], name="claims_requ_project_8ed528_idx"),
                            models.Index(fields=["due_at"], name="claims_requ_due_at_833e62_idx"),
                            models.Index(fields=["flavor", "allocated_at"], name="request_waits"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("cluster", "namespace", "object_name"), name="one_request_per_object"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("count__gte", 1)), name="request_count_positive"
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Adjustment",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("month", models.CharField(max_length=7)),
                        ("minor", models.BigIntegerField()),
                        ("currency", models.CharField(max_length=3)),
                        ("reason", models.CharField(max_length=500)),
                        ("proposed_at", models.DateTimeField()),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("proposed", "waits for a second person"),
                                    ("approved", "approved"),
                                    ("rejected", "rejected"),
                                ],
                                default="proposed",
                                max_length=8,
                            ),
                        ),
                        ("decided_at", models.DateTimeField(null=True)),
                        ("decision_note", models.CharField(blank=True, max_length=500)),
                        (
                            "decided_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="adjustments",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "proposed_by",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "refers_to",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="adjustments",
                                to="claims.statement",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("minor", 0), _negated=True),
                                name="adjustment_of_something",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("decided_by", None),
                                    models.Q(("decided_by", models.F("proposed_by")), _negated=True),
                                    _connector="OR",
                                ),
                                name="adjustment_by_two_people",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="StatementLine",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("position", models.PositiveIntegerField()),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("usage", "use"),
                                    ("idle", "idle time, on the operator's account"),
                                    ("shared", "part of the idle time, passed on"),
                                    ("correction", "correction of a closed month"),
                                    ("credit", "credit note"),
                                    ("adjustment", "adjustment"),
                                ],
                                max_length=10,
                            ),
                        ),
                        ("cost_centre", models.CharField(blank=True, max_length=40)),
                        ("device_class", models.CharField(blank=True, max_length=253)),
                        ("product", models.CharField(blank=True, max_length=128)),
                        ("use", models.CharField(blank=True, max_length=6)),
                        ("unit", models.CharField(max_length=8)),
                        ("per", models.CharField(blank=True, max_length=32)),
                        ("currency", models.CharField(blank=True, max_length=3)),
                        ("list_micros", models.BigIntegerField(null=True)),
                        ("discount_micros", models.IntegerField(default=0)),
                        ("time", claims.models.charges.FractionField(max_length=120)),
                        ("exact", claims.models.charges.FractionField(max_length=120, null=True)),
                        ("minor", models.BigIntegerField(null=True)),
                        ("note", models.CharField(blank=True, max_length=500)),
                        (
                            "statement",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="lines",
                                to="claims.statement",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("statement", "position"), name="one_line_per_position"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Watch",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("device_class", models.CharField(blank=True, max_length=253)),
                        ("count", models.PositiveIntegerField()),
                        ("until", models.DateTimeField()),
                        ("created_at", models.DateTimeField()),
                        ("told_at", models.DateTimeField(null=True)),
                        (
                            "cluster",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                        (
                            "flavor",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="claims.flavor",
                            ),
                        ),
                        (
                            "person",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="watches",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("told_at", None)),
                                fields=["until"],
                                name="watches_waiting",
                            )
                        ],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("count__gte", 1)), name="watch_count_positive"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(
                                        ("cluster", None), ("device_class", ""), ("flavor__isnull", False)
                                    ),
                                    models.Q(
                                        ("cluster__isnull", False),
                                        ("flavor", None),
                                        models.Q(("device_class", ""), _negated=True),
                                    ),
                                    _connector="OR",
                                ),
                                name="watch_of_a_flavor_or_a_class",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("told_at", None)),
                                fields=("person", "flavor"),
                                name="one_watch_per_flavor",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("flavor", None), ("told_at", None)),
                                fields=("person", "cluster", "device_class"),
                                name="one_watch_per_class",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Dispute",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("open", "open"),
                                    ("accepted", "accepted"),
                                    ("rejected", "rejected"),
                                    ("withdrawn", "withdrawn"),
                                ],
                                default="open",
                                max_length=9,
                            ),
                        ),
                        ("opened_at", models.DateTimeField()),
                        (
                            "charge",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="disputes",
                                to="claims.charge",
                            ),
                        ),
                        (
                            "opened_by",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="disputes",
                                to="accounts.project",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("state", "open")),
                                fields=("charge",),
                                name="one_open_dispute_per_charge",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="QuotaObject",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("namespace", models.CharField(max_length=63)),
                        ("name", models.CharField(max_length=63)),
                        ("wanted", models.JSONField(default=dict)),
                        ("written", models.JSONField(default=dict)),
                        ("written_at", models.DateTimeField(null=True)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("due", "being written"),
                                    ("written", "on the cluster"),
                                    ("drift", "changed on the cluster by others"),
                                    ("refused", "the cluster refused it"),
                                    ("name-taken", "an object that the desk did not make has its name"),
                                ],
                                default="due",
                                max_length=10,
                            ),
                        ),
                        ("message", models.TextField(blank=True)),
                        ("due_at", models.DateTimeField(null=True)),
                        ("attempts", models.PositiveIntegerField(default=0)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "quota",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="objects_on_clusters",
                                to="claims.quota",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [models.Index(fields=["due_at"], name="quota_objects_due")],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("cluster", "namespace", "name"), name="one_object_of_the_desk"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Launch",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("key", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                        ("parameters", models.JSONField(default=dict)),
                        ("manifest", models.JSONField()),
                        ("object_name", models.CharField(max_length=63)),
                        ("object_uid", models.CharField(blank=True, max_length=64)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("starting", "being started"),
                                    ("started", "on the cluster"),
                                    ("failed", "refused by the cluster"),
                                    ("stopping", "being removed"),
                                    ("stopped", "removed"),
                                ],
                                default="starting",
                                max_length=10,
                            ),
                        ),
                        ("message", models.TextField(blank=True)),
                        ("created_at", models.DateTimeField()),
                        ("changed_at", models.DateTimeField()),
                        ("due_at", models.DateTimeField(blank=True, null=True)),
                        ("attempts", models.PositiveIntegerField(default=0)),
                        (
                            "person",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "template",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="claims.launchtemplate",
                            ),
                        ),
                        (
                            "request",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="launches",
                                to="claims.request",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [models.Index(fields=["due_at"], name="launches_due")],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("request", "object_name"), name="one_launch_per_object"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Idleness",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("idle_for", models.DurationField(default=datetime.timedelta)),
                        ("counted_at", models.DateTimeField()),
                        ("reminded_at", models.DateTimeField(null=True)),
                        (
                            "request",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="idleness",
                                to="claims.request",
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="HolderMessage",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("key", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                        ("device", models.CharField(max_length=253)),
                        ("text", models.CharField(max_length=1000)),
                        ("created_at", models.DateTimeField()),
                        (
                            "sender",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "thread",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="answers",
                                to="claims.holdermessage",
                            ),
                        ),
                        (
                            "request",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="messages",
                                to="claims.request",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["sender", "-created_at"], name="messages_of_sender")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Decision",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "role",
                            models.CharField(
                                choices=[("lead", "lead of the project"), ("administrator", "administrator")],
                                max_length=14,
                            ),
                        ),
                        (
                            "verdict",
                            models.CharField(
                                choices=[("approved", "approved"), ("rejected", "rejected")], max_length=10
                            ),
                        ),
                        ("comment", models.CharField(blank=True, max_length=1000)),
                        ("at", models.DateTimeField()),
                        (
                            "person",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "request",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="decisions",
                                to="claims.request",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("request", "role"), name="one_decision_per_role")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Booking",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("key", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                        ("request_key", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                        ("pool", models.CharField(blank=True, max_length=63)),
                        ("namespace", models.CharField(max_length=63)),
                        ("count", models.PositiveIntegerField()),
                        ("min_memory", models.CharField(blank=True, max_length=32)),
                        ("starts_at", models.DateTimeField()),
                        ("ends_at", models.DateTimeField()),
                        ("purpose", models.CharField(max_length=1000)),
                        (
                            "approval",
                            models.CharField(
                                choices=[
                                    ("none", "none, within the quota"),
                                    ("lead", "a lead of the project"),
                                    ("administrator", "an administrator"),
                                    ("both", "a lead and an administrator"),
                                ],
                                default="none",
                                max_length=14,
                            ),
                        ),
                        ("own_approval", models.BooleanField(default=False)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("waiting-for-approval", "waiting for approval"),
                                    ("booked", "booked"),
                                    ("started", "started"),
                                    ("missed", "missed"),
                                    ("cancelled", "cancelled"),
                                    ("refused", "refused"),
                                ],
                                default="booked",
                                max_length=20,
                            ),
                        ),
                        (
                            "reason",
                            models.CharField(
                                blank=True,
                                choices=[
                                    ("", "nothing to add"),
                                    ("no-device", "not enough devices are free"),
                                    ("out-of-step", "the desk is not in step with the cluster"),
                                    ("not-accepted", "the request was not accepted"),
                                    ("not-decided", "nobody decided about it in time"),
                                    ("desk-away", "the desk was not running at that time"),
                                ],
                                max_length=14,
                            ),
                        ),
                        ("message", models.TextField(blank=True)),
                        ("created_at", models.DateTimeField()),
                        ("changed_at", models.DateTimeField()),
                        ("tried_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="bookings",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "requester",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="bookings",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "flavor",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="bookings",
                                to="claims.flavor",
                            ),
                        ),
                        (
                            "request",
                            models.OneToOneField(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="booking",
                                to="claims.request",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["cluster", "state", "ends_at"], name="booking_overlaps"),
                            models.Index(fields=["state", "starts_at"], name="booking_due"),
                            models.Index(fields=["project", "starts_at"], name="booking_of_project"),
                        ],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("ends_at__gt", models.F("starts_at"))),
                                name="booking_ends_after_start",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("count__gte", 1)), name="booking_count_positive"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("request__isnull", False), ("state", "started")),
                                    models.Q(
                                        models.Q(("state", "started"), _negated=True),
                                        ("request__isnull", True),
                                    ),
                                    _connector="OR",
                                ),
                                name="booking_started_has_request",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Allocation",
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
                                choices=[("claim", "claim"), ("units", "units of a Device Plugin")],
                                default="claim",
                                max_length=6,
                            ),
                        ),
                        ("namespace", models.CharField(max_length=63)),
                        ("claim_name", models.CharField(max_length=253)),
                        ("claim_uid", models.CharField(max_length=64)),
                        ("epoch", models.IntegerField()),
                        ("driver", models.CharField(max_length=63)),
                        ("pool_name", models.CharField(max_length=253)),
                        ("device_name", models.CharField(max_length=63)),
                        ("share_id", models.CharField(blank=True, max_length=64)),
                        ("request_name", models.CharField(max_length=130)),
                        ("admin_access", models.BooleanField(default=False)),
                        ("node_name", models.CharField(blank=True, max_length=253)),
                        ("hardware_id", models.CharField(blank=True, max_length=128)),
                        ("device_class", models.CharField(blank=True, max_length=253)),
                        ("product", models.CharField(blank=True, max_length=128)),
                        ("profile_digest", models.CharField(blank=True, max_length=64)),
                        ("consumed_capacity", models.JSONField(default=dict)),
                        ("capacity", models.JSONField(default=dict)),
                        ("counters", models.JSONField(default=dict)),
                        ("units", models.IntegerField(default=1)),
                        ("replicas", models.IntegerField(default=1)),
                        ("extended_resource", models.CharField(blank=True, max_length=317)),
                        ("started_at", models.DateTimeField()),
                        ("start_source", models.CharField(max_length=20)),
                        ("start_uncertainty_us", models.BigIntegerField(default=0)),
                        ("ended_at", models.DateTimeField(null=True)),
                        ("end_source", models.CharField(blank=True, max_length=20)),
                        ("end_uncertainty_us", models.BigIntegerField(default=0)),
                        (
                            "bound",
                            models.CharField(
                                choices=[
                                    ("tenant", "in favour of who pays"),
                                    ("operator", "in favour of who operates"),
                                ],
                                default="tenant",
                                max_length=8,
                            ),
                        ),
                        ("end_cut_us", models.BigIntegerField(default=0)),
                        ("contested", models.BooleanField(default=False)),
                        (
                            "started_us",
                            models.GeneratedField(
                                db_persist=True,
                                expression=portal.sql.Microseconds("started_at"),
                                output_field=models.BigIntegerField(),
                            ),
                        ),
                        (
                            "ended_us",
                            models.GeneratedField(
                                db_persist=True,
                                expression=portal.sql.Microseconds("ended_at"),
                                output_field=models.BigIntegerField(null=True),
                            ),
                        ),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="allocations",
                                to="inventory.cluster",
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="allocations",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "request",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="allocations",
                                to="claims.request",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                fields=["project", "started_at"], name="claims_allo_project_094281_idx"
                            ),
                            models.Index(
                                fields=["cluster", "driver", "pool_name", "device_name", "started_at"],
                                name="claims_allo_cluster_d4b629_idx",
                            ),
                            models.Index(
                                fields=["hardware_id", "started_at"], name="claims_allo_hardwar_c21033_idx"
                            ),
                            models.Index(fields=["node_name", "started_at"], name="allocation_by_node"),
                            models.Index(fields=["device_name", "started_at"], name="allocation_by_device"),
                            models.Index(fields=["started_at"], name="claims_allo_started_1481df_idx"),
                            models.Index(fields=["ended_at"], name="claims_allo_ended_a_679a0c_idx"),
                            models.Index(
                                fields=[
                                    "project",
                                    "device_class",
                                    "product",
                                    "share_id",
                                    "admin_access",
                                    "started_us",
                                    "ended_us",
                                ],
                                name="allocation_time_by_kind",
                            ),
                            models.Index(
                                condition=models.Q(("contested", True)),
                                fields=["cluster"],
                                name="allocation_contested",
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=(
                                    "cluster",
                                    "claim_uid",
                                    "epoch",
                                    "driver",
                                    "pool_name",
                                    "device_name",
                                    "share_id",
                                    "request_name",
                                ),
                                name="allocation_natural_key",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("ended_at", None),
                                    ("ended_at__gte", models.F("started_at")),
                                    _connector="OR",
                                ),
                                name="allocation_not_negative",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("replicas__gte", 1), ("units__gte", 1)),
                                name="allocation_units_positive",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="RequestChange",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("key", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                        (
                            "origin",
                            models.CharField(
                                choices=[("member", "asked for"), ("approver", "condition of an approval")],
                                default="member",
                                max_length=8,
                            ),
                        ),
                        ("current", models.JSONField()),
                        ("wanted", models.JSONField()),
                        ("reason", models.CharField(max_length=1000)),
                        (
                            "approval",
                            models.CharField(
                                choices=[
                                    ("none", "none, within the quota"),
                                    ("lead", "a lead of the project"),
                                    ("administrator", "an administrator"),
                                    ("both", "a lead and an administrator"),
                                ],
                                default="none",
                                max_length=14,
                            ),
                        ),
                        ("own_approval", models.BooleanField(default=False)),
                        ("offered", models.JSONField(default=dict)),
                        (
                            "offered_as",
                            models.CharField(
                                blank=True,
                                choices=[("lead", "lead of the project"), ("administrator", "administrator")],
                                max_length=14,
                            ),
                        ),
                        ("comment", models.CharField(blank=True, max_length=1000)),
                        ("replaces", models.BooleanField(default=False)),
                        (
                            "release",
                            models.CharField(
                                choices=[
                                    ("when-served", "as soon as the new request has its devices"),
                                    ("by-hand", "when I release it"),
                                ],
                                default="when-served",
                                max_length=12,
                            ),
                        ),
                        ("spec", models.JSONField(default=dict)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("waiting", "waiting for a decision"),
                                    ("offered", "approved on a condition"),
                                    ("approved", "approved"),
                                    ("applied", "done"),
                                    ("rejected", "rejected"),
                                    ("withdrawn", "withdrawn"),
                                    ("failed", "failed"),
                                ],
                                default="waiting",
                                max_length=10,
                            ),
                        ),
                        ("message", models.TextField(blank=True)),
                        ("created_at", models.DateTimeField()),
                        ("changed_at", models.DateTimeField()),
                        ("ended_at", models.DateTimeField(blank=True, null=True)),
                        ("released_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "offered_by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "person",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "request",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="changes",
                                to="claims.request",
                            ),
                        ),
                        (
                            "successor",
                            models.OneToOneField(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="took_place_by",
                                to="claims.request",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [models.Index(fields=["state", "created_at"], name="changes_to_decide")],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("state__in", ["waiting", "offered", "approved"])),
                                fields=("request",),
                                name="one_open_change_per_request",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="RequestClaim",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("claim_uid", models.CharField(max_length=64)),
                        ("claim_name", models.CharField(max_length=253)),
                        ("pod_uid", models.CharField(blank=True, max_length=64)),
                        ("seen_at", models.DateTimeField()),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                        (
                            "request",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="claims",
                                to="claims.request",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("cluster", "claim_uid"), name="one_request_per_claim"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="RequestPod",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("pod_uid", models.CharField(max_length=64)),
                        ("pod_name", models.CharField(max_length=253)),
                        ("seen_at", models.DateTimeField()),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="inventory.cluster",
                            ),
                        ),
                        (
                            "request",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="entitled_pods",
                                to="claims.request",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("cluster", "pod_uid"), name="one_request_per_pod")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="DisputeEntry",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("at", models.DateTimeField()),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("open", "open"),
                                    ("accepted", "accepted"),
                                    ("rejected", "rejected"),
                                    ("withdrawn", "withdrawn"),
                                ],
                                max_length=9,
                            ),
                        ),
                        ("text", models.CharField(max_length=1000)),
                        (
                            "by",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "dispute",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="entries",
                                to="claims.dispute",
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="ChangeDecision",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "role",
                            models.CharField(
                                choices=[("lead", "lead of the project"), ("administrator", "administrator")],
                                max_length=14,
                            ),
                        ),
                        (
                            "verdict",
                            models.CharField(
                                choices=[("approved", "approved"), ("rejected", "rejected")], max_length=10
                            ),
                        ),
                        ("comment", models.CharField(blank=True, max_length=1000)),
                        ("at", models.DateTimeField()),
                        (
                            "person",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "change",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="decisions",
                                to="claims.requestchange",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("change", "role"), name="one_decision_per_role_and_change"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="BookingDecision",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "role",
                            models.CharField(
                                choices=[("lead", "lead of the project"), ("administrator", "administrator")],
                                max_length=14,
                            ),
                        ),
                        (
                            "verdict",
                            models.CharField(
                                choices=[("approved", "approved"), ("rejected", "rejected")], max_length=10
                            ),
                        ),
                        ("comment", models.CharField(blank=True, max_length=1000)),
                        ("at", models.DateTimeField()),
                        (
                            "booking",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="decisions",
                                to="claims.booking",
                            ),
                        ),
                        (
                            "person",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("booking", "role"), name="one_booking_decision_per_role"
                            )
                        ],
                    },
                ),
            ],
        ),
        migrations.RunPython(ledger.exclude, ledger.admit),
    ]
