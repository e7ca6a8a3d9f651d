from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("inventory", "0011_one_index_is_enough"),
    ]

    operations = [
        migrations.AddField(
            model_name="pod",
            name="claim_uses",
            field=models.JSONField(default=list),
        ),
        migrations.AddIndex(
            model_name="observation",
            index=models.Index(
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
        ),
    ]
