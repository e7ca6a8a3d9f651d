"""The catalogue for administrators: flavors, where they are served, and deriving them from the clusters."""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from claims.asks.reading import WrongValue, read_integer
from claims.catalogue import derive, flavor_terms, flavors, placements
from claims.catalogue.flavor_terms import Terms, UnableToChangeFlavor
from claims.catalogue.forms import FlavorForm, PlacementForm, flavor_values, placement_values
from claims.catalogue.icons import ICONS
from claims.catalogue.placement_terms import read_terms
from claims.catalogue.places import choices_of
from claims.models import Flavor, Placement
from portal import htmx
from portal.access import may_administer, person, require_administrator, require_reader_of_everything
from portal.accounts.audit import source_ip


@require_safe
@require_reader_of_everything
def flavor_list(request: HttpRequest) -> HttpResponse:
    """Every flavor in the order of the catalogue, the archived ones last, with how each is served now."""
    rows = list(
        Flavor.objects.prefetch_related("placements__cluster", "projects", "groups")
        .select_related("changed_by")
        .order_by("position", "name", "pk")
    )
    placed = [placement for flavor in rows for placement in flavor.placements.all()]
    chosen = choices_of(placed)
    told = [{"flavor": flavor, "places": [(p, chosen[p.pk]) for p in _ordered(flavor)]} for flavor in rows]
    context = {
        "rows": [row for row in told if row["flavor"].archived_at is None],  # type: ignore[attr-defined] # a dict of two kinds
        "archived": [row for row in told if row["flavor"].archived_at is not None],  # type: ignore[attr-defined] # the same
        "may_administer": may_administer(person(request)),
    }
    return htmx.render(request, "claims/flavor_list.html", context, partial="flavors")


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def flavor_create(request: HttpRequest) -> HttpResponse:
    """Make a flavor; where it is served is asked next."""
    if request.method == "POST":
        try:
            made = flavors.create(
                terms=flavor_terms.read_terms(request.POST),
                user=person(request),
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        except UnableToChangeFlavor as error:
            form = FlavorForm(values=request.POST, errors=error.errors)
            return _flavor_page(request, form, None, status=422)
        messages.success(request, _("The flavor is made. Now say where it is served."))
        return htmx.redirect(request, "placement-create", made.slug)
    plain = Terms(slug="", name="")
    return _flavor_page(request, FlavorForm(values=flavor_values(plain, version=1)), None)


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def flavor_edit(request: HttpRequest, slug: str) -> HttpResponse:
    """Change a flavor; its placements are listed beside."""
    flavor = get_object_or_404(Flavor, slug=slug)
    if request.method == "POST":
        try:
            flavors.update(
                flavor=flavor,
                terms=flavor_terms.read_terms(request.POST),
                seen_version=_version(request),
                user=person(request),
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        except UnableToChangeFlavor as error:
            return _refused_flavor(request, flavor, error)
        messages.success(request, _("Saved."))
        return htmx.redirect(request, "flavor-edit", flavor.slug)
    values = flavor_values(flavor_terms.terms_of(flavor), version=flavor.version)
    return _flavor_page(request, FlavorForm(values=values), flavor)


@require_POST
@require_administrator
def flavor_archive(request: HttpRequest, slug: str) -> HttpResponse:
    """Take it out of the catalogue, or put it back ("restore")."""
    flavor = get_object_or_404(Flavor, slug=slug)
    archived = request.POST.get("restore") is None
    flavors.archive(
        flavor=flavor,
        archived=archived,
        user=person(request),
        now=timezone.now(),
        source_ip=source_ip(request),
    )
    told = _("“%(name)s” is archived; requests made of it go on.") if archived else _("“%(name)s” is back.")
    messages.success(request, told % {"name": flavor.name})
    return htmx.redirect(request, "flavor-list")


@require_POST
@require_administrator
def flavor_move(request: HttpRequest, slug: str) -> HttpResponse:
    """One place up or down."""
    flavor = get_object_or_404(Flavor, slug=slug)
    flavors.move(
        flavor=flavor,
        up=request.POST.get("to") == "up",
        user=person(request),
        now=timezone.now(),
        source_ip=source_ip(request),
    )
    return htmx.redirect(request, "flavor-list")


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def flavor_derive(request: HttpRequest) -> HttpResponse:
    """What the clusters have that could be a flavor; one click makes it."""
    if request.method == "POST":
        try:
            made = derive.derive(
                key=request.POST.get("key", ""),
                user=person(request),
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        except UnableToChangeFlavor as error:
            messages.error(request, str(error).removeprefix("__all__: "))
            return htmx.redirect(request, "flavor-derive")
        messages.success(request, _("“%(name)s” is in the catalogue. Look it over.") % {"name": made.name})
        return htmx.redirect(request, "flavor-edit", made.slug)
    return render(request, "claims/flavor_derive.html", {"proposals": derive.proposals()})


# --- placements -------------------------------------------------------------------------------------


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def placement_create(request: HttpRequest, slug: str) -> HttpResponse:
    """Serve the flavor on one more cluster or node pool."""
    return _placement_page(request, get_object_or_404(Flavor, slug=slug), None)


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def placement_edit(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """Change how one place serves it."""
    placement = _placement_or_404(slug, pk)
    return _placement_page(request, placement.flavor, placement)


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def placement_remove(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """No longer serve it there, after a page that says what it means."""
    placement = _placement_or_404(slug, pk)
    back = reverse("flavor-edit", args=[slug])
    if request.method == "POST":
        _tell(
            request,
            _("It is no longer served there."),
            lambda: placements.remove(
                placement=placement,
                seen_version=placement.flavor.version,
                user=person(request),
                now=timezone.now(),
                source_ip=source_ip(request),
            ),
        )
        return htmx.redirect(request, back)
    names = {"flavor": placement.flavor, "cluster": placement.cluster}
    context = {
        "title": _("No longer serve %(what)s?") % {"what": _("%(flavor)s on %(cluster)s") % names},
        "text": _("Nobody can ask for it there any more."),
        "consequences": [_("Requests that were made go on until their end.")],
        "submit_label": _("Remove"),
        "cancel_url": back,
    }
    return render(request, "components/confirm.html", context)


@require_POST
@require_administrator
def placement_switch(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """To DRA, back to the Device Plugin, or by the conditions."""
    placement = _placement_or_404(slug, pk)
    _tell(
        request,
        _("Switched. Requests that were made keep what they have."),
        lambda: placements.switch(
            placement=placement,
            stage=request.POST.get("stage", ""),
            user=person(request),
            now=timezone.now(),
            source_ip=source_ip(request),
        ),
    )
    return htmx.redirect(request, "flavor-edit", slug)


# --- inside -----------------------------------------------------------------------------------------


def _flavor_page(
    request: HttpRequest, form: FlavorForm, flavor: Flavor | None, *, status: int = 200, **more: Any
) -> HttpResponse:
    placed = _ordered(flavor) if flavor else []
    chosen = choices_of(placed)
    context = {
        "form": form,
        "flavor": flavor,
        "icons": ICONS.items(),
        "icon": form["icon"].value() or "cpu",
        "places": [(placement, chosen[placement.pk], placements.findings(placement)) for placement in placed],
        "stages": Placement.Stage.choices,
        **more,
    }
    return render(request, "claims/flavor_form.html", context, status=status)


def _refused_flavor(request: HttpRequest, flavor: Flavor, error: UnableToChangeFlavor) -> HttpResponse:
    values = request.POST.copy()
    current: dict[str, Any] = {}
    if error.conflict:
        flavor.refresh_from_db()
        # Saved again, it is a decision made with the other's change in sight.
        values["version"] = str(flavor.version)
        current = flavor_terms.terms_of(flavor).as_dict()
    form = FlavorForm(values=values, errors=error.errors)
    differs = [
        (form.fields[name].label, _shown(value))
        for name, value in current.items()
        if _shown(value) != _shown(values.getlist(name) if isinstance(value, list) else form[name].value())
    ]
    status = 409 if error.conflict else 422
    return _flavor_page(request, form, flavor, status=status, differs=differs)


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if value in (None, False):
        return ""
    return "✓" if value in (True, "on") else str(value).replace("\r\n", "\n").strip()


def _placement_page(request: HttpRequest, flavor: Flavor, placement: Placement | None) -> HttpResponse:
    status = 200
    form = PlacementForm(values=placement_values(placement, version=flavor.version))
    if request.method == "POST":
        try:
            placements.save(
                flavor=flavor,
                placement=placement,
                terms=read_terms(request.POST),
                seen_version=_version(request),
                user=person(request),
                now=timezone.now(),
                source_ip=source_ip(request),
            )
        except UnableToChangeFlavor as error:
            values = request.POST.copy()
            if error.conflict:
                flavor.refresh_from_db()
                values["version"] = str(flavor.version)
            form = PlacementForm(values=values, errors=error.errors)
            status = 409 if error.conflict else 422
        else:
            messages.success(request, _("Saved."))
            return htmx.redirect(request, "flavor-edit", flavor.slug)
    if placement is not None:
        # What was typed is not what is stored: the row is read again for its name and its warnings.
        placement = Placement.objects.select_related("flavor", "cluster").get(pk=placement.pk)
    context = {
        "form": form,
        "flavor": flavor,
        "placement": placement,
        "findings": placements.findings(placement) if placement else [],
        "choice": choices_of([placement])[placement.pk] if placement else None,
    }
    return render(request, "claims/placement_form.html", context, status=status)


def _ordered(flavor: Flavor) -> list[Placement]:
    rows = flavor.placements.all()
    if not getattr(flavor, "_prefetched_objects_cache", None):
        rows = rows.select_related("cluster", "flavor")
    return sorted(rows, key=lambda placement: (placement.position, placement.pk))


def _placement_or_404(slug: str, pk: int) -> Placement:
    found = Placement.objects.select_related("flavor", "cluster").filter(pk=pk, flavor__slug=slug).first()
    if found is None:
        raise Http404
    return found


def _version(request: HttpRequest) -> int:
    try:
        return read_integer(request.POST, "version") or 0
    except WrongValue:
        return 0


def _tell(request: HttpRequest, done: str, change: Callable[[], None]) -> None:
    try:
        change()
    except UnableToChangeFlavor as error:
        messages.error(request, " ".join(" ".join(said) for said in error.errors.values()))
    else:
        messages.success(request, done)
