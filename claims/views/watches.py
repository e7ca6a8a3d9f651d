"""“Tell me when one is free”."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from claims.models import Flavor, Watch
from claims.waiting import watches
from inventory.models import Cluster, DeviceClass
from portal import htmx, texts
from portal.access import person
from portal.accounts.audit import source_ip


class WatchForm(forms.Form):
    count = forms.IntegerField(
        label=gettext_lazy("How many"), min_value=1, max_value=watches.MOST_COUNT, initial=1
    )
    days = forms.IntegerField(
        label=gettext_lazy("For how many days to wait"),
        min_value=1,
        max_value=watches.MOST_DAYS,
        initial=watches.DAYS,
    )


@require_http_methods(["GET", "HEAD", "POST"])
def watch_create(request: HttpRequest) -> HttpResponse:
    """Of a `flavor`, or of a `device_class` on a `cluster`. What other forms send along is left aside, so
    that their buttons can lead here; to htmx the answer is a word in the button's place."""
    user, sent = person(request), request.POST if request.method == "POST" else request.GET
    target = _target(request, sent)
    values = {"count": sent.get("count") or "1", "days": sent.get("days") or str(watches.DAYS)}
    form = WatchForm(values if request.method == "POST" else None, initial=values)
    if request.method == "POST" and form.is_valid():
        try:
            watches.watch(
                person=user, now=timezone.now(), source_ip=source_ip(request), **target, **form.cleaned_data
            )
        except watches.UnableToWatch as unable:
            form.add_error(unable.field or None, unable.message)
        else:
            if htmx.wants_partial(request):
                return render(request, "claims/_watching.html")
            messages.success(request, _("You will be told as soon as it is free."))
            return htmx.redirect(request, "notification-list")
    if htmx.wants_partial(request):
        return render(request, "claims/_watching.html", {"form": form})
    context = {"form": form, **target}
    return htmx.render(request, "claims/watch_form.html", context, status=422 if form.errors else 200)


@require_POST
def watch_cancel(request: HttpRequest, pk: int) -> HttpResponse:
    """Of one's own."""
    found = get_object_or_404(
        Watch.objects.select_related("person", "flavor", "cluster"), pk=pk, person=person(request)
    )
    watches.cancel(watch=found, now=timezone.now(), source_ip=source_ip(request))
    messages.success(request, _("You no longer wait for it."))
    return htmx.redirect(request, "notification-list")


def _target(request: HttpRequest, sent: Any) -> dict[str, Any]:
    """What is waited for; Http404 where the person does not find it in the catalogue or on the cluster."""
    slug = texts.searched(sent.get("flavor", ""), limit=63)
    if slug:
        flavor = Flavor.objects.visible_to(person(request)).filter(slug=slug, archived_at=None).first()
        if flavor is None:
            raise Http404
        return {"flavor": flavor}
    cluster = Cluster.objects.filter(name=texts.searched(sent.get("cluster", ""), limit=63)).first()
    name = texts.searched(sent.get("device_class", ""), limit=253)
    if cluster is None or not DeviceClass.objects.filter(cluster=cluster, name=name).exists():
        raise Http404
    return {"cluster": cluster, "device_class": name}
