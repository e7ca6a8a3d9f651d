"""Platform contracts: what each cluster should run, what it runs, and when that changed."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_safe

from inventory import contract
from inventory.coverage import coverage_of, coverage_of_all
from inventory.models import Cluster, PlatformChange, PlatformContract
from portal import htmx
from portal.access import may_administer, person, require_administrator, require_reader_of_everything
from portal.accounts import audit

CHANGES_PER_PAGE = 25
STATES = (contract.BROKEN, contract.NOT_OBSERVED, contract.MET)


@require_safe
@require_reader_of_everything
def contract_list(request: HttpRequest) -> HttpResponse:
    """Every cluster with how far its contract is met, as last observed; a fixed number of queries."""
    latest: dict[int, dict[str, dict[str, int]]] = {}
    changes = PlatformChange.objects.order_by("seen_at", "pk").values_list("cluster_id", "part", "after")
    for cluster, part, versions in changes:
        latest.setdefault(cluster, {})[part] = dict.fromkeys(versions, 0)
    contracts = {found.cluster_id: found for found in PlatformContract.objects.all()}
    rows = []
    for pk, coverage in coverage_of_all(now=timezone.now()).items():
        parts = contract.compare(contracts.get(pk), latest.get(pk, {}))
        state = next((s for s in STATES if any(p.expected and p.state == s for p in parts)), contract.FREE)
        rows.append(
            {
                "cluster": coverage.cluster,
                "coverage": coverage,
                "contract": contracts.get(pk),
                "state": state,
                "state_label": contract.STATE_LABELS[state],
                "off": [p for p in parts if p.state == contract.BROKEN],
            }
        )
    return htmx.render(request, "inventory/contract_list.html", {"rows": rows})


@require_safe
@require_reader_of_everything
def contract_detail(request: HttpRequest, name: str) -> HttpResponse:
    """Expected against observed, part by part, and the history of what was observed."""
    cluster = _cluster(name)
    found = PlatformContract.objects.filter(cluster=cluster).select_related("changed_by").first()
    group = found.group if found else ""
    others = PlatformContract.objects.filter(group=group).exclude(group="").exclude(cluster=cluster)
    changes = PlatformChange.objects.filter(cluster=cluster).order_by("-seen_at", "-pk")
    page = Paginator(changes, CHANGES_PER_PAGE).get_page(request.GET.get("page"))
    context = {
        "cluster": cluster,
        "coverage": coverage_of(cluster, cluster.streams.all(), now=timezone.now()),
        "contract": found,
        "parts": contract.compare(found, contract.observe(cluster)),
        "others": list(others.order_by("cluster__name").values_list("cluster__name", flat=True)),
        "page": page,
        "changes": [(change, contract.part_label(change.part)) for change in page.object_list],
        "may_administer": may_administer(person(request)),
    }
    return htmx.render(request, "inventory/contract_detail.html", context)


class ContractForm(forms.Form):
    """The terms of a contract as text."""

    _plain: Mapping[str, str] = {"autocomplete": "off", "spellcheck": "false"}

    kubernetes = forms.CharField(
        label=gettext_lazy("Kubernetes (API server)"),
        max_length=contract.MAX_RANGE,
        required=False,
        help_text=gettext_lazy("For example >=1.35 <1.37, or 1.36 for every 1.36.x. Empty: anything goes."),
        widget=forms.TextInput(attrs=dict(_plain)),
    )
    kubelet = forms.CharField(
        label=gettext_lazy("Kubelets"),
        max_length=contract.MAX_RANGE,
        required=False,
        widget=forms.TextInput(attrs=dict(_plain)),
    )
    runtime = forms.CharField(
        label=gettext_lazy("Container runtimes"),
        max_length=contract.MAX_RANGE,
        required=False,
        help_text=gettext_lazy("May name the runtime: containerd >=2.0 || cri-o >=1.34."),
        widget=forms.TextInput(attrs=dict(_plain)),
    )
    drivers = forms.CharField(
        label=gettext_lazy("Drivers"),
        max_length=contract.MAX_DRIVERS * 300,
        required=False,
        help_text=gettext_lazy("One a line: the driver's name, a colon, a range."),
        widget=forms.Textarea(attrs={"rows": 5, "class": "cd-mono", "spellcheck": "false"}),
    )
    group = forms.CharField(
        label=gettext_lazy("Group"),
        max_length=63,
        required=False,
        help_text=gettext_lazy("Clusters of one group are expected to have the same device classes."),
        widget=forms.TextInput(attrs={**_plain, "list": "groups"}),
    )

    def clean_drivers(self) -> dict[str, str]:
        """Driver → range."""
        found: dict[str, str] = {}
        for number, line in enumerate(self.cleaned_data["drivers"].splitlines(), 1):
            if not line.strip():
                continue
            driver, colon, text = (part.strip() for part in line.partition(":"))
            if not colon or not driver or not text:
                raise forms.ValidationError(
                    _("Line %(line)d: write a driver, a colon and a range, such as gpu.nvidia.com: >=580.")
                    % {"line": number}
                )
            if driver in found:
                raise forms.ValidationError(
                    _("Line %(line)d: %(driver)s is there twice.") % {"line": number, "driver": driver[:63]}
                )
            found[driver] = text
        return found

    def terms(self) -> contract.Terms:
        """What `inventory.contract.save` is asked for."""
        return contract.Terms(**self.cleaned_data)


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def contract_edit(request: HttpRequest, name: str) -> HttpResponse:
    """Write or change the contract of one cluster."""
    cluster = _cluster(name)
    found = PlatformContract.objects.filter(cluster=cluster).first()
    form = ContractForm(request.POST if request.method == "POST" else None, initial=_initial(found))
    if request.method == "POST" and form.is_valid():
        try:
            contract.save(
                cluster=cluster,
                terms=form.terms(),
                actor=person(request),
                now=timezone.now(),
                source_ip=audit.source_ip(request),
            )
        except contract.UnableToSaveContract as refused:
            form.add_error(refused.field, refused.message)
        else:
            return htmx.redirect(request, "contract-detail", cluster.name)
    context = {
        "cluster": cluster,
        "form": form,
        "observed": [part for part in contract.compare(None, contract.observe(cluster)) if part.observed],
        "groups": PlatformContract.objects.exclude(group="")
        .order_by("group")
        .values_list("group", flat=True)
        .distinct(),
    }
    return htmx.render(request, "inventory/contract_form.html", context, status=422 if form.errors else 200)


def _initial(found: PlatformContract | None) -> dict[str, Any]:
    terms = contract.terms_of(found)
    drivers = terms.drivers or {}
    return {
        "group": terms.group,
        "kubernetes": terms.kubernetes,
        "kubelet": terms.kubelet,
        "runtime": terms.runtime,
        "drivers": "\n".join(f"{driver}: {text}" for driver, text in sorted(drivers.items())),
    }


def _cluster(name: str) -> Cluster:
    return get_object_or_404(Cluster.objects.defer("kubeconfig_encrypted"), name=name)
