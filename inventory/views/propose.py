"""Proposing a change of a class for one or several clusters: the effect on each first, then the proposal."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from inventory.forms import ClassForm
from inventory.models import ClassProposal, ClassVersion, Cluster, DeviceClass, ProposalTarget
from inventory.proposals import drawing, reading, rules
from inventory.proposals.diffs import Row, diff_of
from inventory.proposals.drawing import Draft, UnableToPropose
from portal import htmx
from portal.access import person, require_administrator
from portal.accounts import audit
from portal.texts import searched

Kind = ClassProposal.Kind


class ProposalForm(forms.Form):
    """`spec` and `labels` are JSON; an empty spec deletes, empty labels leave them as they are."""

    name = forms.CharField(max_length=253, widget=forms.HiddenInput)
    kind = forms.CharField(max_length=10, required=False, widget=forms.HiddenInput)
    spec = forms.CharField(max_length=reading.MAX_JSON, required=False, strip=False, widget=forms.HiddenInput)
    labels = forms.CharField(max_length=64 * 1024, required=False, widget=forms.HiddenInput)
    annotations = forms.CharField(
        max_length=reading.MAX_JSON, required=False, strip=False, widget=forms.HiddenInput
    )
    reason = forms.CharField(
        label=gettext_lazy("Why"),
        max_length=drawing.MAX_REASON,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=gettext_lazy("Whoever approves it reads this, and it is kept with the version."),
    )
    take_over = forms.BooleanField(
        label=gettext_lazy("Take over fields that another field manager owns"),
        required=False,
        help_text=gettext_lazy("Otherwise a cluster where somebody else keeps the class stops the roll-out."),
    )
    confirmed = forms.CharField(
        label=gettext_lazy("Type the name of the class"),
        max_length=253,
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )

    def refuse(self, refused: UnableToPropose) -> None:
        """Shows what cannot be proposed next to what it is about, as far as that is seen."""
        self.add_error(refused.field if refused.field == "confirmed" else None, refused.message)

    def tell_hidden(self) -> None:
        """Shows what is wrong with fields that nobody sees above the form."""
        for field in self.hidden_fields():
            for message in self.errors.get(field.name, ()) if self.is_bound else ():
                self.add_error(None, message)


@dataclass(frozen=True)
class Change:
    """What the class shall be, wherever that is chosen."""

    name: str
    spec: dict[str, Any] | None
    labels: dict[str, str] | None
    annotations: dict[str, str] | None

    def draft(self, cluster: Cluster) -> Draft:
        return Draft(cluster, self.spec, self.labels, self.annotations)


@dataclass(frozen=True)
class Place:
    """A cluster to choose, and what would change there; `target` None = nothing."""

    cluster: Cluster
    chosen: bool
    order: str
    exists: bool
    target: ProposalTarget | None
    diff: Sequence[Row]


@require_administrator
@require_http_methods(["GET", "HEAD", "POST"])
def class_propose(request: HttpRequest) -> HttpResponse:
    """From the editor's form, from a version, or of a deletion; nothing is proposed before its effect was
    shown."""
    clusters = list(Cluster.objects.filter(enabled=True).defer("kubeconfig_encrypted").order_by("name"))
    if request.method != "POST":
        return _start(request, clusters)
    if "from_editor" in request.POST:
        return _from_editor(request, clusters)
    form = ProposalForm(request.POST)
    chosen = _chosen(request, clusters)
    if "propose" in request.POST and form.is_valid():
        try:
            proposal = _propose(request, form, chosen)
        except UnableToPropose as refused:
            form.refuse(refused)
        else:
            messages.success(request, _("It is proposed."))
            return htmx.redirect(request, "class-proposal-detail", proposal.pk)
    elif "propose" not in request.POST:
        form.is_valid()
        for field in ("reason", "confirmed"):
            form.errors.pop(field, None)
    return _page(request, form, clusters, chosen)


def _start(request: HttpRequest, clusters: Sequence[Cluster]) -> HttpResponse:
    name = searched(request.GET.get("class", ""), limit=253)
    where = searched(request.GET.get("cluster", ""), limit=63)
    initial: dict[str, Any] = {"name": name, "kind": ""}
    version = request.GET.get("version", "")
    if not name and not version:
        return _broken(request, "", [_("There is nothing to propose: begin at the class.")], status=200)
    if version.isascii() and version.isdigit() and len(version) < 19:
        found = get_object_or_404(ClassVersion.objects.select_related("cluster"), pk=int(version))
        drift = "restore" in request.GET
        where = found.cluster.name
        initial |= {
            "name": found.name,
            "kind": Kind.RESTORE if drift else Kind.ROLL_BACK,
            "spec": "" if drift and found.deleted else json.dumps(found.spec),
            "labels": _json(found.labels),
            "annotations": _json(found.annotations),
        }
    else:
        get_object_or_404(DeviceClass, cluster__name=where, name=name)
        initial["kind"] = Kind.DELETE
    form = ProposalForm(initial=initial)
    return _page(request, form, clusters, [c for c in clusters if c.name == where])


def _from_editor(request: HttpRequest, clusters: Sequence[Cluster]) -> HttpResponse:
    """What is typed in the editor becomes the spec of the proposal."""
    # The name of a class that is edited stands in the address.
    fixed = searched(request.GET.get("class", ""), limit=253)
    names = [cluster.name for cluster in clusters]
    editor = ClassForm(request.POST, clusters=names, fixed=fixed or False)
    where = searched(request.POST.get("cluster", ""), limit=63)
    if not editor.is_valid():
        said = [str(error) for errors in editor.errors.values() for error in errors]
        return _broken(request, fixed or searched(request.POST.get("name", ""), limit=253), said, status=422)
    name = editor.class_name
    wanted = editor.wanted()
    form = ProposalForm(
        initial={
            "name": name,
            "kind": Kind.EDIT,
            "spec": json.dumps(wanted.spec()),
            "labels": _json(wanted.labels),
            "annotations": _json(wanted.annotations),
            "reason": editor.cleaned_data.get("reason", ""),
        }
    )
    return _page(request, form, clusters, [c for c in clusters if c.name == where])


def _broken(request: HttpRequest, name: str, said: Sequence[str], *, status: int) -> HttpResponse:
    context = {"broken": said, "places": [], "name": name}
    return htmx.render(request, "inventory/proposal_form.html", context, status=status)


def _json(marks: Mapping[str, str] | None) -> str:
    return "" if marks is None else json.dumps(dict(marks))


def _propose(request: HttpRequest, form: ProposalForm, chosen: Sequence[Cluster]) -> ClassProposal:
    asked = form.cleaned_data
    change = _read(form)
    kind = asked["kind"] if asked["kind"] in (Kind.ROLL_BACK, Kind.RESTORE) else ""
    return drawing.propose(
        name=asked["name"],
        drafts=[change.draft(cluster) for cluster in chosen],
        author=person(request),
        now=timezone.now(),
        reason=asked["reason"],
        kind=kind,
        confirmed=asked["confirmed"],
        take_over=asked["take_over"],
        source_ip=audit.source_ip(request),
    )


def _read(form: ProposalForm) -> Change:
    said = {name: str(form[name].value() or "") for name in ("name", "kind", "spec", "labels", "annotations")}
    # Looked for even where the form has refused it.
    said["name"] = searched(said["name"], limit=253)
    if not said["spec"].strip():
        # Only what says so deletes: a spec that was lost on the way does not.
        if said["kind"] not in (Kind.DELETE, Kind.RESTORE):
            raise UnableToPropose("", _("There is nothing to propose: begin at the class."))
        return Change(said["name"], None, None, None)
    spec = reading.read_spec(said["name"], reading.read_json(said["spec"]))
    marks = (
        reading.read_json(said[kind]) if said[kind].strip() else None for kind in ("labels", "annotations")
    )
    return Change(said["name"], spec, *reading.read_marks(*marks))


def _page(
    request: HttpRequest, form: ProposalForm, clusters: Sequence[Cluster], chosen: Sequence[Cluster]
) -> HttpResponse:
    name = str(form["name"].value() or "")
    places: list[Place] = []
    try:
        places = _places(_read(form), clusters, chosen)
    except UnableToPropose as refused:
        if form.is_bound:
            if not form.errors:
                form.refuse(refused)
        else:
            form = ProposalForm({"name": name, "reason": "-"})
            form.is_valid()
            form.refuse(refused)
    form.tell_hidden()
    users = sorted({user for place in places if place.target for user in place.target.users})
    context = {
        "form": form,
        "name": name,
        "places": places,
        "users": users,
        "deletes": bool(places) and not str(form["spec"].value() or "").strip(),
        "nothing": bool(chosen) and not any(place.target for place in places),
        "rule": rules.WORDS[rules.in_force()],
    }
    status = 422 if form.is_bound and form.errors else 200
    return htmx.render(request, "inventory/proposal_form.html", context, status=status)


def _places(change: Change, clusters: Sequence[Cluster], chosen: Sequence[Cluster]) -> list[Place]:
    present = set(DeviceClass.objects.filter(name=change.name).values_list("cluster_id", flat=True))
    keys = [cluster.pk for cluster in chosen]
    places = []
    for cluster in clusters:
        is_chosen = cluster.pk in keys
        target = drawing.draw(change.name, change.draft(cluster)) if is_chosen else None
        places.append(
            Place(
                cluster=cluster,
                chosen=is_chosen,
                order=str(keys.index(cluster.pk) + 1) if is_chosen else "",
                exists=cluster.pk in present,
                target=target,
                diff=diff_of(target) if target else (),
            )
        )
    return places


def _chosen(request: HttpRequest, clusters: Sequence[Cluster]) -> list[Cluster]:
    """The clusters that are ticked, in the order that their numbers give, then by name."""
    names = set(request.POST.getlist("cluster"))

    def place(cluster: Cluster) -> tuple[int, str]:
        text = request.POST.get(f"order-{cluster.name}", "").strip()
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 99_999
        return number, cluster.name

    return sorted((cluster for cluster in clusters if cluster.name in names), key=place)
