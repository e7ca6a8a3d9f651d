"""Projects: the list, the page with members and namespaces, and what leads and administrators change."""

from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, F, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from claims.models import Request
from claims.quotas import pages as quotas_pages
from claims.requests.running import running
from claims.utilisation.told import use_of_project
from inventory.bindings import UnableToBind, bind, end, unbind
from inventory.models import Cluster, NamespaceBinding
from portal import access, csvs, htmx, lists
from portal.accounts.audit import source_ip
from portal.accounts.forms import MemberForm, ProjectForm
from portal.accounts.memberships import add_member, change_role, remove_member
from portal.accounts.models import Membership, PastMembership, Project
from portal.accounts.projects import UnableToChangeProject, change_project, create_project
from portal.lists import Choice, Column, Listing
from portal.moments import MomentField
from portal.pages.usage import allowances, costs, held_now

REQUESTS_SHOWN = 10
PAST_SHOWN = 50


class BindingForm(forms.Form):
    cluster = forms.ModelChoiceField(
        label=gettext_lazy("Cluster"), queryset=Cluster.objects.order_by("name"), empty_label=None
    )
    namespace = forms.RegexField(
        label=gettext_lazy("Namespace"),
        regex=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        max_length=63,
        error_messages={
            "invalid": gettext_lazy("A namespace has lower-case letters, digits and hyphens only.")
        },
    )
    valid_from = MomentField(
        label=gettext_lazy("From"),
        required=False,
        help_text=gettext_lazy(
            "Empty: from now on. Earlier: what ran there since becomes the project's cost."
        ),
    )
    valid_until = MomentField(
        label=gettext_lazy("Until"), required=False, help_text=gettext_lazy("Empty: without an end.")
    )


class EndForm(forms.Form):
    valid_until = MomentField(
        label=gettext_lazy("Ends"),
        required=False,
        help_text=gettext_lazy("Empty: now. A later end may be moved."),
    )


LISTING = Listing(
    "projects",
    columns=(
        Column("name", gettext_lazy("Name"), order=("name",), fixed=True),
        Column("role", gettext_lazy("Your role")),
        Column("centre", gettext_lazy("Cost centre"), order=("cost_centre", "name")),
        Column("members", gettext_lazy("Members"), order=("member_count", "name"), css="cd-number"),
        Column("since", gettext_lazy("Since"), order=("created_at",), css="cd-nowrap", shown=False),
        Column("slug", gettext_lazy("Short name"), order=("slug",), shown=False),
    ),
    facets=(
        Choice(
            "state",
            gettext_lazy("State"),
            conditions={"running": Q(archived_at=None), "archived": Q(archived_at__isnull=False)},
            labels={"running": gettext_lazy("running"), "archived": gettext_lazy("archived")},
        ),
        Choice("centre", gettext_lazy("Cost centre"), column="cost_centre"),
    ),
    search=("name", "slug", "description", "cost_centre"),
    sort="name",
)
PROJECT_HEADER = ("slug", "name", "cost_centre", "your_role", "members", "created_at", "archived_at")


@require_safe
def project_list(request: HttpRequest) -> HttpResponseBase:
    """The projects that one may know of."""
    if (back := LISTING.remembered(request)) is not None:
        return back
    user = access.person(request)
    state = LISTING.read(request)
    visible = Project.objects.visible_to(user)
    # Counted apart: joined to the rows, members would multiply what facets count.
    members = Membership.objects.filter(project=OuterRef("pk")).order_by().values("project")
    counted = members.annotate(n=Count("pk")).values("n")
    projects = state.narrowed(visible).annotate(member_count=Coalesce(Subquery(counted), 0))
    held = dict(Membership.objects.filter(user=user).values_list("project", "role"))
    roles = {pk: str(Membership.Role(role).label) for pk, role in held.items()}
    if state.wants_csv:
        found = state.ordered(projects).iterator(chunk_size=500)
        lines = (
            (
                *(p.slug, p.name, p.cost_centre, roles.get(p.pk, ""), p.member_count),
                *(p.created_at.isoformat(), p.archived_at.isoformat() if p.archived_at else ""),
            )
            for p in found
        )
        return csvs.download("projects.csv", PROJECT_HEADER, lines)
    page = state.page(projects)
    context = {
        "page": page,
        "rows": [{"project": project, "role": roles.get(project.pk, "")} for project in page.object_list],
        "facets": state.facets(visible),
    }
    return lists.answer(request, "pages/projects.html", context, state=state)


@require_safe
def project_detail(request: HttpRequest, slug: str) -> HttpResponse:
    """Members, namespaces and requests; people and requests only for those who may see them."""
    project = access.get_project_or_404(access.person(request), slug)
    return _page(request, project)


