"""Creating, changing and deleting DeviceClasses: administrators only, rehearsed by the cluster first."""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from inventory import classes, describe
from inventory.class_users import flavors_of, users_of
from inventory.expressions import place_of
from inventory.forms import ClassForm, DeleteClassForm
from inventory.models import Cluster, DeviceClass
from inventory.views.classes import manifest_of, selectors_of
from portal import htmx
from portal.access import person, require_administrator
from portal.accounts import audit
from portal.texts import searched

USERS_NAMED = 50
# Who keeps a class in step with files of their own, by its usual label.
MANAGED_BY = "app.kubernetes.io/managed-by"


@require_administrator
@require_http_methods(["GET", "HEAD", "POST"])
def class_create(request: HttpRequest) -> HttpResponse:
    """A new class on one cluster."""
    names = list(Cluster.objects.filter(enabled=True).order_by("name").values_list("name", flat=True))
    initial = {"cluster": request.GET.get("cluster", "")}
    form = ClassForm(request.POST or None, clusters=names, initial=initial)
    if request.method == "POST" and "more" not in request.POST and form.is_valid():
        cluster = get_object_or_404(Cluster, name=form.cleaned_data["cluster"])
        rehearsal = "rehearse" in request.POST
        try:
            classes.create_class(
                cluster=cluster,
                name=form.cleaned_data["name"],
                wanted=form.wanted(),
                reason=form.cleaned_data["reason"],
                actor=person(request),
                now=timezone.now(),
                source_ip=audit.source_ip(request),
                rehearse_only=rehearsal,
            )
        except classes.UnableToChangeClass as refused:
            form.refuse(refused.field, refused.message)
        else:
            if not rehearsal:
                said = _("%(name)s is created on %(cluster)s. It is listed as soon as the mirror sees it.")
                messages.success(request, said % {"name": form.cleaned_data["name"], "cluster": cluster})
                return htmx.redirect(request, "class-list")
            messages.success(request, _("The cluster would take it as it is. Nothing is created yet."))
    return _form(request, form)


@require_administrator
@require_http_methods(["GET", "HEAD", "POST"])
def class_edit(request: HttpRequest, cluster: str, name: str) -> HttpResponse:
    """Change a class; a change by somebody else meanwhile is shown, and nothing typed is lost."""
    found = _class(cluster, name)
    form = ClassForm(request.POST or None, clusters=[cluster], fixed=True, initial=_initial(found))
    conflict = False
    if request.method == "POST" and "more" not in request.POST and form.is_valid():
        rehearsal = "rehearse" in request.POST
        seen = request.POST.get("over") or form.cleaned_data["seen_version"]
        try:
            classes.update_class(
                cluster=found.cluster,
                name=name,
                wanted=form.wanted(),
                reason=form.cleaned_data["reason"],
                actor=person(request),
                now=timezone.now(),
                seen_version=seen,
                source_ip=audit.source_ip(request),
                rehearse_only=rehearsal,
            )
        except classes.UnableToChangeClass as refused:
            form.refuse(refused.field, refused.message)
            conflict = not refused.field
        else:
            if not rehearsal:
                said = _("%(cluster)s has taken the change of %(name)s. This page follows within seconds.")
                messages.success(request, said % {"cluster": cluster, "name": name})
                return htmx.redirect(request, "class-detail", cluster, name)
            messages.success(request, _("The cluster would take it as it is. Nothing is changed yet."))
    changed = conflict and found.resource_version != form.cleaned_data.get("seen_version")
    context = {
        "class": found,
        "managed_by": found.labels.get(MANAGED_BY, ""),
        "user_count": len(users_of(found)),
        # What it is by now, next to what was typed.
        "now": describe.as_yaml(manifest_of(found)) if changed else "",
    }
    return _form(request, form, **context)


@require_administrator
@require_http_methods(["GET", "HEAD", "POST"])
def class_delete(request: HttpRequest, cluster: str, name: str) -> HttpResponse:
    """Names who uses the class, and deletes it after confirmation."""
    found = _class(cluster, name)
    users = users_of(found)
    flavors = flavors_of(found)
    form = DeleteClassForm(request.POST or None, expected=name) if users or flavors else None
    error = ""
    if request.method == "POST" and (form is None or form.is_valid()):
        try:
            classes.delete_class(
                cluster=found.cluster,
                name=name,
                actor=person(request),
                now=timezone.now(),
                source_ip=audit.source_ip(request),
            )
        except classes.UnableToChangeClass as refused:
            error = refused.message
        else:
            messages.success(
                request, _("%(name)s is deleted on %(cluster)s.") % {"name": name, "cluster": cluster}
            )
            return htmx.redirect(request, "class-list")
    context = {
        "class": found,
        "cluster": found.cluster,
        "form": form,
        "error": error,
        "users": users[:USERS_NAMED],
        "more_users": max(len(users) - USERS_NAMED, 0),
        "flavors": flavors,
        "holding": sum(user.holds for user in users),
    }
    return htmx.render(request, "inventory/class_delete.html", context, status=422 if error else 200)


@require_administrator
@require_POST
def expression_check(request: HttpRequest) -> HttpResponse:
    """What one of the form's expressions (number ``index``) means on the chosen cluster, while it is
    typed."""
    typed = request.POST.getlist("expression")
    index = request.POST.get("index", "0")
    number = int(index) if index.isascii() and index.isdigit() and len(index) < 4 else 0
    text = typed[number].replace("\r\n", "\n").strip() if number < len(typed) else ""
    cluster = Cluster.objects.filter(name=searched(request.POST.get("cluster", ""), limit=63)).first()
    context: dict[str, Any] = {"text": text, "cluster": cluster}
    if text and len(text.encode()) > classes.MAX_EXPRESSION:
        context["too_long"] = True
    elif text and cluster is not None:
        check = classes.check_expression(cluster=cluster, expression=text)
        context |= {"check": check, "place": place_of(text, check.line, check.column)}
    return htmx.render(request, "inventory/_expression_check.html", context)


def _class(cluster: str, name: str) -> DeviceClass:
    found = DeviceClass.objects.select_related("cluster").filter(cluster__name=cluster, name=name).first()
    if found is None:
        raise Http404
    return found


def _initial(found: DeviceClass) -> dict[str, Any]:
    config = found.spec.get("config")
    return {
        "expressions": selectors_of(found.spec),
        "extended_resource_name": found.spec.get("extendedResourceName", ""),
        "config": describe.as_yaml(config) if config else "",
        "seen_version": found.resource_version,
    }


def _form(request: HttpRequest, form: ClassForm, **context: Any) -> HttpResponse:
    if "more" in request.POST:
        form.expressions.append("")
        form.errors.clear()
    failed = form.is_bound and bool(form.errors or form.expression_errors)
    context |= {"form": form, "config_open": bool(form["config"].value() or form["config"].errors)}
    return htmx.render(request, "inventory/class_form.html", context, status=422 if failed else 200)
