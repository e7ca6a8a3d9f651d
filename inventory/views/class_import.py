"""Classes from YAML files: every document is read, told of, and handed to the editor."""

from dataclasses import dataclass
from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods

from inventory import class_text
from inventory.class_effect import ClassEffect, effect_of
from inventory.class_form import check_name
from inventory.class_text import ClassText
from inventory.models import Cluster, DeviceClass
from inventory.views.class_admin import initial_of
from portal import htmx
from portal.access import require_administrator

# The effect of each is computed; more are read, and told without it.
EFFECTS = 20


class ImportForm(forms.Form):
    """A text or a file with one or several DeviceClasses."""

    cluster = forms.ChoiceField(label=_("Cluster"))
    text = forms.CharField(
        label=_("YAML"),
        max_length=class_text.MAX_TEXT,
        required=False,
        strip=False,
        help_text=_("One or several documents, or a List of them."),
        widget=forms.Textarea(attrs={"rows": 14, "class": "inv-expression inv-lines", "spellcheck": "false"}),
    )
    file = forms.FileField(label=_("or a file to upload"), required=False)

    def __init__(self, *args: Any, clusters: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["cluster"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(name, name) for name in clusters]
        self.read: list[ClassText] = []

    def clean_file(self) -> str:
        """The uploaded text; "" when nothing was uploaded."""
        upload: UploadedFile[bytes] | None = self.cleaned_data.get("file")
        if not upload:
            return ""
        if (upload.size or 0) > class_text.MAX_TEXT:
            raise forms.ValidationError(_t("This file is too large for classes."))
        try:
            text: str = upload.read().decode("utf-8")
        except UnicodeDecodeError:
            raise forms.ValidationError(_t("This file is not text.")) from None
        return text

    def clean(self) -> dict[str, Any]:
        """Either of both is read."""
        values = super().clean() or self.cleaned_data
        if "text" not in values or "file" not in values:
            return values
        field = "file" if values["file"] else "text"
        if not values[field].strip():
            self.add_error("text", _t("Paste the YAML, or upload it below."))
            return values
        try:
            self.read = list(class_text.read_all(values[field]))
            for found in self.read:
                check_name(found.name)
        except class_text.UnreadableText as wrong:
            self.add_error(field, wrong.told)
        except forms.ValidationError as wrong:
            self.add_error(field, wrong)
        return values


@dataclass(frozen=True)
class Imported:
    """One document: what goes to the editor, and what it would change."""

    found: ClassText
    text: str
    current: DeviceClass | None
    hidden: dict[str, str]
    effect: ClassEffect | None


@require_administrator
@require_http_methods(["GET", "HEAD", "POST"])
def class_import(request: HttpRequest) -> HttpResponse:
    """Read classes, and offer each to the editor."""
    clusters = {c.name: c for c in Cluster.objects.filter(enabled=True).order_by("name")}
    form = ImportForm(
        request.POST or None,
        request.FILES or None,
        clusters=list(clusters),
        initial={"cluster": request.GET.get("cluster", "")},
    )
    rows: list[Imported] = []
    if request.method == "POST" and form.is_valid():
        cluster = clusters[form.cleaned_data["cluster"]]
        known = {
            c.name: c
            for c in DeviceClass.objects.filter(cluster=cluster, name__in=[f.name for f in form.read])
        }
        for place, found in enumerate(form.read):
            current = known.get(found.name)
            effect = None
            if place < EFFECTS:
                effect = effect_of(
                    cluster=cluster,
                    name=found.name,
                    before=current.spec if current else None,
                    after=found.wanted.spec(),
                    with_waiting=False,
                )
            hidden = {}
            if current is not None:
                filled = initial_of(current)
                hidden = {name: filled[name] for name in ("seen_version", "labels_were", "annotations_were")}
            text = class_text.written(found.name, found.wanted)
            rows.append(Imported(found, text, current, hidden, effect))
    context = {"form": form, "rows": rows, "cluster": form.cleaned_data.get("cluster", "") if rows else ""}
    status = 422 if form.is_bound and form.errors else 200
    return htmx.render(request, "inventory/class_import.html", context, status=status)
