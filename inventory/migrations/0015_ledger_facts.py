# What the ledger needs to know of Pods, and where observations are that were archived.

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('inventory', '0014_devices_by_node'),
    ]

    operations = [
        migrations.AddField(
            model_name='pod',
            name='extended_mapping',
            field=models.JSONField(default=dict),
        ),
        migrations.AlterField(
            model_name='observation',
            name='kind',
            field=models.CharField(choices=[('claim-created', 'Claim Created'), ('claim-allocated', 'Claim Allocated'), ('allocation-detailed', 'Allocation Detailed'), ('claim-released', 'Claim Released'), ('claim-deleted', 'Claim Deleted'), ('consumer-joined', 'Consumer Joined'), ('consumer-left', 'Consumer Left'), ('pod-scheduled', 'Pod Scheduled'), ('pod-detailed', 'Pod Detailed'), ('extended-claim', 'Extended Claim'), ('pod-finished', 'Pod Finished'), ('device-appeared', 'Device Appeared'), ('device-gone', 'Device Gone'), ('device-tainted', 'Device Tainted'), ('device-untainted', 'Device Untainted'), ('device-unavailable', 'Device Unavailable'), ('device-available', 'Device Available'), ('node-down', 'Node Down'), ('node-up', 'Node Up'), ('gap', 'Gap')], max_length=20),
        ),
        migrations.CreateModel(
            name='ObservationArchive',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('month', models.CharField(max_length=7)),
                ('part', models.IntegerField()),
                ('file_name', models.CharField(max_length=255, unique=True)),
                ('size', models.BigIntegerField()),
                ('sha256', models.CharField(max_length=64)),
                ('rows', models.BigIntegerField()),
                ('objects_count', models.BigIntegerField()),
                ('schema', models.IntegerField()),
                ('written_at', models.DateTimeField()),
                ('cluster', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='observation_archives', to='inventory.cluster')),
            ],
        ),
        migrations.CreateModel(
            name='ArchivedObject',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('uid', models.CharField(db_index=True, max_length=64)),
                ('epoch', models.IntegerField(default=0)),
                ('archive', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='objects_in', to='inventory.observationarchive')),
            ],
        ),
        migrations.AddConstraint(
            model_name='observationarchive',
            constraint=models.UniqueConstraint(fields=('cluster', 'month', 'part'), name='one_archive_per_part'),
        ),
        migrations.AddConstraint(
            model_name='archivedobject',
            constraint=models.UniqueConstraint(fields=('archive', 'uid'), name='archived_object_natural_key'),
        ),
    ]
