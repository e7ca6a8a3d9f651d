"""The people of the desk, for administrators (auditors read along)."""

from collections.abc import Iterator, Sequence
from typing import Any

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.contrib import messages
from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_safe

from portal import access, csvs, htmx, lists
from portal.accounts import roles
from portal.accounts.audit import source_ip
from portal.accounts.forms import RolesForm
from portal.accounts.mfa import reset_second_factor
from portal.accounts.models import AuditEntry, Membership, PastMembership, User

FACTORS = [Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN]
RESEARCHER = Q(is_administrator=False, is_finance=False, is_auditor=False)
ENTRIES_SHOWN = 10

PEOPLE = lists.Listing(
    name="people",
    columns=(
        lists.Column("name", gettext_lazy("Name"), order=("first_name", "last_name", "username"), fixed=True),
        lists.Column("username", gettext_lazy("User name"), order=("username",)),
        lists.Column("email", gettext_lazy("E-mail"), order=("email",)),
        lists.Column("roles", gettext_lazy("Roles")),
        lists.Column("projects", gettext_lazy("Projects"), order=("project_count",), css="cd-number"),
        lists.Column("factor", gettext_lazy("Second factor")),
        lists.Column("joined", gettext_lazy("Since"), order=("date_joined",), shown=False),
        lists.Column("seen", gettext_lazy("Last sign-in"), order=("last_login",), nullable=True),
    ),
    facets=(
        lists.Choice(
            "role",
            gettext_lazy("Role"),
            conditions={
                "administrator": Q(is_administrator=True),
                "finance": Q(is_finance=True),
                "auditor": Q(is_auditor=True),
                "researcher": RESEARCHER,
            },
            labels={
                "administrator": gettext_lazy("platform administrator"),
                "finance": gettext_lazy("finance"),
                "auditor": gettext_lazy("auditor"),
                "researcher": gettext_lazy("researcher"),
            },
        ),
        lists.Choice(
            "state",
            gettext_lazy("State"),
            conditions={"active": Q(is_active=True), "locked": Q(is_active=False)},
            labels={"active": gettext_lazy("active"), "locked": gettext_lazy("deactivated")},
        ),
    ),
    search=("username", "first_name", "last_name", "email"),
    sort="name",
)


@require_safe
@access.require_reader_of_everything
def people_list(request: HttpRequest) -> HttpResponseBase:
    """Everybody who has an account."""
    if (back := PEOPLE.remembered(request)) is not None:
        return back
    state = PEOPLE.read(request)
    everybody = User.objects.all()
    people = state.narrowed(everybody).annotate(
        project_count=Count("memberships"),
        has_factor=Exists(Authenticator.objects.filter(user=OuterRef("pk"), type__in=FACTORS)),
    )
    if state.wants_csv:
        return csvs.download("people.csv", HEADER, _rows(state.ordered(people)))
    context = {"page": state.page(people), "facets": state.facets(everybody)}
    return lists.answer(request, "accounts/people.html", context, state=state)


