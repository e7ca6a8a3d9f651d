"""Requests: list, form with its live panel, page of one request, and what people do with it."""

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from claims.asks import judging as asks
from claims.asks.again import values_of
from claims.asks.drafts import get_draft_or_404
from claims.asks.forms import RequestForm, initial_values
from claims.asks.nowhere import archived_of
from claims.asks.saved import get_saved_or_404
from claims.asks.saved_forms import SavingForm
from claims.asks.values import UnableToSubmit
from claims.changes.told import changes_of
from claims.launches.told import launches_context, told_of
from claims.models import LaunchTemplate, Request
from claims.money.pricing import price_list
from claims.preview.panel import preview
from claims.requests import actions as requests
from claims.requests.actions import UnableToChange
from claims.requests.approvals import decidable, may_decide
from claims.requests.browse import get_request_or_404, may_end
from claims.requests.in_the_way import in_the_way
from claims.requests.listing import REQUEST_HEADER, request_lines, requests_for
from claims.requests.story import Story, story
from portal import access, csvs, htmx, lists
from portal.access import person
from portal.accounts.audit import source_ip
from portal.accounts.models import Project, User

EXPORT_CHUNK = 500


@require_safe
def request_list(request: HttpRequest) -> HttpResponseBase:
    """Requests of the reader's projects; filters are in the address."""
    user = person(request)
    listing = requests_for(user)
    if (back := listing.remembered(request)) is not None:
        return back
    state = listing.read(request)
    visible = Request.objects.all().visible_to(user)
    rows = state.narrowed(visible.select_related("project", "cluster", "requester", "flavor"))
    rows = rows.defer("cluster__kubeconfig_encrypted", "spec")
    if state.wants_csv:
        found = state.ordered(rows).iterator(chunk_size=EXPORT_CHUNK)
        return csvs.download("requests.csv", REQUEST_HEADER, request_lines(found))
    context = {
        "page": state.page(rows),
        "facets": state.facets(visible),
        "can_request": Project.objects.all().workable_by(user).exists(),
        "to_decide": decidable(user).count(),
    }
    return lists.answer(request, "claims/request_list.html", context, state=state)


@require_http_methods(["GET", "HEAD", "POST"])
def request_create(request: HttpRequest) -> HttpResponse:
    """The form. Submitting asks the cluster on trial first; what was typed stays on any error.

    `like` (the key of a request) and `saved` (of a saved one) fill it in; what of that is no longer possible
    is told next to its field."""
    user, now = person(request), timezone.now()
    if request.method == "POST":
        try:
            made = requests.submit(
                user=user,
                values=request.POST,
                key=request.POST.get("key"),
                now=now,
                source_ip=source_ip(request),
            )
        except UnableToSubmit as error:
            form = RequestForm(user=user, now=now, values=request.POST.dict(), errors=error.errors)
            return form_page(request, form, status=422)
        if made.created_at != now:
            messages.info(
                request, _("This form was sent before. This is what came of it then; nothing was done again.")
            )
        if launch := chosen_launch(request.POST):
            return htmx.redirect(request, "request-launch", made.key, launch.slug)
        return htmx.redirect(request, "request-detail", made.key)
    given, told = _filled_in(request, user)
    values = initial_values(user=user, now=now, chosen={**given, **request.GET.dict()})
    values["key"] = given.get("key") or values["key"]
    # What somebody else once typed is judged at once; what nobody has typed yet is not.
    errors = asks.read(values, user=user, now=now).errors if told else None
    return form_page(request, RequestForm(user=user, now=now, values=values, errors=errors), told=told)


@require_safe
def request_preview(request: HttpRequest) -> HttpResponse:
    """The panel beside the form, for what has been typed so far."""
    user, now = person(request), timezone.now()
    reading = asks.read(request.GET, user=user, now=now)
    context = {"preview": preview(reading, prices=price_list(), now=now, viewer=user)}
    return render(request, "claims/_preview.html", context)


