"""Pages over the tokens of nodes, whatever they report: a new one, shown once, and the end of one."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import F, Q
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.debug import sensitive_variables

from inventory.models import Cluster
from inventory.node_api import NodeToken
from inventory.node_tokens import NodeTokens, UnableToIssueNodeToken
from portal import htmx
from portal.access import person
from portal.accounts.audit import source_ip


class NodeTokenForm(forms.Form):
    """Which node a token is for; the page knows the cluster."""

    LIFETIMES = ((30, gettext_lazy("30 days")), (90, gettext_lazy("90 days")), (365, gettext_lazy("1 year")))

    node = forms.CharField(label=gettext_lazy("Node"), max_length=253)
    lifetime = forms.TypedChoiceField(
        label=gettext_lazy("Expires after"),
        choices=LIFETIMES,
        initial=365,
        coerce=lambda days: timedelta(days=int(days)),
    )


@dataclass(frozen=True)
class Crumb:
    url: str
    label: str


@dataclass(frozen=True)
class Surroundings:
    """What the pages of tokens say of the sort of report that they are for."""

    # The pages that lead to this one; "Back" is the last of them.
    crumbs: tuple[Crumb, ...]
    # Directory of the collector's manifest.
    manifest: str
    # The page that shows a node's reports, by cluster and node.
    node_url: Callable[[str, str], str]

    @property
    def back_url(self) -> str:
        return self.crumbs[-1].url


@sensitive_variables("plain", "context")
def answer_form(
    request: HttpRequest,
    *,
    form: NodeTokenForm,
    sort: NodeTokens[Any, Any],
    around: Surroundings,
    cluster: Cluster | None = None,
) -> HttpResponse:
    """The form for a token; the answer to the POST shows its text this once. Without `cluster` the form asks
    for it."""
    plain, created = "", None
    if request.method == "POST" and form.is_valid():
        asked = form.cleaned_data
        try:
            created, plain = sort.issue(
                cluster=cluster or asked["cluster"],
                node_name=asked["node"],
                lifetime=asked["lifetime"],
                actor=person(request),
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        except UnableToIssueNodeToken as unable:
            form.add_error(unable.field or None, unable.message)
    node_url = around.node_url(created.node.cluster.name, created.node.name) if created else ""
    context = {"form": form, "plain": plain, "created": created, "around": around, "node_url": node_url}
    status = 422 if form.is_bound and created is None else 200
    return htmx.render(request, "inventory/node_token.html", context, status=status)


def answer_revocation(
    request: HttpRequest,
    *,
    token: NodeToken,
    sort: NodeTokens[Any, Any],
    around: Surroundings,
) -> HttpResponse:
    """Asks, then ends the token and leads back."""
    if request.method == "POST":
        sort.revoke(token=token, actor=person(request), now=timezone.now(), source_ip=source_ip(request))
        messages.success(request, _("The token %(token)s is revoked.") % {"token": token})
        return htmx.redirect(request, around.back_url)
    return htmx.render(request, "inventory/node_token_revoke.html", {"token": token, "around": around})


@dataclass(frozen=True)
class TokenRow:
    token: NodeToken
    state: str
    state_label: str

    @property
    def still_sent(self) -> bool:
        """Whether somebody sent it after its end."""
        end = self.token.revoked_at or self.token.expires_at
        used = self.token.last_used_at
        return self.state != "active" and used is not None and used >= end


def token_rows(
    sort: NodeTokens[Any, Any], nodes: Collection[int], *, now: datetime, revoked: bool = True
) -> dict[int, list[TokenRow]]:
    """Tokens by their node's primary key, the latest first; those that were revoked only if asked for, or if
    they are still sent."""
    found = sort.tokens._default_manager.filter(node__in=nodes).select_related("created_by")
    if not revoked:
        found = found.filter(Q(revoked_at=None) | Q(last_used_at__gte=F("revoked_at")))
    rows: dict[int, list[TokenRow]] = {}
    for token in found.order_by("-created_at", "-pk"):
        rows.setdefault(token.node_id, []).append(TokenRow(token, *_state(token, now=now)))
    return rows


def _state(token: NodeToken, *, now: datetime) -> tuple[str, str]:
    if token.revoked_at is not None:
        return "revoked", _("revoked")
    if token.expires_at <= now:
        return "expired", _("expired")
    return "active", _("active")
