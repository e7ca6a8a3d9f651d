"""The page of the export as FOCUS: which version, months and project; what is in the file; the file."""

from decimal import Decimal
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from claims.focus import files
from claims.focus.columns import VERSIONS
from claims.focus.dataset import Dataset
from claims.focus.download import asked, download
from claims.focus.metadata import metadata
from portal import access, htmx
from portal.access import person
from portal.accounts.models import Project

# Invoices that the page tells one by one.
SHOWN = 200


@require_safe
def focus_page(request: HttpRequest) -> HttpResponse:
    """What would be in a file, and where to get it."""
    user = person(request)
    dataset = asked(request.GET, viewer=user)
    wanted = dataset.wanted
    context: dict[str, Any] = {
        "wanted": wanted,
        "errors": wanted.errors,
        "typed": {
            "period": request.GET.get("period", str(wanted.months[0]))[:40],
            "through": request.GET.get("through", "")[:40],
        },
        "versions": VERSIONS,
        "projects": Project.objects.all().visible_to(user).order_by("name"),
        "sees_all": access.may_see_costs_of_all(user),
    }
    if not wanted.errors:
        context |= _told(dataset)
    return htmx.render(request, "claims/focus.html", context, partial="file")


@require_safe
def focus_file(request: HttpRequest) -> HttpResponseBase:
    """The file in a `format`, or its metadata as JSON."""
    form = request.GET.get("format", "csv")
    if form not in (*files.FORMATS, "json"):
        raise Http404
    dataset = asked(request.GET, viewer=person(request))
    if dataset.wanted.errors:
        return htmx.redirect(request, f"{reverse('focus')}?{urlencode(request.GET)}")
    if form == "json":
        name = f"{dataset.wanted.name}.metadata.json"
        told = JsonResponse(metadata(dataset), json_dumps_params={"indent": 1})
        told["Content-Disposition"] = f'attachment; filename="{name}"'
        return told
    return download(dataset, form)


def _told(dataset: Dataset) -> dict[str, Any]:
    wanted, told = dataset.wanted, metadata(dataset)
    query = {
        "version": wanted.version, "period": str(wanted.months[0]), "through": str(wanted.months[-1]),
        "project": wanted.project,
    }  # fmt: skip
    asked_for = urlencode({name: value for name, value in query.items() if value})
    (recency,) = told["Recency"]
    return {
        "rows": told["x_Rows"],
        "invoices": [_amount(one) for one in told["x_Invoices"][:SHOWN]],
        "invoice_count": len(told["x_Invoices"]),
        "provisional": [_amount(one) for one in told["x_Provisional"]],
        "months": [
            {"month": str(month), "complete": sector["TimeSectorComplete"]}
            for month, sector in zip(wanted.months, recency["TimeSectors"], strict=True)
        ],
        "complete": recency["DatasetInstanceComplete"],
        "name": wanted.name,
        "query": asked_for,
        "call": f"GET {reverse('api-focus')}?{asked_for}&format=parquet",
    }


def _amount(one: dict[str, str]) -> dict[str, Any]:
    return {
        "invoice": one.get("InvoiceId", ""),
        "currency": one["BillingCurrency"],
        "amount": Decimal(one["BilledCost"]),
    }