@require_safe
def request_detail(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """One request. Its status part asks again every few seconds until the state is final."""
    user, now = person(request), timezone.now()
    found = get_request_or_404(user, key)
    told = story(request=found, now=now)
    if htmx.wants_partial(request) and not told.final and request.GET.get("seen") == told.version:
        # Nothing new: htmx leaves the page, and what is selected in it, alone.
        return HttpResponse(status=204)
    may_act = access.may_work_in(user, found.project)
    context = {
        "story": told,
        "request_": found,
        **launches_context(found, may_act=may_act),
        "changes": changes_of(found, user),
        "in_the_way": in_the_way(found, viewer=user, now=now),
        "may_act": may_act,
        "may_ask": may_act or bool(asks.projects_for(user)),
        "may_end": may_end(user, found),
        "may_decide": may_decide(user, found, told.decisions),
    }
    return htmx.render(request, "claims/request_detail.html", context, partial="status", finished=told.final)


@require_POST
def request_hold(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """Hold the device from now on."""
    return _act(request, key, requests.hold, _("The desk holds the device as soon as one is free."))


@require_POST
def request_retry(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """Start a failed request again."""
    return _act(request, key, requests.retry, _("The desk tries again."))


@require_http_methods(["GET", "HEAD", "POST"])
def request_release(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """Release, after a page that says what it means."""
    if request.method == "POST":
        return _act(request, key, requests.release, _("The request is ending."), to_end=True)
    user, now = person(request), timezone.now()
    found = get_request_or_404(user, key, to_end=True)
    return _confirm(
        request,
        title=_("Release %(name)s?") % {"name": found.object_name},
        text=_("The claim and the desk's hold Pod are removed from the cluster."),
        consequences=_consequences(story(request=found, now=now)),
        submit_label=_("Release"),
        found=found,
    )


@require_http_methods(["GET", "HEAD", "POST"])
def request_cancel(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """Cancel a request that got nothing yet, after a page that says what it means."""
    if request.method == "POST":
        return _act(request, key, requests.cancel, _("The request is cancelled."), to_end=True)
    found = get_request_or_404(person(request), key, to_end=True)
    return _confirm(
        request,
        title=_("Cancel %(name)s?") % {"name": found.object_name},
        text=_("It got nothing yet; nothing is lost but the request itself."),
        consequences=[],
        submit_label=_("Cancel the request"),
        found=found,
    )


# --- inside ---------------------------------------------------------------------------------------


def form_page(
    request: HttpRequest,
    form: RequestForm,
    *,
    status: int = 200,
    told: tuple[str, str] | None = None,
    saving: SavingForm | None = None,
) -> HttpResponse:
    """The form as it is; `told` (tone and text) says where its values come from, `saving` is what was typed
    to save it as a template."""
    context = {
        "form": form,
        "told": told,
        "saving": saving or SavingForm(projects=form.projects),
        "launch": chosen_launch(request.POST if request.method == "POST" else request.GET),
        "no_project": not form.projects,
        "archived_projects": [] if form.projects else archived_of(person(request)),
        "no_cluster": not form.clusters,
        "flavored": form.reading.flavor is not None,
        "preview": preview(form.reading, prices=price_list(), now=timezone.now(), viewer=person(request)),
    }
    return htmx.render(request, "claims/request_form.html", context, partial="fields", status=status)


def chosen_launch(values: Mapping[str, Any]) -> LaunchTemplate | None:
    """What is to be started on the request once it is made."""
    slug = str(values.get("launch") or "")[:40]
    return LaunchTemplate.objects.offered().filter(slug=slug).first() if slug else None


def _filled_in(request: HttpRequest, user: User) -> tuple[Mapping[str, str], tuple[str, str] | None]:
    """The values of a request or of a saved one that the address names, and what to say about them. Http404
    for one that the reader may not know of."""
    if key := _key(request.GET.get("like")):
        like = get_request_or_404(user, key)
        said = _("Filled in as in %(name)s. Look it over: prices and what is free may have changed.")
        return values_of(like), ("info", said % {"name": like.object_name})
    if key := _key(request.GET.get("saved")):
        saved = get_saved_or_404(user, key)
        return saved.values, ("info", _("Filled in from “%(name)s”.") % {"name": saved.name})
    if key := _key(request.GET.get("draft")):
        # With the draft's key: kept again it is the same draft, sent it is no draft any more.
        draft = get_draft_or_404(user, key)
        return draft.values | {"key": str(draft.key)}, ("info", _("Your draft, as you left it."))
    return {}, None


def _key(typed: str | None) -> uuid.UUID | None:
    if not typed:
        return None
    try:
        return uuid.UUID(typed)
    except ValueError:
        raise Http404 from None


def _act(
    request: HttpRequest, key: uuid.UUID, change: Callable[..., None], done: str, *, to_end: bool = False
) -> HttpResponse:
    user = person(request)
    found = get_request_or_404(user, key, for_write=not to_end, to_end=to_end)
    try:
        change(request=found, user=user, now=timezone.now(), source_ip=source_ip(request))
    except UnableToChange as error:
        messages.error(request, error.message)
    else:
        messages.success(request, done)
    return htmx.redirect(request, "request-detail", key)


def _confirm(
    request: HttpRequest,
    *,
    title: str,
    text: str,
    consequences: list[str],
    submit_label: str,
    found: Request,
) -> HttpResponse:
    context = {
        "title": title,
        "text": text,
        "consequences": consequences,
        "submit_label": submit_label,
        "cancel_url": reverse("request-detail", args=[found.key]),
        "on_cluster": True,
    }
    return render(request, "components/confirm.html", context)


def _consequences(told: Story) -> list[str]:
    said = []
    started = [one.launch.object_name for one in told_of(told.request) if one.may_stop]
    if started:
        said.append(
            _("What the desk started on it is removed, with its Pods: %(names)s.")
            % {"names": ", ".join(started)}
        )
    # Pods of a Job are called after it.
    users = [pod for pod in told.users if not pod.name.startswith(tuple(started))]
    if users:
        names = ", ".join(pod.name for pod in users)
        said.append(
            (
                _("These Pods still use it and will be deleted, as the flavor says: %(pods)s.")
                if told.request.ends_pods
                else _(
                    "These Pods still use it: %(pods)s. They are not deleted; until they end, it still costs."
                )
            )
            % {"pods": names}
        )
    elif told.devices:
        said.append(_("The device is free for others a few seconds later."))
    else:
        said.append(_("It holds no device at present."))
    said.append(_("Pods that want to start with it later will wait in vain."))
    return said