@access.require_administrator
@require_http_methods(["GET", "HEAD", "POST"])
def project_create(request: HttpRequest) -> HttpResponse:
    """A new project."""
    form = ProjectForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            project = create_project(
                **form.cleaned_data,
                actor=access.person(request),
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        except UnableToChangeProject as unable:
            form.add_error(unable.field, unable.message)
        else:
            messages.success(request, _("The project is made. Now add a lead and bind a namespace."))
            return htmx.redirect(request, "project-detail", slug=project.slug)
    return htmx.render(request, "pages/project_form.html", {"form": form})


@require_http_methods(["GET", "HEAD", "POST"])
def project_edit(request: HttpRequest, slug: str) -> HttpResponse:
    """Another name, description or cost centre."""
    user = access.person(request)
    project = access.get_project_or_404(user, slug, for_administrator=True)
    form = ProjectForm(request.POST or None, instance=project)
    if request.method == "POST" and form.is_valid():
        try:
            change_project(
                project=project,
                **form.cleaned_data,
                actor=user,
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        except UnableToChangeProject as unable:
            form.add_error(unable.field, unable.message)
        else:
            messages.success(request, _("The project is saved."))
            return htmx.redirect(request, "project-detail", slug=slug)
    return htmx.render(request, "pages/project_form.html", {"form": form, "project": project})


# --- members ---------------------------------------------------------------------------------------


@require_POST
def member_add(request: HttpRequest, slug: str) -> HttpResponse:
    """Takes somebody in."""
    user = access.person(request)
    project = access.get_project_or_404(user, slug, for_lead=True)
    form = MemberForm(request.POST)
    if form.is_valid():
        try:
            membership = add_member(
                project=project,
                **form.cleaned_data,
                actor=user,
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        except UnableToChangeProject as unable:
            form.add_error(unable.field, unable.message)
        else:
            messages.success(request, _("%(person)s is a member now.") % {"person": membership.user})
            return htmx.redirect(request, "project-detail", slug=slug)
    return _page(request, project, member_form=form, status=422)


@require_POST
def member_role(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """Makes a member a lead, or a lead a member."""
    user = access.person(request)
    project = access.get_project_or_404(user, slug, for_lead=True)
    membership = get_object_or_404(Membership.objects.select_related("user"), project=project, pk=pk)
    role = request.POST.get("role", "")
    if role not in Membership.Role.values:
        raise Http404
    try:
        change_role(
            membership=membership, role=role, actor=user, now=timezone.now(), source_ip=source_ip(request)
        )
    except UnableToChangeProject as unable:
        messages.error(request, unable.message)
    return htmx.redirect(request, "project-detail", slug=slug)


@require_http_methods(["GET", "HEAD", "POST"])
def member_remove(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """Asks, then takes somebody out."""
    user = access.person(request)
    project = access.get_project_or_404(user, slug, for_lead=True)
    membership = get_object_or_404(
        Membership.objects.select_related("user", "project"), project=project, pk=pk
    )
    if request.method == "POST":
        try:
            remove_member(membership=membership, actor=user, now=timezone.now(), source_ip=source_ip(request))
        except UnableToChangeProject as unable:
            messages.error(request, unable.message)
        else:
            messages.success(request, _("%(person)s is no longer a member.") % {"person": membership.user})
        if not access.may_see(user, project):
            return htmx.redirect(request, "project-list")
        return htmx.redirect(request, "project-detail", slug=slug)
    names = {"person": membership.user, "project": project}
    return _confirm(
        request,
        project,
        title=_("Remove %(person)s from %(project)s") % names,
        text=_("%(person)s will no longer see the project. Their running requests go on; history keeps them.")
        % names,
        submit_label=_("Remove"),
    )


@require_http_methods(["GET", "HEAD", "POST"])
def project_leave(request: HttpRequest, slug: str) -> HttpResponse:
    """Asks, then lets a member go."""
    user = access.person(request)
    project = access.get_project_or_404(user, slug, details=True)
    membership = get_object_or_404(
        Membership.objects.select_related("user", "project"), project=project, user=user
    )
    if user.is_auditor:
        raise PermissionDenied(_("An auditor changes nothing."))
    if request.method == "POST":
        try:
            remove_member(membership=membership, actor=user, now=timezone.now(), source_ip=source_ip(request))
        except UnableToChangeProject as unable:
            messages.error(request, unable.message)
            return htmx.redirect(request, "project-detail", slug=slug)
        messages.success(request, _("You have left %(project)s.") % {"project": project})
        return htmx.redirect(request, "project-list")
    return _confirm(
        request,
        project,
        title=_("Leave %(project)s") % {"project": project},
        text=_(
            "You will no longer see the project. Requests that you made go on, and its history keeps what "
            "you did. A lead can take you in again."
        ),
        submit_label=_("Leave"),
    )


# --- namespaces ------------------------------------------------------------------------------------


@require_POST
def binding_add(request: HttpRequest, slug: str) -> HttpResponse:
    """From now on the namespace is the project's."""
    user = access.person(request)
    project = access.get_project_or_404(user, slug, for_administrator=True)
    form = BindingForm(request.POST)
    if form.is_valid():
        try:
            bind(
                project=project,
                **form.cleaned_data,
                actor=user,
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        except UnableToBind as unable:
            form.add_error(unable.field, unable.message)
        else:
            messages.success(request, _("The namespace is bound to the project."))
            return htmx.redirect(request, "project-detail", slug=slug)
    return _page(request, project, binding_form=form, status=422)


@require_http_methods(["GET", "HEAD", "POST"])
def binding_end(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """Asks when, then ends a binding then; what was used until then stays the project's."""
    user = access.person(request)
    project = access.get_project_or_404(user, slug, for_administrator=True)
    now = timezone.now()
    lasting = NamespaceBinding.objects.filter(Q(valid_until=None) | Q(valid_until__gt=now), project=project)
    binding = get_object_or_404(lasting.select_related("cluster"), pk=pk)
    form = EndForm(
        request.POST if request.method == "POST" else None, initial={"valid_until": binding.valid_until}
    )
    if request.method == "POST" and form.is_valid():
        until = form.cleaned_data["valid_until"]
        try:
            if until is None:
                unbind(binding=binding, actor=user, now=now, source_ip=source_ip(request))
            else:
                end(binding=binding, valid_until=until, actor=user, now=now, source_ip=source_ip(request))
        except UnableToBind as unable:
            form.add_error("valid_until", unable.message)
        else:
            text = _("The binding has an end.") if until else _("The namespace is no longer the project's.")
            messages.success(request, text)
            return htmx.redirect(request, "project-detail", slug=slug)
    names = {"namespace": binding.namespace, "cluster": binding.cluster.name, "project": project}
    return _confirm(
        request,
        project,
        title=_("Take %(namespace)s on %(cluster)s from %(project)s") % names,
        text=_("What runs there afterwards is nobody's cost. What was used until then stays the project's."),
        submit_label=_("End the binding"),
        form=form,
    )


# --- the page itself -------------------------------------------------------------------------------


def _page(
    request: HttpRequest,
    project: Project,
    *,
    member_form: MemberForm | None = None,
    binding_form: BindingForm | None = None,
    status: int = 200,
) -> HttpResponse:
    user, now = access.person(request), timezone.now()
    detailed = access.may_see_details(user, project)
    (cost,) = costs([project], now=now)
    bindings = NamespaceBinding.objects.filter(project=project).select_related("cluster")
    context: dict[str, Any] = {
        "project": project,
        "detailed": detailed,
        "leads": access.may_lead(user, project),
        "administers": access.may_administer(user),
        "can_request": access.may_work_in(user, project),
        "bindings": bindings.order_by(
            F("valid_until").desc(nulls_first=True), "cluster__name", "namespace", "-valid_from"
        ),
        "now": now,
        "month": timezone.localtime(now),
        "cost": cost,
        "held": held_now([project]).get(project.pk, 0),
        "use": use_of_project(project) if detailed else None,
        "quotas": quotas_pages.rows_of([project], now=now),
        "allowances": allowances([project], now=now).get(project.pk, ()),
        "member_form": member_form or MemberForm(),
        "binding_form": binding_form or BindingForm(),
    }
    if detailed:
        memberships = Membership.objects.filter(project=project).select_related("user")
        context["memberships"] = memberships.order_by("user__last_name", "user__username")
        context["mine"] = any(membership.user_id == user.pk for membership in context["memberships"])
        if context["leads"] or access.may_read_everything(user):
            past = PastMembership.objects.filter(project=project).select_related("user")
            context["past"] = past.order_by("-ended_at", "-pk")[:PAST_SHOWN]
        requests = Request.objects.filter(project=project).select_related("requester", "cluster", "flavor")
        context["requests"] = running(list(requests.order_by("-created_at")[:REQUESTS_SHOWN]), now=now)
        context["active"] = requests.active().count()
    return htmx.render(request, "pages/project.html", context, status=status)


def _confirm(
    request: HttpRequest,
    project: Project,
    *,
    title: str,
    text: str,
    submit_label: str,
    form: forms.Form | None = None,
) -> HttpResponse:
    context = {
        "form": form,
        "title": title,
        "text": text,
        "submit_label": submit_label,
        "cancel_url": reverse("project-detail", args=[project.slug]),
    }
    return htmx.render(request, "components/confirm.html", context)
