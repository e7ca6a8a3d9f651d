"""Observations that have been moved out of the database: which files hold them, and of which objects."""

from typing import ClassVar

from django.db import models

from inventory.models.clusters import Cluster


class ObservationArchive(models.Model):
    """One Parquet file of observations. Written once; what is in it is told by its hash."""

    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="observation_archives")
    # The month (UTC) in which the objects in it were last heard of: "2026-09"; and its number within it.
    month = models.CharField(max_length=7)
    part = models.IntegerField()
    # Relative to the directory of archives.
    file_name = models.CharField(max_length=255, unique=True)
    size = models.BigIntegerField()
    sha256 = models.CharField(max_length=64)
    rows = models.BigIntegerField()
    objects_count = models.BigIntegerField()
    # Version of the schema, see docs/ledger.md.
    schema = models.IntegerField()
    written_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "month", "part"], name="one_archive_per_part")
        ]

    def __str__(self) -> str:
        return self.file_name


class ArchivedObject(models.Model):
    """That a file holds observations of one claim or Pod; a late observation of it is read together with
    those."""

    archive = models.ForeignKey(ObservationArchive, models.CASCADE, related_name="objects_in")
    uid = models.CharField(max_length=64, db_index=True)
    # The last allocation of a claim: should it come back, it goes on counting.
    epoch = models.IntegerField(default=0)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["archive", "uid"], name="archived_object_natural_key")
        ]

    def __str__(self) -> str:
        return self.uid