@require_http_methods(["GET", "HEAD", "POST"])
@access.require_reader_of_everything
def person_detail(request: HttpRequest, pk: int) -> HttpResponse:
    """One person: roles, projects now and once, ways to sign in, what they changed last."""
    reader = access.person(request)
    person = get_object_or_404(User, pk=pk)
    form = RolesForm(
        request.POST if request.method == "POST" else None, initial={"roles": roles.roles_of(person)}
    )
    if request.method == "POST":
        access.demand_administrator(reader)
        if form.is_valid():
            try:
                roles.give_roles(
                    user=person,
                    roles=form.cleaned_data["roles"],
                    actor=reader,
                    now=timezone.now(),
                    source_ip=source_ip(request),
                )
            except roles.UnableToChangePerson as unable:
                form.add_error(unable.field or None, unable.message)
            else:
                messages.success(request, _("The roles of %(person)s are saved.") % {"person": person})
                return htmx.redirect(request, "person-detail", pk=pk)
    memberships = Membership.objects.filter(user=person).select_related("project")
    past = PastMembership.objects.filter(user=person).select_related("project")
    context = {
        "person": person,
        "form": form,
        "administers": access.may_administer(reader),
        "memberships": memberships.order_by("project__name"),
        "past": past.order_by("-ended_at"),
        "connections": SocialAccount.objects.filter(user=person).count(),
        "factors": Authenticator.objects.filter(user=person, type__in=FACTORS).count(),
        "entries": AuditEntry.objects.filter(target_kind="user", target_id=str(pk))
        .select_related("actor")
        .order_by("-at", "-pk")[:ENTRIES_SHOWN],
    }
    status = 422 if form.is_bound and not form.is_valid() else 200
    return htmx.render(request, "accounts/person.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@access.require_administrator
def person_switch(request: HttpRequest, pk: int) -> HttpResponse:
    """Asks, then lets somebody in no longer, or again."""
    user = access.person(request)
    person = get_object_or_404(User, pk=pk)
    if request.method == "POST":
        act = roles.deactivate if person.is_active else roles.activate
        try:
            act(user=person, actor=user, now=timezone.now(), source_ip=source_ip(request))
        except roles.UnableToChangePerson as unable:
            messages.error(request, unable.message)
        return htmx.redirect(request, "person-detail", pk=pk)
    names = {"person": person}
    if person.is_active:
        title = _("Deactivate %(person)s") % names
        text = _("Nothing lets %(person)s in any more: no sign-in, no open page, no token.") % names
        consequences = [
            _("Running requests go on; leads of the project can end them."),
            _("Memberships, history and costs stay as they are."),
        ]
        label = _("Deactivate")
    else:
        title = _("Activate %(person)s") % names
        text = _("%(person)s may sign in again, with the roles and projects of before.") % names
        consequences, label = [], _("Activate")
    return _confirm(request, person, title=title, text=text, submit_label=label, consequences=consequences)


@require_http_methods(["GET", "HEAD", "POST"])
@access.require_administrator
def person_reset_factor(request: HttpRequest, pk: int) -> HttpResponse:
    """Asks, then takes the second factor of somebody who lost it."""
    user = access.person(request)
    person = get_object_or_404(User, pk=pk)
    if person.pk == user.pk:
        # One's own goes where the password is asked for again: an open session is not enough for that.
        return htmx.redirect(request, "mfa_index")
    names = {"person": person}
    if request.method == "POST":
        reset_second_factor(user=person, actor=user, now=timezone.now(), source_ip=source_ip(request))
        messages.success(request, _("%(person)s signs in without a second factor now.") % names)
        return htmx.redirect(request, "person-detail", pk=pk)
    return _confirm(
        request,
        person,
        title=_("Reset the second factor of %(person)s") % names,
        text=_("Make sure that it is %(person)s who asks: the password alone lets them in afterwards.")
        % names,
        submit_label=_("Reset"),
    )


HEADER = ("username", "first_name", "last_name", "email", "roles", "active", "projects", "last_login")


def _rows(people: "QuerySet[Any]") -> Iterator[list[Any]]:
    for person in people.iterator(chunk_size=1000):
        yield [
            person.username,
            person.first_name,
            person.last_name,
            person.email,
            " ".join(roles.roles_of(person)),
            "yes" if person.is_active else "no",
            person.project_count,
            person.last_login.isoformat() if person.last_login else "",
        ]


def _confirm(
    request: HttpRequest,
    person: User,
    *,
    title: str,
    text: str,
    submit_label: str,
    consequences: Sequence[str] = (),
) -> HttpResponse:
    context = {
        "title": title,
        "text": text,
        "submit_label": submit_label,
        "consequences": consequences,
        "cancel_url": reverse("person-detail", args=[person.pk]),
    }
    return htmx.render(request, "components/confirm.html", context)
