"""Node pools that can grow, for administrators: what their further nodes would bring."""

from itertools import groupby

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_safe

from claims.catalogue import growable
from claims.catalogue.forms import DomainForm
from claims.catalogue.growable import UnableToChangePool
from claims.catalogue.growth import Growth, nodes_of
from claims.models import GrowablePool
from inventory.autoscaling.told import of_row, report_for
from inventory.models import AutoscalerReport, Cluster, CountedUnits, DeviceClass
from portal import htmx
from portal.access import may_administer, person, require_administrator, require_reader_of_everything
from portal.accounts.audit import source_ip

_PLAIN = {"autocomplete": "off", "spellcheck": "false"}


class PoolForm(DomainForm):
    version = forms.CharField(widget=forms.HiddenInput, required=False)
    cluster = forms.CharField(label=gettext_lazy("Cluster"), widget=forms.Select)
    name = forms.CharField(label=gettext_lazy("Node pool"), widget=forms.TextInput(attrs=_PLAIN))
    labels = forms.CharField(
        label=gettext_lazy("Labels of its nodes"),
        help_text=gettext_lazy("One a line, as name=value: by them the nodes that are there are counted."),
        widget=forms.Textarea(attrs={"rows": 2, "class": "cd-mono", "spellcheck": "false"}),
    )
    max_nodes = forms.CharField(
        label=gettext_lazy("Nodes, at most"),
        widget=forms.NumberInput(attrs={"min": 1, "max": growable.MAX_NODES, "inputmode": "numeric"}),
    )
    devices = forms.CharField(
        label=gettext_lazy("Devices of each node"),
        widget=forms.NumberInput(attrs={"min": 1, "max": growable.MAX_DEVICES, "inputmode": "numeric"}),
    )
    device_class = forms.CharField(
        label=gettext_lazy("Their DeviceClass"),
        required=False,
        widget=forms.TextInput(attrs=_PLAIN | {"list": "device-classes"}),
    )
    extended_resource = forms.CharField(
        label=gettext_lazy("Or the resource of a Device Plugin"),
        required=False,
        help_text=gettext_lazy("As nodes advertise it, such as nvidia.com/gpu."),
        widget=forms.TextInput(attrs=_PLAIN | {"list": "extended-resources"}),
    )
    product = forms.CharField(label=gettext_lazy("Product"), required=False)
    memory = forms.CharField(
        label=gettext_lazy("Memory of each device"),
        required=False,
        help_text=gettext_lazy("Such as 80Gi; without it, the pool serves nobody who asks for memory."),
        widget=forms.TextInput(attrs=_PLAIN | {"maxlength": 32}),
    )
    domain = forms.CharField(
        label=gettext_lazy("Domain of their attributes"),
        required=False,
        help_text=gettext_lazy("Mostly the name of the driver, such as gpu.nvidia.com."),
        widget=forms.TextInput(attrs=_PLAIN | {"maxlength": 63}),
    )
    note = forms.CharField(
        label=gettext_lazy("Note"),
        required=False,
        help_text=gettext_lazy("Shown to who asks, such as how long a node takes to come."),
        widget=forms.Textarea(attrs={"rows": 2, "maxlength": 500}),
    )


@require_safe
@require_reader_of_everything
def pool_list(request: HttpRequest) -> HttpResponse:
    """What is said of pools, and how many of their nodes are there."""
    rows = list(
        GrowablePool.objects.select_related("cluster", "changed_by").order_by("cluster__name", "name", "pk")
    )
    counted = nodes_of(rows) if rows else {}
    now = timezone.now()
    told = list(AutoscalerReport.objects.select_related("cluster").order_by("cluster__name", "source"))
    reports = {
        cluster: [report for row in rows_ for report in of_row(row) if report.fresh(now)]
        for cluster, rows_ in groupby(
            (row for row in told if row.state == AutoscalerReport.State.KNOWN), key=lambda row: row.cluster_id
        )
    }
    context = {
        "rows": [
            Growth(
                pool=row,
                nodes=counted[row.pk],
                report=report_for(row.name, row.labels, reports.get(row.cluster_id, [])),
            )
            for row in rows
        ],
        "autoscalers": [(row, of_row(row)) for row in told if row.state != AutoscalerReport.State.ABSENT],
        "may_administer": may_administer(person(request)),
    }
    return render(request, "claims/pool_list.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def pool_create(request: HttpRequest) -> HttpResponse:
    """Say of a pool that it can grow."""
    return _page(request, None)


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def pool_edit(request: HttpRequest, pk: int) -> HttpResponse:
    """Say it anew."""
    return _page(request, get_object_or_404(GrowablePool.objects.select_related("cluster"), pk=pk))


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def pool_remove(request: HttpRequest, pk: int) -> HttpResponse:
    """No longer say it, after a page that asks."""
    pool = get_object_or_404(GrowablePool.objects.select_related("cluster"), pk=pk)
    if request.method == "POST":
        growable.remove(pool=pool, user=person(request), now=timezone.now(), source_ip=source_ip(request))
        messages.success(request, _("Removed."))
        return htmx.redirect(request, "growable-pool-list")
    context = {
        "title": _("Remove %(name)s?") % {"name": pool.name},
        "text": _("Who asks for what is not there is no longer told that this node pool can grow."),
        "submit_label": _("Remove"),
        "cancel_url": reverse("growable-pool-list"),
    }
    return render(request, "components/confirm.html", context)


def _page(request: HttpRequest, pool: GrowablePool | None) -> HttpResponse:
    status = 200
    form = PoolForm(values=_values(pool))
    if request.method == "POST":
        try:
            growable.save(
                pool=pool,
                terms=growable.read_pool(request.POST),
                user=person(request),
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        except UnableToChangePool as error:
            form = PoolForm(values=request.POST, errors=error.errors)
            status = 422
        else:
            messages.success(request, _("Saved."))
            return htmx.redirect(request, "growable-pool-list")
    clusters = Cluster.objects.order_by("name").values_list("name", flat=True)
    widget = form.fields["cluster"].widget
    assert isinstance(widget, forms.Select)
    widget.choices = [(name, name) for name in clusters]
    context = {
        "form": form,
        "pool": GrowablePool.objects.get(pk=pool.pk) if pool is not None else None,
        "device_classes": DeviceClass.objects.order_by("name").values_list("name", flat=True).distinct(),
        "extended_resources": CountedUnits.objects.order_by("resource")
        .values_list("resource", flat=True)
        .distinct(),
    }
    return render(request, "claims/pool_form.html", context, status=status)


def _values(pool: GrowablePool | None) -> dict[str, object]:
    if pool is None:
        return {"devices": "8", "max_nodes": "1"}
    labels = "\n".join(f"{name}={value}" for name, value in pool.labels.items())
    return growable.as_dict(pool) | {"labels": labels}
