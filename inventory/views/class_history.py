"""The versions of a DeviceClass: what changed, by whom and why; back to one of them; what changed without the
desk."""

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from inventory import class_history as history
from inventory import classes
from inventory.class_effect import effect_of
from inventory.models import ClassVersion, Cluster, DeviceClass
from portal import htmx
from portal.access import may_administer, person, require_administrator, require_reader_of_everything
from portal.accounts import audit

# Nobody compares more at a glance.
SHOWN = 50


class RestoreForm(forms.Form):
    """Why, and over which resourceVersion ("" = there is no class)."""

    reason = forms.CharField(label=gettext_lazy("Why"), max_length=history.MAX_REASON, required=False)
    seen_version = forms.CharField(max_length=63, required=False, widget=forms.HiddenInput)


@require_reader_of_everything
@require_safe
def class_versions(request: HttpRequest, cluster: str, name: str) -> HttpResponse:
    """All versions, newest first, each with its difference from the one before."""
    found, current = _cluster(cluster), _current(cluster, name)
    versions = ClassVersion.objects.filter(cluster=found, name=name).select_related("actor").order_by("-pk")
    rows = list(versions[: SHOWN + 1])
    if not rows and current is None:
        raise Http404
    older = [*rows[1:], None]
    context = {
        "cluster": found,
        "name": name,
        "class": current,
        "rows": [
            (version, history.diff(history.told(before), history.told(version)))
            for version, before in zip(rows[:SHOWN], older, strict=False)
        ],
        "more": len(rows) > SHOWN,
        "drift": history.drift_of(found, name),
        "may_administer": may_administer(person(request)),
    }
    return htmx.render(request, "inventory/class_versions.html", context)


@require_administrator
@require_http_methods(["GET", "HEAD", "POST"])
def class_restore(request: HttpRequest, cluster: str, name: str, version: int) -> HttpResponse:
    """Make a class what it was in one version: the effect first, then a rehearsal, then the change."""
    found, current = _cluster(cluster), _current(cluster, name)
    wanted = get_object_or_404(ClassVersion, cluster=found, name=name, pk=version)
    seen = current.resource_version if current else ""
    form = RestoreForm(request.POST or None, initial={"seen_version": seen})
    error, status = "", 200
    if request.method == "POST" and form.is_valid():
        rehearsal = "rehearse" in request.POST
        try:
            classes.restore_class(
                cluster=found,
                name=name,
                spec=wanted.spec,
                labels=wanted.labels,
                annotations=wanted.annotations,
                seen_version=form.cleaned_data["seen_version"],
                actor=person(request),
                now=timezone.now(),
                reason=form.cleaned_data["reason"],
                source_ip=audit.source_ip(request),
                rehearse_only=rehearsal,
            )
        except classes.UnableToChangeClass as refused:
            error, status = refused.message, 422
            # What is shown now is what the next attempt is about.
            form = RestoreForm(initial={"reason": form.cleaned_data["reason"], "seen_version": seen})
        else:
            if not rehearsal:
                said = _("%(cluster)s has taken the change of %(name)s. This page follows within seconds.")
                messages.success(request, said % {"cluster": found.name, "name": name})
                return htmx.redirect(request, "class-versions", found.name, name)
            messages.success(request, _("The cluster would take it as it is. Nothing is changed yet."))
    before = current.spec if current else None
    # What a version does not tell of labels stays as it is.
    now = None
    then = history.whole(wanted.spec, wanted.labels, wanted.annotations)
    if current is not None:
        now = history.whole(
            current.spec,
            current.labels if wanted.labels is not None else None,
            history.own_annotations(current.annotations) if wanted.annotations is not None else None,
        )
    context = {
        "cluster": found,
        "name": name,
        "version": wanted,
        "class": current,
        "form": form,
        "error": error,
        "same": now == then,
        "diff": history.diff(now, then),
        "effect": effect_of(cluster=found, name=name, before=before, after=wanted.spec),
    }
    return htmx.render(request, "inventory/class_restore.html", context, status=status)


@require_administrator
@require_POST
def class_adopt(request: HttpRequest, cluster: str, name: str, version: int) -> HttpResponse:
    """Agree with what was changed without the desk."""
    found = _cluster(cluster)
    try:
        history.adopt(
            cluster=found,
            name=name,
            version=version,
            actor=person(request),
            now=timezone.now(),
            source_ip=audit.source_ip(request),
        )
    except history.UnableToAdopt as refused:
        messages.error(request, refused.message)
    else:
        messages.success(request, _("%(name)s is adopted as it is.") % {"name": name})
    return htmx.redirect(request, "class-versions", found.name, name)


def _cluster(name: str) -> Cluster:
    return get_object_or_404(Cluster, name=name)


def _current(cluster: str, name: str) -> DeviceClass | None:
    return DeviceClass.objects.filter(cluster__name=cluster, name=name).first()
