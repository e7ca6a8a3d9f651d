"""The one place that decides who may see and do what.

Views, htmx partials and the REST API fetch through these helpers: to a stranger a project does not exist
(404), a reader who may not act is refused (403). Lists are filtered by `visible_to(user)` on the querysets.

| who                | sees the project | sees claims, Pods, persons | works in it | leads it |
|--------------------|------------------|----------------------------|-------------|----------|
| stranger           | –                | –                          | –           | –        |
| member             | yes              | yes                        | yes         | –        |
| project lead       | yes              | yes                        | yes         | yes      |
| finance            | yes              | –                          | –           | –        |
| auditor            | yes              | yes                        | –           | –        |
| administrator      | yes              | yes                        | yes         | yes      |

An auditor changes nothing, whatever other role the same person has.
"""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseBase
from django.utils.translation import gettext as _

from portal.accounts.models import ApiToken, Membership, Project, User

P = ParamSpec("P")
R = TypeVar("R", bound=HttpResponseBase)
View = Callable[Concatenate[HttpRequest, P], R]


def person(request: HttpRequest) -> User:
    """Who is signed in. Every view needs that unless it says otherwise, so nobody is a defect: 403."""
    user = request.user
    if isinstance(user, User):
        return user
    raise PermissionDenied(_("Please sign in."))


# --- a desk that only looks ------------------------------------------------------------------------


def only_looks() -> bool:
    """Whether the desk writes to no cluster and takes no requests: an administrator's first look.

    Asked by whatever would write (`claims.requests.actions`, `inventory.classes`), and, should one of them
    forget, by `inventory.clusters.client_for`, whose clients then send nothing that writes.
    """
    return bool(settings.READ_ONLY)


def why_only_looks() -> str:
    """What to say instead of writing."""
    return _(
        "This desk only looks: it writes to no cluster and takes no requests until its operator ends that "
        "(CLAIMDESK_READ_ONLY)."
    )


# --- what somebody may, as questions ---------------------------------------------------------------


def may_administer(user: User | AnonymousUser) -> bool:
    """Manages clusters, classes, projects and prices."""
    return isinstance(user, User) and user.is_active and user.is_administrator and not user.is_auditor


def may_read_everything(user: User | AnonymousUser) -> bool:
    """Sees every project with its people, claims and Pods, and the audit trail."""
    return isinstance(user, User) and user.is_active and (user.is_administrator or user.is_auditor)


def may_see_costs_of_all(user: User | AnonymousUser) -> bool:
    """Sees what every project costs."""
    return may_read_everything(user) or (isinstance(user, User) and user.is_active and user.is_finance)


def may_keep_accounts(user: User | AnonymousUser) -> bool:
    """Closes statements, proposes and decides adjustments, answers disputes: finance and administrators."""
    known = isinstance(user, User) and user.is_active and not user.is_auditor
    return known and (user.is_finance or user.is_administrator)  # type: ignore[union-attr] # a User: known


def may_see(user: User, project: Project) -> bool:
    """Knows that the project exists, and what it costs."""
    return may_see_costs_of_all(user) or role_in(user, project) is not None


def may_see_details(user: User, project: Project) -> bool:
    """Sees the project's persons, requests, claims and Pods."""
    return may_read_everything(user) or role_in(user, project) is not None


def may_work_in(user: User, project: Project) -> bool:
    """Makes and ends requests for the project."""
    if user.is_auditor or project.archived_at is not None:
        return False
    return may_administer(user) or role_in(user, project) is not None


def may_lead(user: User, project: Project) -> bool:
    """Chooses the project's members."""
    if user.is_auditor:
        return False
    return may_administer(user) or role_in(user, project) == Membership.Role.LEAD


def role_in(user: User, project: Project) -> str | None:
    """The person's role in the project, or None."""
    return (
        Membership.objects.filter(user=user, project=project).values_list("role", flat=True).first()
        if user.is_active
        else None
    )


# --- fetch and authorise ---------------------------------------------------------------------------


def get_project_or_404(
    user: User,
    slug: str,
    *,
    details: bool = False,
    for_write: bool = False,
    for_lead: bool = False,
    for_administrator: bool = False,
) -> Project:
    """The project, if `user` may know of it (else Http404).

    `details` asks for the right to see its people and claims, `for_write` to make requests for it, `for_lead`
    to choose its members, `for_administrator` to change the project itself: PermissionDenied without that
    right.
    """
    project = Project.objects.visible_to(user).filter(slug=slug).first()
    if project is None:
        raise Http404
    authorise(user, project, details=details, for_write=for_write, for_lead=for_lead)
    if for_administrator and not may_administer(user):
        raise PermissionDenied(_administrators_only())
    return project


def authorise(
    user: User, project: Project, *, details: bool = False, for_write: bool = False, for_lead: bool = False
) -> None:
    """The same check for an object that belongs to `project` and was fetched already.

    Raises Http404 for a stranger and PermissionDenied for a reader without the right.
    """
    if not may_see(user, project):
        raise Http404
    if details and not may_see_details(user, project):
        raise PermissionDenied(_("Only members of the project see this."))
    if for_write and not may_work_in(user, project):
        raise PermissionDenied(_("You may look at this project but not act for it."))
    if for_lead and not may_lead(user, project):
        raise PermissionDenied(_("Only the project's leads and administrators may do this."))


def get_token_or_404(user: User, key: str) -> ApiToken:
    """An API token that `user` may end: their own and, for administrators, anybody's. To others it does not
    exist (Http404); an auditor, who sees it in the list, may not (PermissionDenied)."""
    token: ApiToken | None = ApiToken.objects.select_related("user").filter(token_key=key).first()
    if token is None or not (token.user_id == user.pk or may_read_everything(user)):
        raise Http404
    if token.user_id != user.pk and not may_administer(user):
        raise PermissionDenied(_administrators_only())
    return token


# --- decorators of views ---------------------------------------------------------------------------


def require_administrator(view: View[P, R]) -> View[P, R]:
    """Lets only platform administrators in; others get 403."""
    return _require(view, may_administer, _administrators_only)


def require_reader_of_everything(view: View[P, R]) -> View[P, R]:
    """Lets only administrators and auditors in; others get 403."""
    return _require(view, may_read_everything, _readers_only)


def require_reader_of_costs(view: View[P, R]) -> View[P, R]:
    """Lets only those in who see what every project costs; others get 403."""
    return _require(view, may_see_costs_of_all, _costs_only)


def require_keeper_of_accounts(view: View[P, R]) -> View[P, R]:
    """Lets only finance and administrators in; others get 403."""
    return _require(view, may_keep_accounts, _finance_only)


def demand_administrator(user: User | AnonymousUser) -> None:
    """PermissionDenied unless `user` is a platform administrator."""
    if not may_administer(user):
        raise PermissionDenied(_administrators_only())


def demand_keeper_of_accounts(user: User) -> None:
    """PermissionDenied unless `user` is of finance or an administrator."""
    if not may_keep_accounts(user):
        raise PermissionDenied(_finance_only())


def _costs_only() -> str:
    return _("Only finance, administrators and auditors may see this.")


def _finance_only() -> str:
    return _("Only finance and administrators may do this.")


def _administrators_only() -> str:
    return _("Only platform administrators may do this.")


def _readers_only() -> str:
    return _("Only administrators and auditors may see this.")


def _require(view: View[P, R], allowed: Callable[[User], bool], reason: Callable[[], str]) -> View[P, R]:
    @wraps(view)
    def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if not allowed(person(request)):
            raise PermissionDenied(reason())
        return view(request, *args, **kwargs)

    return guarded
