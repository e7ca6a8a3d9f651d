"""Where a cluster's metrics come from: the page about it, its form with a trial, and its queries."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_safe

from inventory.models import Cluster, MetricQuery, MetricSource
from inventory.telemetry import configuring, reading
from inventory.telemetry.asking import Address
from inventory.telemetry.configuring import UnableToConfigure, WantedSource
from inventory.telemetry.defaults import DEFAULTS
from inventory.telemetry.forms import QueryForm, SourceForm
from inventory.telemetry.problems import UnableToAsk
from inventory.telemetry.showing import monitoring_of, title_of
from inventory.telemetry.trying import BAD, Asked, try_out
from portal import htmx
from portal.access import may_administer, person, require_administrator, require_reader_of_everything
from portal.accounts import audit


@require_safe
@require_reader_of_everything
def monitoring_detail(request: HttpRequest, name: str) -> HttpResponse:
    """What was read last, and all queries; where none is configured, what it would bring."""
    cluster = _cluster(name)
    found = monitoring_of(cluster, now=timezone.now())
    context = {
        "cluster": cluster,
        "monitoring": found,
        "queries": found.source.queries.order_by("position", "pk") if found else (),
        "may_administer": may_administer(person(request)),
    }
    return htmx.render(request, "inventory/monitoring_detail.html", context)


@sensitive_variables("form", "wanted", "address")
@sensitive_post_parameters("token")
@require_administrator
@require_http_methods(["GET", "HEAD", "POST"])
def monitoring_edit(request: HttpRequest, name: str) -> HttpResponse:
    """Save the source, or (``act=try``) ask it on trial and save nothing."""
    cluster = _cluster(name)
    source = MetricSource.objects.filter(cluster=cluster).first()
    posted = request.method == "POST"
    form = SourceForm(request.POST if posted else None, initial=SourceForm.initial_of(source))
    tried: list[Asked] | None = None
    if posted and form.is_valid():
        try:
            wanted = configuring.checked(form.wanted(), source=source)
            if request.POST.get("act") == "try":
                tried = _tried(cluster, source, wanted)
            else:
                configuring.save(
                    cluster=cluster,
                    wanted=wanted,
                    actor=person(request),
                    now=timezone.now(),
                    source_ip=audit.source_ip(request),
                )
                messages.success(request, _("Saved. It is asked within a minute."))
                return htmx.redirect(request, "monitoring-detail", cluster.name)
        except UnableToConfigure as refused:
            form.refuse(refused.field, refused.message)
    context = {
        "cluster": cluster,
        "form": form,
        "source": source,
        "tried": tried,
    }
    return _form_page(request, "inventory/monitoring_form.html", context, form)


@sensitive_variables("address", "wanted")
def _tried(cluster: Cluster, source: MetricSource | None, wanted: WantedSource) -> list[Asked]:
    token = wanted.token or ""
    if wanted.token is None and source is not None:
        try:
            token = reading.address_of(source).token
        except UnableToAsk as unable:
            said, cure = unable.problem.said, unable.problem.cure
            return [Asked(wanted.url, BAD, str(said), str(cure))]
    return try_out(
        cluster=cluster,
        address=Address(wanted.url, token=token, ca=wanted.ca),
        label=wanted.label,
        label_value=wanted.label_value,
        queries=queries_to_try(source),
        now=timezone.now(),
    )


def queries_to_try(source: MetricSource | None) -> Sequence[MetricQuery]:
    """Those of the source that are asked; of a new one, those that it will begin with."""
    if source is not None:
        return list(source.queries.filter(enabled=True).order_by("-kind", "position", "pk"))
    return [
        MetricQuery(
            kind=default.kind, name=str(default.name), expression=default.expression, label=default.label
        )
        for default in DEFAULTS
        if default.enabled
    ]


@require_administrator
@require_http_methods(["GET", "HEAD", "POST"])
def monitoring_remove(request: HttpRequest, name: str) -> HttpResponse:
    """Forget the source; first says what that means."""
    cluster = _cluster(name)
    source = get_object_or_404(MetricSource.objects.select_related("cluster"), cluster=cluster)
    if request.method == "POST":
        configuring.remove(
            source=source, actor=person(request), now=timezone.now(), source_ip=audit.source_ip(request)
        )
        messages.success(request, _("It is no longer asked. What was measured stays for its time."))
        return htmx.redirect(request, "monitoring-detail", cluster.name)
    context = {
        "title": _("Forget where the metrics of %(cluster)s come from") % {"cluster": cluster},
        "text": _("The desk asks %(url)s no longer.") % {"url": source.url},
        "consequences": [
            _("Its address, token and queries are forgotten."),
            _("From then on nobody knows how busy devices are; that stays a gap."),
        ],
        "submit_label": _("Forget it"),
        "cancel_url": reverse("monitoring-detail", args=[cluster.name]),
    }
    return htmx.render(request, "components/confirm.html", context)


# --- queries ----------------------------------------------------------------------------------------


@require_administrator
@require_http_methods(["GET", "HEAD", "POST"])
def monitoring_query_create(request: HttpRequest, name: str) -> HttpResponse:
    """One query more."""
    source = _source(name)
    return _query_form(request, source, None)


@require_administrator
@require_http_methods(["GET", "HEAD", "POST"])
def monitoring_query_edit(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    """Another wording, another label, or off."""
    source = _source(name)
    return _query_form(request, source, get_object_or_404(source.queries, pk=pk))


@require_administrator
@require_http_methods(["GET", "HEAD", "POST"])
def monitoring_query_remove(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    """Remove a query; first asks."""
    source = _source(name)
    query = get_object_or_404(source.queries.select_related("source__cluster"), pk=pk)
    if request.method == "POST":
        configuring.remove_query(
            query=query, actor=person(request), now=timezone.now(), source_ip=audit.source_ip(request)
        )
        messages.success(request, _("The query is removed."))
        return htmx.redirect(request, "monitoring-detail", source.cluster.name)
    context = {
        "title": _("Remove the query “%(name)s”") % {"name": title_of(query)},
        "text": _("It is no longer asked. What it measured of devices stays for its time."),
        "submit_label": _("Remove it"),
        "cancel_url": reverse("monitoring-detail", args=[source.cluster.name]),
    }
    return htmx.render(request, "components/confirm.html", context)


def _query_form(request: HttpRequest, source: MetricSource, query: MetricQuery | None) -> HttpResponse:
    posted = request.method == "POST"
    initial = QueryForm.initial_of(query) if query else {}
    form = QueryForm(request.POST if posted else None, initial=initial)
    tried: list[Asked] | None = None
    if posted and form.is_valid():
        try:
            if request.POST.get("act") == "try":
                wanted = configuring.checked_query(form.wanted(), source=source)
                tried = _tried_query(source, wanted)
            else:
                configuring.save_query(
                    source=source,
                    wanted=form.wanted(),
                    query=query,
                    actor=person(request),
                    now=timezone.now(),
                    source_ip=audit.source_ip(request),
                )
                messages.success(request, _("Saved. It is asked within a minute."))
                return htmx.redirect(request, "monitoring-detail", source.cluster.name)
        except UnableToConfigure as refused:
            form.refuse(refused.field, refused.message)
    context = {"cluster": source.cluster, "source": source, "query": query, "form": form, "tried": tried}
    return _form_page(request, "inventory/monitoring_query_form.html", context, form)


def _form_page(
    request: HttpRequest, template: str, context: Mapping[str, Any], form: SourceForm | QueryForm
) -> HttpResponse:
    """A trial is a part of the page, beside the form: what was typed, a token too, stays in the browser."""
    status = 422 if form.errors and not htmx.wants_partial(request) else 200
    return htmx.render(request, template, context, partial="trial", status=status)


def _tried_query(source: MetricSource, wanted: configuring.WantedQuery) -> list[Asked]:
    try:
        address = reading.address_of(source)
    except UnableToAsk as unable:
        return [Asked(wanted.name, BAD, str(unable.problem.said), str(unable.problem.cure))]
    query = MetricQuery(
        kind=wanted.kind,
        name=wanted.name,
        expression=wanted.expression,
        label=wanted.label,
        node_label=wanted.node_label,
    )
    return try_out(
        cluster=source.cluster,
        address=address,
        label=source.label,
        label_value=source.label_value,
        queries=[query],
        now=timezone.now(),
    )


def _source(name: str) -> MetricSource:
    rows = MetricSource.objects.select_related("cluster").defer("cluster__kubeconfig_encrypted")
    return get_object_or_404(rows, cluster__name=name)


def _cluster(name: str) -> Cluster:
    return get_object_or_404(Cluster.objects.defer("kubeconfig_encrypted"), name=name)
