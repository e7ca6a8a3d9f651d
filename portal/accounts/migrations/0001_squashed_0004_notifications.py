"""Everything up to here at once: a new database is made in a fraction of the time. One that has some of
what it replaces goes on step by step."""

import uuid

import django.contrib.auth.validators
import django.core.serializers.json
import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

import portal.creation


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("accounts", "0001_initial"),
        ("accounts", "0002_memberships_and_invitations"),
        ("accounts", "0003_announcements"),
        ("accounts", "0004_notifications"),
    ]

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [
        portal.creation.CreateModels(
            operations=[
                migrations.CreateModel(
                    name="User",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("password", models.CharField(max_length=128, verbose_name="password")),
                        (
                            "last_login",
                            models.DateTimeField(blank=True, null=True, verbose_name="last login"),
                        ),
                        (
                            "is_superuser",
                            models.BooleanField(
                                default=False,
                                help_text="Designates that this user has all permissions without explicitly assigning them.",
                                verbose_name="superuser status",
                            ),
                        ),
                        (
                            "username",
                            models.CharField(
                                error_messages={"unique": "A user with that username already exists."},
                                help_text="Required. 150 characters or fewer. Letters, digits and @/./+/-/_ only.",
                                max_length=150,
                                unique=True,
                                validators=[django.contrib.auth.validators.UnicodeUsernameValidator()],
                                verbose_name="username",
                            ),
                        ),
                        (
                            "first_name",
                            models.CharField(blank=True, max_length=150, verbose_name="first name"),
                        ),
                        ("last_name", models.CharField(blank=True, max_length=150, verbose_name="last name")),
                        (
                            "email",
                            models.EmailField(blank=True, max_length=254, verbose_name="email address"),
                        ),
                        (
                            "is_staff",
                            models.BooleanField(
                                default=False,
                                help_text="Designates whether the user can log into this admin site.",
                                verbose_name="staff status",
                            ),
                        ),
                        (
                            "is_active",
                            models.BooleanField(
                                default=True,
                                help_text="Designates whether this user should be treated as active. Unselect this instead of deleting accounts.",
                                verbose_name="active",
                            ),
                        ),
                        (
                            "date_joined",
                            models.DateTimeField(
                                default=django.utils.timezone.now, verbose_name="date joined"
                            ),
                        ),
                        (
                            "is_administrator",
                            models.BooleanField(default=False, verbose_name="platform administrator"),
                        ),
                        ("is_finance", models.BooleanField(default=False, verbose_name="finance")),
                        ("is_auditor", models.BooleanField(default=False, verbose_name="auditor")),
                        ("language", models.CharField(blank=True, max_length=10, verbose_name="language")),
                        ("time_zone", models.CharField(blank=True, max_length=64, verbose_name="time zone")),
                        ("claimed_roles", models.JSONField(blank=True, default=list)),
                        (
                            "groups",
                            models.ManyToManyField(
                                blank=True,
                                help_text="The groups this user belongs to. A user will get all permissions granted to each of their groups.",
                                related_name="user_set",
                                related_query_name="user",
                                to="auth.group",
                                verbose_name="groups",
                            ),
                        ),
                        (
                            "user_permissions",
                            models.ManyToManyField(
                                blank=True,
                                help_text="Specific permissions for this user.",
                                related_name="user_set",
                                related_query_name="user",
                                to="auth.permission",
                                verbose_name="user permissions",
                            ),
                        ),
                    ],
                    options={
                        "verbose_name": "user",
                        "verbose_name_plural": "users",
                        "abstract": False,
                    },
                ),
                migrations.CreateModel(
                    name="Announcement",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "level",
                            models.PositiveSmallIntegerField(
                                choices=[(1, "for information"), (2, "warning"), (3, "outage")], default=1
                            ),
                        ),
                        ("text", models.CharField(max_length=500)),
                        ("text_zh_hans", models.CharField(blank=True, max_length=500)),
                        ("starts_at", models.DateTimeField()),
                        ("ends_at", models.DateTimeField(blank=True, null=True)),
                        ("dismissible", models.BooleanField(default=True)),
                        (
                            "created_by",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("ends_at", None), ("ends_at__gt", models.F("starts_at")), _connector="OR"
                                ),
                                name="announcement_period_not_empty",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ApiToken",
                    fields=[
                        ("digest", models.CharField(max_length=128, primary_key=True, serialize=False)),
                        ("token_key", models.CharField(db_index=True, max_length=25)),
                        ("created", models.DateTimeField(auto_now_add=True)),
                        ("expiry", models.DateTimeField(blank=True, null=True)),
                        ("name", models.CharField(max_length=80)),
                        ("scopes", models.JSONField(default=list)),
                        ("last_used_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "user",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="auth_token_set",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "abstract": False,
                    },
                ),
                migrations.CreateModel(
                    name="NotificationChoice",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("kind", models.CharField(max_length=20)),
                        (
                            "channel",
                            models.CharField(
                                choices=[("portal", "Portal"), ("mail", "Mail"), ("webhook", "Webhook")],
                                max_length=10,
                            ),
                        ),
                        ("wanted", models.BooleanField()),
                        (
                            "person",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="notification_choices",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("person", "kind", "channel"), name="one_choice_per_kind_and_channel"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="AnnouncementDismissal",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "announcement",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="dismissals",
                                to="accounts.announcement",
                            ),
                        ),
                        (
                            "user",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="dismissed_announcements",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("announcement", "user"), name="one_dismissal_per_reader"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Project",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("slug", models.SlugField(unique=True)),
                        ("name", models.CharField(max_length=120, unique=True)),
                        ("description", models.CharField(blank=True, max_length=1000)),
                        ("cost_centre", models.CharField(blank=True, max_length=40)),
                        ("created_at", models.DateTimeField()),
                        ("archived_at", models.DateTimeField(blank=True, null=True)),
                    ],
                ),
                migrations.CreateModel(
                    name="Membership",
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
                                choices=[("member", "member"), ("lead", "project lead")],
                                default="member",
                                max_length=10,
                            ),
                        ),
                        (
                            "claimed_role",
                            models.CharField(
                                blank=True,
                                choices=[("member", "member"), ("lead", "project lead")],
                                max_length=10,
                            ),
                        ),
                        (
                            "given_role",
                            models.CharField(
                                blank=True,
                                choices=[("member", "member"), ("lead", "project lead")],
                                max_length=10,
                            ),
                        ),
                        ("joined_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "user",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="memberships",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="memberships",
                                to="accounts.project",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("user", "project"), name="one_membership_per_project"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("role__in", ["member", "lead"])),
                                name="membership_role_known",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="PastMembership",
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
                                choices=[("member", "member"), ("lead", "project lead")], max_length=10
                            ),
                        ),
                        ("joined_at", models.DateTimeField(null=True)),
                        ("ended_at", models.DateTimeField()),
                        (
                            "reason",
                            models.CharField(
                                choices=[
                                    ("left", "left"),
                                    ("removed", "removed"),
                                    ("group", "no longer in the group"),
                                ],
                                max_length=10,
                            ),
                        ),
                        (
                            "user",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="past_memberships",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="past_memberships",
                                to="accounts.project",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                fields=["project", "-ended_at"], name="accounts_pa_project_31b8dc_idx"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Notification",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("kind", models.CharField(max_length=20)),
                        ("key", models.CharField(max_length=160)),
                        ("subject", models.JSONField()),
                        ("body", models.JSONField(null=True)),
                        ("url", models.CharField(blank=True, max_length=500)),
                        ("thread", models.CharField(blank=True, max_length=80)),
                        ("in_portal", models.BooleanField(default=True)),
                        ("created_at", models.DateTimeField()),
                        ("read_at", models.DateTimeField(null=True)),
                        (
                            "person",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="notifications",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="accounts.project",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["person", "-created_at"], name="notifications_of_person"),
                            models.Index(
                                condition=models.Q(("in_portal", True), ("read_at", None)),
                                fields=["person"],
                                name="notifications_unread",
                            ),
                            models.Index(fields=["created_at"], name="notifications_by_age"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(fields=("person", "key"), name="one_notification_per_key")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Invitation",
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
                                choices=[("member", "member"), ("lead", "project lead")],
                                default="member",
                                max_length=10,
                            ),
                        ),
                        ("email", models.EmailField(blank=True, max_length=254)),
                        ("digest", models.CharField(max_length=64, unique=True)),
                        ("created_at", models.DateTimeField()),
                        ("expires_at", models.DateTimeField()),
                        ("used_at", models.DateTimeField(null=True)),
                        ("revoked_at", models.DateTimeField(null=True)),
                        (
                            "created_by",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "used_by",
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
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="invitations",
                                to="accounts.project",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("used_at", None), ("revoked_at", None), _connector="OR"),
                                name="invitation_used_or_revoked",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("role__in", ["member", "lead"])),
                                name="invitation_role_known",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="AuditEntry",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("at", models.DateTimeField(db_index=True)),
                        ("action", models.CharField(db_index=True, max_length=60)),
                        ("target_kind", models.CharField(max_length=40)),
                        ("target_id", models.CharField(max_length=64)),
                        ("target_name", models.CharField(max_length=253)),
                        (
                            "before",
                            models.JSONField(
                                encoder=django.core.serializers.json.DjangoJSONEncoder, null=True
                            ),
                        ),
                        (
                            "after",
                            models.JSONField(
                                encoder=django.core.serializers.json.DjangoJSONEncoder, null=True
                            ),
                        ),
                        ("source_ip", models.GenericIPAddressField(null=True)),
                        (
                            "actor",
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
                                related_name="+",
                                to="accounts.project",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                fields=["target_kind", "target_id"], name="accounts_au_target__6ee86a_idx"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Webhook",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("key", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                        ("url", models.CharField(max_length=500)),
                        ("secret", models.BinaryField()),
                        ("created_at", models.DateTimeField()),
                        ("disabled_at", models.DateTimeField(blank=True, null=True)),
                        ("failing_since", models.DateTimeField(blank=True, null=True)),
                        ("failures", models.PositiveIntegerField(default=0)),
                        (
                            "created_by",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "person",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="webhooks",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="webhooks",
                                to="accounts.project",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("person", None), ("project__isnull", False)),
                                    models.Q(("person__isnull", False), ("project", None)),
                                    _connector="OR",
                                ),
                                name="webhook_of_a_person_or_a_project",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Delivery",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "channel",
                            models.CharField(
                                choices=[("portal", "Portal"), ("mail", "Mail"), ("webhook", "Webhook")],
                                max_length=10,
                            ),
                        ),
                        ("kind", models.CharField(max_length=20)),
                        ("key", models.CharField(max_length=160)),
                        ("message_id", models.UUIDField(default=uuid.uuid4, editable=False)),
                        ("payload", models.JSONField(null=True)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("pending", "on its way"),
                                    ("sent", "delivered"),
                                    ("dead", "given up"),
                                    ("skipped", "no longer wanted"),
                                ],
                                default="pending",
                                max_length=10,
                            ),
                        ),
                        ("attempts", models.PositiveIntegerField(default=0)),
                        ("due_at", models.DateTimeField(null=True)),
                        ("leased_until", models.DateTimeField(null=True)),
                        ("batch", models.UUIDField(null=True)),
                        ("created_at", models.DateTimeField()),
                        ("finished_at", models.DateTimeField(null=True)),
                        ("status_code", models.PositiveIntegerField(null=True)),
                        ("error", models.JSONField(null=True)),
                        (
                            "person",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "notification",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="deliveries",
                                to="accounts.notification",
                            ),
                        ),
                        (
                            "webhook",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="deliveries",
                                to="accounts.webhook",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("state", "pending")),
                                fields=["due_at"],
                                name="deliveries_due",
                            ),
                            models.Index(fields=["webhook", "-created_at"], name="deliveries_of_webhook"),
                            models.Index(fields=["created_at"], name="deliveries_by_age"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("channel", "mail")),
                                fields=("notification",),
                                name="one_mail_per_notification",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("channel", "webhook")),
                                fields=("webhook", "key"),
                                name="one_delivery_per_webhook",
                            ),
                        ],
                    },
                ),
            ],
        ),
        migrations.AddField(
            model_name="Project",
            name="members",
            field=models.ManyToManyField(
                related_name="projects", through="accounts.Membership", to=settings.AUTH_USER_MODEL
            ),
        ),
    ]
