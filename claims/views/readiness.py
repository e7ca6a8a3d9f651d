"""Whether a cluster is ready for production with DRA, for administrators and auditors."""

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_safe

from claims.asks.reading import WrongValue, read_text
from claims.catalogue.forms import DomainForm
from claims.readiness import notes
from claims.readiness.points import BY_CODE
from inventory.models import Cluster
from portal import csvs, htmx
from portal.access import may_administer, person, require_administrator, require_reader_of_everything
from portal.accounts.audit import source_ip


class NoteForm(DomainForm):
    note = forms.CharField(
        label=gettext_lazy("What was looked at, and what was found"),
        widget=forms.Textarea(attrs={"rows": 4, "maxlength": notes.MAX_NOTE}),
    )


@require_safe
@require_reader_of_everything
def readiness(request: HttpRequest, name: str) -> HttpResponseBase:
    """The checklist of a cluster; with `format=csv` or `format=json` as a file."""
    cluster = get_object_or_404(Cluster, name=name)
    now = timezone.now()
    points = notes.checklist(cluster, now=now)
    wanted = request.GET.get("format")
    if wanted == "csv":
        return csvs.download(f"readiness-{name}.csv", notes.COLUMNS, notes.rows(points))
    if wanted == "json":
        document = notes.document(cluster, points, now=now)
        answer = JsonResponse(document, json_dumps_params={"indent": 2, "ensure_ascii": False})
        answer["Content-Disposition"] = f'attachment; filename="readiness-{name}.json"'
        return answer
    ready = sum(judged.tone == "good" for judged in points)
    context = {
        "cluster": cluster,
        "points": points,
        "ready": ready,
        "now": now,
        "may_sign": may_administer(person(request)),
    }
    return render(request, "claims/readiness.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def readiness_sign(request: HttpRequest, name: str, point: str) -> HttpResponse:
    """Sign for a point, or take that back (`settled` = no)."""
    cluster = get_object_or_404(Cluster, name=name)
    if point not in BY_CODE:
        raise Http404
    form, status = NoteForm(values={}), 200
    if request.method == "POST":
        try:
            notes.sign(
                cluster=cluster,
                point=point,
                note=_said(request),
                settled=request.POST.get("settled") != "no",
                user=person(request),
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        except notes.UnableToSign as error:
            form, status = NoteForm(values=request.POST, errors={error.field: [error.message]}), 422
        else:
            messages.success(request, _("Kept, with your name and the time."))
            return htmx.redirect(request, "cluster-readiness", name)
    judged = notes.judged(cluster, BY_CODE[point], now=timezone.now())
    context = {"cluster": cluster, "judged": judged, "form": form, "history": notes.history(cluster, point)}
    return render(request, "claims/readiness_sign.html", context, status=status)


def _said(request: HttpRequest) -> str:
    try:
        return read_text(request.POST, "note", limit=notes.MAX_NOTE)
    except WrongValue as error:
        raise notes.UnableToSign("note", str(error)) from error
