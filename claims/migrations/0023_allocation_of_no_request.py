from django.db import migrations, models

from portal.online import AddIndexOnline


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('claims', '0022_allocation_shares_index'),
    ]

    operations = [
        AddIndexOnline(
            model_name='allocation',
            index=models.Index(condition=models.Q(('request', None)), fields=['namespace', 'project', 'admin_access', 'started_at', 'ended_us'], name='allocation_of_no_request'),
        ),
    ]
