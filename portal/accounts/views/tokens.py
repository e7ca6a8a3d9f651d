"""API tokens: a person's own, and for administrators those of everybody."""

from collections.abc import Iterator
from datetime import UTC

from django.contrib import messages
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from portal import access, csvs, htmx, lists
from portal.accounts.audit import source_ip
from portal.accounts.forms import TokenForm
from portal.accounts.models import ApiToken
from portal.accounts.tokens import UnableToIssueToken, issue_token, revoke_token


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def token_list(request: HttpRequest) -> HttpResponse:
    """All own tokens, and the form for a new one, whose text the answer to the POST shows this once."""
    user = access.person(request)
    form, plain, created = _form(request), "", None
    now = timezone.now()
    if request.method == "POST" and form.is_valid():
        try:
            created, plain = issue_token(
                user=user, now=now, source_ip=source_ip(request), **form.cleaned_data
            )
        except UnableToIssueToken as unable:
            form.add_error(unable.field or None, unable.message)
        else:
            form = _form(request, fresh=True)
    tokens = ApiToken.objects.filter(user=user).order_by("-created")
    context = {"form": form, "tokens": tokens, "plain": plain, "created": created, "now": now}
    return htmx.render(request, "accounts/tokens.html", context)


def _form(request: HttpRequest, *, fresh: bool = False) -> TokenForm:
    """What only administrators and auditors may is not offered to others: it would be refused anyway."""
    form = TokenForm(None if fresh else request.POST or None)
    if not access.may_read_everything(request.user):
        form.leave_out(ApiToken.Scope.ADMINISTRATION)
    return form


@require_http_methods(["GET", "HEAD", "POST"])
def token_revoke(request: HttpRequest, key: str) -> HttpResponse:
    """Asks, then ends one of the own tokens, or as an administrator anybody's."""
    user = access.person(request)
    token = access.get_token_or_404(user, key)
    back = "token-list" if token.user_id == user.pk else "token-overview"
    if request.method == "POST":
        revoke_token(token=token, actor=user, now=timezone.now(), source_ip=source_ip(request))
        messages.success(request, _("The token “%(name)s” is revoked.") % {"name": token.name})
        return htmx.redirect(request, back)
    context = {"token": token, "back_url": reverse(back), "own": token.user_id == user.pk}
    return htmx.render(request, "accounts/token_revoke.html", context)


# --- those of everybody ------------------------------------------------------------------------------

TOKENS = lists.Listing(
    name="tokens",
    columns=(
        lists.Column("name", gettext_lazy("Name"), order=("name",), fixed=True),
        lists.Column("person", gettext_lazy("Whose"), order=("user__username",)),
        lists.Column("scopes", gettext_lazy("What it may do")),
        lists.Column("made", gettext_lazy("Made"), order=("created",)),
        lists.Column("expires", gettext_lazy("Expires"), order=("expiry",)),
        lists.Column("used", gettext_lazy("Last used"), order=("last_used_at",), nullable=True),
    ),
    facets=(
        lists.Choice(
            "state",
            gettext_lazy("State"),
            conditions={
                "active": Q(expiry__gt=Now(), user__is_active=True),
                "expired": Q(expiry__lte=Now()),
                "refused": Q(user__is_active=False),
                "unused": Q(last_used_at=None),
            },
            labels={
                "active": gettext_lazy("active"),
                "expired": gettext_lazy("expired"),
                "refused": gettext_lazy("of a deactivated person"),
                "unused": gettext_lazy("never used"),
            },
        ),
        lists.Choice("person", gettext_lazy("Whose"), column="user__username"),
    ),
    search=("name", "token_key", "user__username", "user__first_name", "user__last_name"),
    sort="-made",
)
HEADER = ("key", "name", "person", "scopes", "created", "expires", "last_used")


@require_safe
@access.require_reader_of_everything
def token_overview(request: HttpRequest) -> HttpResponseBase:
    """The tokens of everybody, which administrators may revoke: never what they are, only what they may."""
    if (back := TOKENS.remembered(request)) is not None:
        return back
    state, everything = TOKENS.read(request), ApiToken.objects.all()
    found = state.narrowed(everything).select_related("user")
    if state.wants_csv:
        return csvs.download("tokens.csv", HEADER, _rows(state.ordered(found)))
    context = {
        "page": state.page(found),
        "facets": state.facets(everything),
        "administers": access.may_administer(access.person(request)),
        "now": timezone.now(),
    }
    return lists.answer(request, "accounts/token_overview.html", context, state=state)


def _rows(tokens: "QuerySet[ApiToken]") -> Iterator[list[str]]:
    for token in tokens.iterator(chunk_size=1000):
        times = (token.created, token.expiry, token.last_used_at)
        yield [
            token.token_key,
            token.name,
            token.user.username,
            " ".join(token.scopes),
            *(at.astimezone(UTC).isoformat() if at else "" for at in times),
        ]
