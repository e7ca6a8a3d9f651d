"""The editor of DeviceClasses: administrators only; as a form or as YAML, rehearsed by the cluster first."""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from inventory import classes
from inventory.class_examples import EXAMPLES, examples_for
from inventory.class_form import YAML, ClassForm, typed
from inventory.class_users import flavors_of, users_of
from inventory.forms import DeleteClassForm
from inventory.guards import guarded
from inventory.models import Cluster, DeviceClass
from inventory.views import class_panels
from inventory.views.class_conflict import conflict_of
from portal import htmx
from portal.access import person, require_administrator
from portal.accounts import audit
from portal.texts import searched

USERS_NAMED = 50
# Who keeps a class in step with files of their own, by its usual label.
MANAGED_BY = "app.kubernetes.io/managed-by"
# Buttons that draw the page anew and change nothing.
REDRAWING = ("more", "switch", "guard", "effect")


@require_administrator
@require_http_methods(["GET", "HEAD", "POST"])
def class_create(request: HttpRequest) -> HttpResponse:
    """A new class on one cluster."""
    names = list(Cluster.objects.filter(enabled=True).order_by("name").values_list("name", flat=True))
    form = ClassForm(request.POST or None, clusters=names, initial=_begun(request, names))
    if _redraws(request):
        return _redrawn(request, form)
    if request.method == "POST" and form.is_valid():
        cluster = get_object_or_404(Cluster, name=form.cleaned_data["cluster"])
        rehearsal = "rehearse" in request.POST
        if _tried(
            form,
            classes.create_class,
            cluster=cluster,
            name=form.class_name,
            wanted=form.wanted(),
            reason=form.cleaned_data["reason"],
            actor=person(request),
            now=timezone.now(),
            source_ip=audit.source_ip(request),
            rehearse_only=rehearsal,
        ):
            if not rehearsal:
                said = _("%(name)s is created on %(cluster)s. It is listed as soon as the mirror sees it.")
                messages.success(request, said % {"name": form.class_name, "cluster": cluster})
                return htmx.redirect(request, "class-list")
            messages.success(request, _("The cluster would take it as it is. Nothing is created yet."))
    return _form(request, form)


@require_administrator
@require_http_methods(["GET", "HEAD", "POST"])
def class_edit(request: HttpRequest, cluster: str, name: str) -> HttpResponse:
    """Change a class; a change by somebody else meanwhile is shown beside one's own, and nothing typed is
    lost."""
    found = _class(cluster, name)
    form = ClassForm(request.POST or None, clusters=[cluster], fixed=name, initial=initial_of(found))
    context: dict[str, Any] = {
        "class": found,
        "managed_by": found.labels.get(MANAGED_BY, ""),
        "user_count": len(users_of(found)),
    }
    if _redraws(request):
        return _redrawn(request, form, **context)
    if request.method == "POST" and form.is_valid():
        rehearsal = "rehearse" in request.POST
        try:
            done = _tried(
                form,
                classes.update_class,
                cluster=found.cluster,
                name=name,
                wanted=form.wanted(),
                reason=form.cleaned_data["reason"],
                actor=person(request),
                now=timezone.now(),
                seen_version=request.POST.get("over") or form.cleaned_data["seen_version"],
                source_ip=audit.source_ip(request),
                rehearse_only=rehearsal,
            )
        except classes.ChangedMeanwhile as changed:
            form.refuse("", changed.message)
            context["conflict"] = conflict_of(found, form.wanted(), changed.current)
            return _form(request, form, status=409, **context)
        if done:
            if not rehearsal:
                said = _("%(cluster)s has taken the change of %(name)s. This page follows within seconds.")
                messages.success(request, said % {"cluster": cluster, "name": name})
                return htmx.redirect(request, "class-detail", cluster, name)
            messages.success(request, _("The cluster would take it as it is. Nothing is changed yet."))
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


# --- parts ------------------------------------------------------------------------------------------------


