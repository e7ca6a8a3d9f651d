"""A person's API tokens."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from portal import access, htmx
from portal.accounts.audit import source_ip
from portal.accounts.forms import TokenForm
from portal.accounts.models import ApiToken
from portal.accounts.tokens import UnableToIssueToken, issue_token, revoke_token


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def token_list(request: HttpRequest) -> HttpResponse:
    """All own tokens, and the form for a new one, whose text the answer to the POST shows this once."""
    user = access.person(request)
    form, plain, created = TokenForm(request.POST or None), "", None
    now = timezone.now()
    if request.method == "POST" and form.is_valid():
        try:
            created, plain = issue_token(
                user=user, now=now, source_ip=source_ip(request), **form.cleaned_data
            )
        except UnableToIssueToken as unable:
            form.add_error(unable.field or None, unable.message)
        else:
            form = TokenForm()
    tokens = ApiToken.objects.filter(user=user).order_by("-created")
    context = {"form": form, "tokens": tokens, "plain": plain, "created": created, "now": now}
    return htmx.render(request, "accounts/tokens.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def token_revoke(request: HttpRequest, key: str) -> HttpResponse:
    """Asks, then ends one of the own tokens."""
    user = access.person(request)
    token = get_object_or_404(ApiToken, user=user, token_key=key)
    if request.method == "POST":
        revoke_token(token=token, actor=user, now=timezone.now(), source_ip=source_ip(request))
        messages.success(request, _("The token “%(name)s” is revoked.") % {"name": token.name})
        return htmx.redirect(request, "token-list")
    return htmx.render(request, "accounts/token_revoke.html", {"token": token})
