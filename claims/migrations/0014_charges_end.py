from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("claims", "0013_ledger_changes")]

    operations = [
        migrations.RemoveConstraint(model_name="charge", name="charge_not_negative"),
        migrations.AlterField(
            model_name="charge", name="ended_us", field=models.BigIntegerField(), preserve_default=True
        ),
        migrations.AddConstraint(
            model_name="charge",
            constraint=models.CheckConstraint(
                condition=models.Q(("ended_us__gte", models.F("started_us"))), name="charge_not_negative"
            ),
        ),
    ]
