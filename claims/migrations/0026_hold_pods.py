import django.db.models.deletion
from django.db import migrations, models

CHUNK = 500
MADE = ("request.held", "request.hold-again")


def remember(apps, schema_editor):
    """Holds from before, whose uids nobody kept but the last one's: what reserved a request's own claim under
    the hold's name, where the desk has made a hold for that request (its trail says so).

    Who took that name for work of his own, and had the desk hold besides, is believed once more. That is safe
    enough: it is what such time was charged as until now, so nothing that is closed gets corrected, and it is
    decided here once for what has joined by now. A Pod that joins later is known by its uid."""
    HoldPod = apps.get_model("claims", "HoldPod")
    Request = apps.get_model("claims", "Request")
    RequestClaim = apps.get_model("claims", "RequestClaim")
    Consumer = apps.get_model("claims", "Consumer")
    AuditEntry = apps.get_model("accounts", "AuditEntry")

    def keep(found):
        HoldPod.objects.bulk_create(
            (
                HoldPod(cluster_id=cluster, pod_uid=uid, request_id=request, made=True)
                for cluster, uid, request in found
            ),
            ignore_conflicts=True,
            batch_size=CHUNK,
        )

    present = Request.objects.filter(shape="claim").exclude(hold_pod_uid="")
    keep(present.values_list("cluster_id", "hold_pod_uid", "pk"))
    shared = RequestClaim.objects.filter(pod_uid="", request__shape="claim")
    named = ("cluster_id", "claim_uid", "claim_name")
    columns = ("pk", *named, "request_id", "request__key", "request__hold_pod_uid")
    last = 0
    while rows := list(shared.filter(pk__gt=last).order_by("pk").values_list(*columns)[:CHUNK]):
        last = rows[-1][0]
        trail = AuditEntry.objects.filter(
            target_kind="request", target_id__in=[str(row[5]) for row in rows], action__in=MADE
        )
        held = set(trail.values_list("target_id", flat=True))
        holds = {
            (cluster, claim, f"{name}-hold"): request
            for _pk, cluster, claim, name, request, key, uid in rows
            if uid or str(key) in held
        }
        joined = Consumer.objects.filter(claim_uid__in={claim for _cluster, claim, _name in holds})
        keep(
            {
                (cluster, uid, holds[cluster, claim, name])
                for cluster, claim, name, uid in joined.values_list("cluster_id", "claim_uid", "name", "uid")
                if (cluster, claim, name) in holds
            }
        )


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0001_squashed_0004_notifications"),
        ("claims", "0025_allocation_of_months"),
    ]

    operations = [
        migrations.CreateModel(
            name="HoldPod",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("pod_uid", models.CharField(max_length=64)),
                ("made", models.BooleanField()),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="inventory.cluster"
                    ),
                ),
                (
                    "request",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="hold_pods", to="claims.request"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("cluster", "pod_uid"), name="one_request_per_hold_pod")
                ],
            },
        ),
        migrations.RunPython(remember, migrations.RunPython.noop),
    ]
