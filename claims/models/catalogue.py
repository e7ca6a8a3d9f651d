"""The catalogue: flavors that researchers ask for, and where and how each is served."""

from typing import ClassVar

from django.contrib.auth.models import Group
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from inventory.models import Cluster
from portal.accounts.models import Membership, Project, User


class FlavorQuerySet(models.QuerySet["Flavor"]):
    def visible_to(self, user: User) -> "FlavorQuerySet":
        """Flavors that `user` finds in the catalogue; administrators and auditors see all, archived ones
        too."""
        if not user.is_active:
            return self.none()
        if user.is_administrator or user.is_auditor:
            return self
        own = Membership.objects.filter(user=user)
        seen = Q(visibility=Flavor.Visibility.ALL)
        seen |= Q(visibility=Flavor.Visibility.PROJECTS, projects__in=own.values("project"))
        seen |= Q(visibility=Flavor.Visibility.GROUPS, groups__in=user.groups.values("pk"))
        if own.filter(role=Membership.Role.LEAD).exists():
            seen |= Q(visibility=Flavor.Visibility.LEADS)
        # A subquery instead of distinct(): the joins may give a flavor several times.
        return self.filter(
            pk__in=Flavor.objects.filter(seen, archived_at=None).values("pk"), archived_at=None
        )

    def offered(self) -> "FlavorQuerySet":
        """Those that can be asked for."""
        return self.filter(archived_at=None)


class Flavor(models.Model):
    """A catalogue entry: what it is called and offers, how much of it one request may ask for, and who
    may."""

    class Visibility(models.TextChoices):
        ALL = "all", _("everybody")
        PROJECTS = "projects", _("chosen projects")
        LEADS = "leads", _("leads, for their projects")
        GROUPS = "groups", _("chosen groups of people")
        ADMINISTRATORS = "administrators", _("administrators only")

    class Approval(models.TextChoices):
        NONE = "none", _("none, within the quota")
        LEAD = "lead", _("a lead of the project")
        ADMINISTRATOR = "administrator", _("an administrator")
        BOTH = "both", _("a lead and an administrator")

    slug = models.SlugField(max_length=63, unique=True)
    name = models.CharField(max_length=120, unique=True)
    description = models.CharField(max_length=1000, blank=True)
    # What it gives, one point a line.
    offers = models.CharField(max_length=1000, blank=True)
    # One of `claims.catalogue.icons.ICONS`.
    icon = models.CharField(max_length=40, default="cpu")
    position = models.PositiveIntegerField(default=0)

    min_count = models.PositiveIntegerField(default=1)
    default_count = models.PositiveIntegerField(default=1)
    max_count = models.PositiveIntegerField(default=8)
    # Kubernetes quantities per device; "" = no bound, or any.
    min_memory = models.CharField(max_length=32, blank=True)
    default_memory = models.CharField(max_length=32, blank=True)
    max_memory = models.CharField(max_length=32, blank=True)
    min_duration = models.DurationField()
    default_duration = models.DurationField()
    max_duration = models.DurationField()

    visibility = models.CharField(max_length=14, choices=Visibility.choices, default=Visibility.ALL)
    projects = models.ManyToManyField(Project, related_name="+", blank=True)
    groups = models.ManyToManyField(Group, related_name="+", blank=True)
    approval = models.CharField(max_length=14, choices=Approval.choices, default=Approval.NONE)
    # Whether somebody may decide about a request of their own.
    own_approval = models.BooleanField(default=False)
    # After so many hours without any Pod but the hold's, its people are reminded (0 = never), and, if so, the
    # device is given back.
    idle_hours = models.PositiveIntegerField(default=0)
    idle_release = models.BooleanField(default=False)

    # How many days ahead it can be booked; 0 = not at all.
    bookable_days = models.PositiveIntegerField(default=28)
    # Whether a request that would run into a booking is refused, not only warned.
    bookings_kept = models.BooleanField(default=False)

    # Whether Pods that still use it when a request ends are deleted; else they keep it until they end.
    ends_pods = models.BooleanField(default=False)
    # Whether the hold goes as soon as a Pod of people has joined: then the device is theirs until they end.
    hold_steps_aside = models.BooleanField(default=False)
    # What hold Pods of this flavor run as; "" = as the desk's settings say.
    hold_image = models.CharField(max_length=255, blank=True)
    hold_pull_secret = models.CharField(max_length=253, blank=True)
    hold_priority_class = models.CharField(max_length=253, blank=True)
    # Beside those of the placement, as in the API.
    hold_tolerations = models.JSONField(default=list)

    # Counts the changes of the flavor and its placements: who saves an older one is told of the conflict.
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    changed_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    archived_at = models.DateTimeField(null=True, blank=True)

    objects = FlavorQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(min_count__gte=1)
                & Q(default_count__gte=models.F("min_count"))
                & Q(max_count__gte=models.F("default_count")),
                name="flavor_counts_in_order",
            ),
            models.CheckConstraint(
                condition=Q(default_duration__gte=models.F("min_duration"))
                & Q(max_duration__gte=models.F("default_duration")),
                name="flavor_durations_in_order",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Placement(models.Model):
    """How one cluster (or one node pool of it) serves a flavor: by DRA, by a Device Plugin, or by both
    while it migrates; `claims.catalogue.backends` chooses."""

    class Stage(models.TextChoices):
        AUTOMATIC = "automatic", _("as the conditions say")
        PLUGIN = "device-plugin", _("Device Plugin, whatever the conditions say")
        DRA = "dra", _("DRA, whatever the conditions say")

    flavor = models.ForeignKey(Flavor, models.CASCADE, related_name="placements")
    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+")
    # What people call the node pool; "" = the whole cluster.
    pool = models.CharField(max_length=63, blank=True)
    position = models.PositiveIntegerField(default=0)
    # Labels of the pool's nodes, and tolerations of Pods for their taints, as in the API.
    node_selector = models.JSONField(default=dict)
    tolerations = models.JSONField(default=list)

    # DRA; device_class "" = not offered that way.
    device_class = models.CharField(max_length=253, blank=True)
    selectors = models.JSONField(default=list)
    # As devices.config of a claim, without `requests`: [{"opaque": {"driver", "parameters"}}].
    config = models.JSONField(default=list)
    device_tolerations = models.JSONField(default=list)

    # Device Plugin; extended_resource "" = not offered that way.
    extended_resource = models.CharField(max_length=317, blank=True)

    # Conditions under which DRA is used where both are offered; version ranges as in `inventory.contract`.
    stage = models.CharField(max_length=14, choices=Stage.choices, default=Stage.AUTOMATIC)
    kubernetes = models.CharField(max_length=200, blank=True)
    driver = models.CharField(max_length=63, blank=True)
    driver_versions = models.CharField(max_length=200, blank=True)
    runtime = models.CharField(max_length=200, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["flavor", "cluster", "pool"], name="one_placement_per_pool"),
            models.CheckConstraint(
                condition=~Q(device_class="", extended_resource=""), name="placement_serves_somehow"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.flavor} on {self.cluster}{f' ({self.pool})' if self.pool else ''}"
