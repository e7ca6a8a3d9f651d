# The facts of the ledger as they were then, units of Device Plugins, and how the ledger is kept.

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


EXCLUDES = "kind = 'claim' AND share_id = '' AND NOT admin_access AND NOT contested"
OVERLAPS = """
    UPDATE claims_allocation SET contested = {true} WHERE kind = 'claim' AND share_id = '' AND NOT admin_access
    AND EXISTS (
        SELECT 1 FROM claims_allocation AS other
        WHERE other.cluster_id = claims_allocation.cluster_id AND other.driver = claims_allocation.driver
          AND other.pool_name = claims_allocation.pool_name
          AND other.device_name = claims_allocation.device_name
          AND other.share_id = '' AND NOT other.admin_access
          AND (other.started_at < claims_allocation.started_at
               OR (other.started_at = claims_allocation.started_at AND other.id < claims_allocation.id))
          AND (other.ended_at IS NULL OR other.ended_at > claims_allocation.started_at))
"""


def exclude(apps, schema_editor):
    """No two holders of one exclusive device at a time. What contradicts that already is marked; the ledger is
    folded anew, which also enters the units of Device Plugins that were observed before."""
    postgresql = schema_editor.connection.vendor == "postgresql"
    schema_editor.execute(OVERLAPS.format(true="true" if postgresql else "1"))
    apps.get_model("claims", "LedgerCursor").objects.update(observation_id=0)
    if postgresql:
        schema_editor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        schema_editor.execute("CREATE EXTENSION IF NOT EXISTS btree_gist")
        schema_editor.execute(
            "ALTER TABLE claims_allocation ADD CONSTRAINT allocations_do_not_overlap EXCLUDE USING gist "
            "(cluster_id WITH =, driver WITH =, pool_name WITH =, device_name WITH =, "
            f"tstzrange(started_at, ended_at) WITH &&) WHERE ({EXCLUDES})"
        )


def admit(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("ALTER TABLE claims_allocation DROP CONSTRAINT allocations_do_not_overlap")
        return
    for event in ("insert", "update"):
        schema_editor.execute(f"DROP TRIGGER IF EXISTS allocations_do_not_overlap_{event}")


class Migration(migrations.Migration):

    dependencies = [
        ("claims", "0005_quotas"),
        ("inventory", "0015_ledger_facts"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='LedgerAudit',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('checked_at', models.DateTimeField()),
                ('since', models.DateTimeField(null=True)),
                ('until', models.DateTimeField(null=True)),
                ('sums', models.JSONField(default=dict)),
                ('devices', models.IntegerField(default=0)),
                ('violations', models.JSONField(default=list)),
                ('violation_count', models.IntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name='LedgerPolicy',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('valid_from', models.DateTimeField(unique=True)),
                ('bound', models.CharField(choices=[('tenant', 'in favour of who pays'), ('operator', 'in favour of who operates')], max_length=8)),
                ('set_at', models.DateTimeField()),
            ],
        ),
        migrations.AddField(
            model_name='allocation',
            name='bound',
            field=models.CharField(choices=[('tenant', 'in favour of who pays'), ('operator', 'in favour of who operates')], default='tenant', max_length=8),
        ),
        migrations.AddField(
            model_name='allocation',
            name='contested',
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name='allocation',
            name='counters',
            field=models.JSONField(default=dict),
        ),
        migrations.AddField(
            model_name='allocation',
            name='end_cut_us',
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='allocation',
            name='extended_resource',
            field=models.CharField(blank=True, max_length=317),
        ),
        migrations.AddField(
            model_name='allocation',
            name='kind',
            field=models.CharField(choices=[('claim', 'claim'), ('units', 'units of a Device Plugin')], default='claim', max_length=6),
        ),
        migrations.AddField(
            model_name='allocation',
            name='replicas',
            field=models.IntegerField(default=1),
        ),
        migrations.AddField(
            model_name='allocation',
            name='units',
            field=models.IntegerField(default=1),
        ),
        migrations.AddIndex(
            model_name='allocation',
            index=models.Index(condition=models.Q(('contested', True)), fields=['cluster'], name='allocation_contested'),
        ),
        migrations.AddIndex(
            model_name='consumer',
            index=models.Index(fields=['uid'], name='consumer_uid'),
        ),
        migrations.AddIndex(
            model_name='consumer',
            index=models.Index(fields=['name'], name='consumer_name'),
        ),
        migrations.AddConstraint(
            model_name='allocation',
            constraint=models.CheckConstraint(condition=models.Q(('replicas__gte', 1), ('units__gte', 1)), name='allocation_units_positive'),
        ),
        migrations.AddField(
            model_name='ledgeraudit',
            name='cluster',
            field=models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='ledger_audit', to='inventory.cluster'),
        ),
        migrations.AddField(
            model_name='ledgerpolicy',
            name='set_by',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.RunPython(exclude, admit),
    ]
