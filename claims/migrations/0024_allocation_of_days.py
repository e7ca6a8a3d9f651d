from django.db import migrations, models
from django.db.models import F, Q

from portal.online import AddIndexOnline


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("claims", "0023_allocation_of_no_request"),
    ]

    operations = [
        AddIndexOnline(
            model_name="allocation",
            index=models.Index(
                condition=Q(
                    ("ended_us", None), ("ended_us__gt", F("started_us") + 172800000000), _connector="OR"
                ),
                fields=["started_at"],
                name="allocation_of_days",
            ),
        ),
    ]
