from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("claims", "0012_watches_idleness_and_messages")]

    operations = [
        migrations.AddField(
            model_name="ledgercursor", name="changes", field=models.BigIntegerField(default=0)
        ),
    ]
