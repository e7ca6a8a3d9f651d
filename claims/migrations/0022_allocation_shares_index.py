from django.db import migrations, models

from portal.online import AddIndexOnline


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('claims', '0021_ledger_touches'),
    ]

    operations = [
        AddIndexOnline(
            model_name='allocation',
            index=models.Index(condition=models.Q(('share_id', ''), _negated=True), fields=['project', 'device_class', 'product', 'started_us', 'ended_us'], name='allocation_shares_by_kind'),
        ),
    ]