def _class(cluster: str, name: str) -> DeviceClass:
    found = DeviceClass.objects.select_related("cluster").filter(cluster__name=cluster, name=name).first()
    if found is None:
        raise Http404
    return found


def _tried(form: ClassForm, change: Callable[..., None], **arguments: Any) -> bool:
    """Whether the domain did it; what it refuses stands at its field. Raises ChangedMeanwhile."""
    try:
        change(**arguments)
    except classes.ChangedMeanwhile:
        raise
    except classes.UnableToChangeClass as refused:
        form.refuse(refused.field, refused.message)
        return False
    return True


def _begun(request: HttpRequest, clusters: list[str]) -> dict[str, Any]:
    """An empty form, or one with an example, on the cluster that the address names."""
    found: dict[str, Any] = {"cluster": request.GET.get("cluster", "")}
    if not found["cluster"] and len(clusters) == 1:
        found["cluster"] = clusters[0]
    wanted = request.GET.get("example", "")
    example = next((example for example in EXAMPLES if example.slug == wanted), None)
    if example is not None:
        found |= {"expressions": list(example.expressions), "name": example.slug}
    return found


def initial_of(found: DeviceClass) -> dict[str, Any]:
    """What the editor begins with."""
    wanted = classes.Wanted.of_spec(
        found.spec,
        labels=found.labels,
        annotations={k: text for k, text in found.annotations.items() if k not in classes.TOOLS},
    )
    fields = typed(wanted)
    return {
        **fields,
        "labels_were": fields["labels"],
        "annotations_were": fields["annotations"],
        "seen_version": found.resource_version,
    }


def _redraws(request: HttpRequest) -> bool:
    return request.method == "POST" and any(name in request.POST for name in REDRAWING)


def _redrawn(request: HttpRequest, form: ClassForm, **context: Any) -> HttpResponse:
    """The page once more, with another expression, the other way of writing, a guard, or the effect."""
    valid = form.is_valid()
    if "switch" in request.POST:
        # A name that is yet to be chosen is no reason to stay.
        if valid or set(form.errors) <= {"name", "cluster"}:
            for note in form.read.notes if form.read else ():
                messages.info(request, note)
            return _form(request, form.turned(), **context)
        for field in ("name", "cluster"):
            form.errors.pop(field, None)
        return _form(request, form, **context)
    if "effect" in request.POST:
        return _form(request, form, effect=class_panels.effect_context(request, form), **context)
    form.errors.clear()
    if "more" in request.POST:
        form.expressions.append("")
    elif (place := class_panels.number(request.POST.get("guard", ""))) < len(form.expressions):
        cluster = _cluster_of(request, form)
        safe = guarded(cluster, form.expressions[place].strip()) if cluster else None
        if safe is not None:
            form.expressions[place] = safe.expression
    return _form(request, form, **context)


def _cluster_of(request: HttpRequest, form: ClassForm) -> Cluster | None:
    value = request.POST.get("cluster", "") if form.is_bound else str(form.initial.get("cluster", ""))
    return Cluster.objects.filter(name=searched(value, limit=63)).first()


def _form(request: HttpRequest, form: ClassForm, *, status: int = 0, **context: Any) -> HttpResponse:
    failed = form.is_bound and bool(form.errors or form.expression_errors)
    found = context.get("class")
    cluster = found.cluster if found else _cluster_of(request, form)
    context |= {
        "form": form,
        "yaml": form.written,
        "switch_to": "form" if form.written else YAML,
        "config_open": bool(form["config"].value() or form["config"].errors),
        "labels_open": _any(form, ("labels", "annotations")),
        **class_panels.attribute_context(cluster),
        "examples": examples_for(class_panels.drivers_of(cluster)),
    }
    return htmx.render(
        request, "inventory/class_form.html", context, status=status or (422 if failed else 200)
    )


def _any(form: ClassForm, names: tuple[str, ...]) -> bool:
    return any(form[name].value() or form[name].errors for name in names)
