import django.db.models.deletion
from django.db import migrations, models

from inventory.identity import offer_of
from inventory.linking import pieces_of

RANK = {"held": 0, "partly": 1, "free": 2, "unavailable": 3}


def link(apps, schema_editor):
    """What is mirrored already: the mirror looks at a node again only when its drivers publish anew."""
    Device = apps.get_model("inventory", "Device")
    Twin = apps.get_model("inventory", "Twin")
    whole = Device.objects.exclude(profile__kind__in=("partition", "channel")).exclude(node_name="")
    several = (
        whole.order_by("cluster_id", "node_name")
        .values_list("cluster_id", "node_name")
        .annotate(models.Count("pk"))
        .filter(pk__count__gt=1)
    )
    columns = ("pk", "pool_id", "identity", "state", "pool__driver", "pool__name", "name")
    for cluster, node, _count in several.iterator():
        rows = {row[0]: row for row in whole.filter(cluster=cluster, node_name=node).values_list(*columns)}
        offers = [offer_of(row[2], driver=row[4], key=pk, pool=row[1]) for pk, row in sorted(rows.items())]
        for piece in pieces_of(offers):
            names = sorted((RANK[rows[o.key][3]], *rows[o.key][4:], o.key) for o in piece)
            if len(names) > 1:
                first = min(name[-1] for name in names)
                Twin.objects.bulk_create(
                    Twin(cluster_id=cluster, device_id=name[-1], piece=first, counts=name == names[0])
                    for name in names
                )


class Migration(migrations.Migration):
    dependencies = [
        ("inventory", "0012_containers_and_device_history"),
    ]

    operations = [
        migrations.CreateModel(
            name="Twin",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("piece", models.BigIntegerField()),
                ("counts", models.BooleanField()),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="inventory.cluster"
                    ),
                ),
                (
                    "device",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="twin", to="inventory.device"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["cluster", "piece"], name="twins_of_piece")],
            },
        ),
        migrations.RunPython(link, migrations.RunPython.noop),
    ]
