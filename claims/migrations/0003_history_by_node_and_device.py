from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("claims", "0002_ledger_time_in_microseconds")]

    operations = [
        migrations.AddIndex(
            model_name="allocation",
            index=models.Index(fields=["node_name", "started_at"], name="allocation_by_node"),
        ),
        migrations.AddIndex(
            model_name="allocation",
            index=models.Index(fields=["device_name", "started_at"], name="allocation_by_device"),
        ),
    ]
