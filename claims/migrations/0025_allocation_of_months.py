from django.db import migrations, models
from django.db.models import F, Q

from portal.online import AddIndexOnline


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("claims", "0024_allocation_of_days"),
    ]

    operations = [
        AddIndexOnline(
            model_name="allocation",
            index=models.Index(
                condition=Q(
                    ("ended_us", None), ("ended_us__gt", F("started_us") + 2592000000000), _connector="OR"
                ),
                fields=["started_at"],
                name="allocation_of_months",
            ),
        ),
    ]
