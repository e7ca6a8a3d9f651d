"""Adding, checking, pausing and re-reading clusters: administrators only, by POST only."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from inventory import bindings, clusters
from inventory.forms import ClusterForm
from inventory.models import Cluster
from portal import htmx
from portal.access import person, require_administrator
from portal.accounts import audit
from portal.kube.errors import ClusterError


@sensitive_variables("form")
@sensitive_post_parameters("kubeconfig_text", "kubeconfig_file")
@require_administrator
@require_http_methods(["GET", "HEAD", "POST"])
def cluster_add(request: HttpRequest) -> HttpResponse:
    """A form; what is sent is stored only after the cluster has answered."""
    form = ClusterForm(request.POST, request.FILES) if request.method == "POST" else ClusterForm()
    if request.method == "POST" and form.is_valid():
        try:
            cluster = clusters.add(
                now=timezone.now(),
                actor=person(request),
                source_ip=audit.source_ip(request),
                **form.arguments(),
            )
        except clusters.UnableToAddCluster as refused:
            form.refuse(refused.field, refused.message)
        else:
            messages.success(
                request, _("%(cluster)s answers. Its first lists are running.") % {"cluster": cluster}
            )
            return htmx.redirect(request, "cluster-detail", cluster.name)
    status = 422 if form.is_bound else 200
    return htmx.render(request, "inventory/cluster_form.html", {"form": form}, status=status)


@require_administrator
@require_POST
def cluster_check(request: HttpRequest, name: str) -> HttpResponse:
    """Contacts the cluster now and says what it answered."""
    cluster = get_object_or_404(Cluster, name=name)
    try:
        if cluster.enabled:
            found = clusters.connect(cluster=cluster, now=timezone.now())
        else:
            # Only asked: a cluster that is not followed stays so.
            with clusters.client_for(cluster) as client:
                namespaces = bindings.namespaces_on(cluster, at=timezone.now())
                found = clusters.introduce(client, namespaces=namespaces)
    except ClusterError as error:
        if cluster.enabled:
            clusters.note_failure(cluster_id=cluster.pk, error=error)
        messages.error(request, error.message)
    else:
        if found.missing:
            said = ngettext(
                "It answers (%(version)s), but lacks %(n)s right that the desk needs.",
                "It answers (%(version)s), but lacks %(n)s rights that the desk needs.",
                len(found.missing),
            )
            messages.warning(request, said % {"version": found.version, "n": len(found.missing)})
        else:
            said = _("It answers: Kubernetes %(version)s, with all rights that the desk needs.")
            messages.success(request, said % {"version": found.version})
    return htmx.redirect(request, "cluster-detail", cluster.name)


@require_administrator
@require_POST
def cluster_switch(request: HttpRequest, name: str) -> HttpResponse:
    """Follow the cluster (``enabled=yes``) or stop following it (``enabled=no``)."""
    cluster = get_object_or_404(Cluster.objects.defer("kubeconfig_encrypted"), name=name)
    enabled = request.POST.get("enabled") == "yes"
    if enabled != cluster.enabled:
        clusters.set_enabled(
            cluster=cluster,
            enabled=enabled,
            now=timezone.now(),
            actor=person(request),
            source_ip=audit.source_ip(request),
        )
        messages.success(
            request,
            _("It is followed again.")
            if enabled
            else _("It is no longer followed. What is known of it stays."),
        )
    return htmx.redirect(request, "cluster-detail", cluster.name)


@require_administrator
@require_POST
def cluster_sync(request: HttpRequest, name: str) -> HttpResponse:
    """Has the follower list everything again."""
    cluster = get_object_or_404(Cluster.objects.defer("kubeconfig_encrypted"), name=name)
    if not cluster.enabled:
        messages.error(request, _("It is not followed: follow it again first."))
    else:
        clusters.request_sync(
            cluster=cluster,
            now=timezone.now(),
            actor=person(request),
            source_ip=audit.source_ip(request),
        )
        messages.success(request, _("Its follower lists everything again."))
    return htmx.redirect(request, "cluster-detail", cluster.name)
