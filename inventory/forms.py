"""Forms of the inventory as they are drawn. What is right and wrong is decided by the domain, for commands
too."""

from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from inventory.class_form import DNS_SUBDOMAIN, ClassForm, config_entries
from inventory.models import Cluster

__all__ = ["DNS_SUBDOMAIN", "ClassForm", "ClusterForm", "DeleteClassForm", "config_entries"]

MAX_KUBECONFIG_BYTES = 256 * 1024


class SecretTextarea(forms.Textarea):
    """Never shows again what was typed: a page may be cached, photographed or left open."""

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        del value
        return super().get_context(name, None, attrs)


class ClusterForm(forms.Form):
    """A cluster to follow, and how the desk signs in there."""

    name = forms.CharField(
        label=_("Name"),
        max_length=63,
        help_text=_("Lower-case letters, digits and hyphens; people see it, and addresses contain it."),
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    region = forms.CharField(label=_("Region"), max_length=63, required=False)
    credentials = forms.ChoiceField(
        label=_("How the desk signs in"),
        choices=[
            (
                Cluster.Credentials.STORED,
                _("With a kubeconfig that I paste or upload; it is stored encrypted"),
            ),
            (Cluster.Credentials.KUBECONFIG, _("With a kubeconfig file on the portal's disk")),
            (Cluster.Credentials.IN_CLUSTER, _("With the portal's own service account, in this cluster")),
        ],
        initial=Cluster.Credentials.STORED,
        widget=forms.RadioSelect,
    )
    kubeconfig_text = forms.CharField(
        label=_("Kubeconfig"),
        required=False,
        widget=SecretTextarea(
            attrs={
                "rows": 8,
                "class": "inv-expression inv-lines",
                "spellcheck": "false",
                "autocomplete": "off",
            }
        ),
        help_text=_("Pasted text is not shown again, not even after an error."),
        strip=False,
    )
    kubeconfig_file = forms.FileField(label=_("or a kubeconfig file to upload"), required=False)
    kubeconfig_path = forms.CharField(
        label=_("Path on the portal's disk"),
        max_length=1000,
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    context = forms.CharField(
        label=_("Context"),
        max_length=253,
        required=False,
        help_text=_("Which context of the kubeconfig; empty for its current one."),
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )

    def clean_kubeconfig_file(self) -> str:
        """The uploaded text; "" when nothing was uploaded."""
        upload: UploadedFile[bytes] | None = self.cleaned_data.get("kubeconfig_file")
        if not upload:
            return ""
        if (upload.size or 0) > MAX_KUBECONFIG_BYTES:
            raise forms.ValidationError(_t("This file is too large for a kubeconfig."))
        try:
            text: str = upload.read().decode("utf-8")
        except UnicodeDecodeError:
            raise forms.ValidationError(_t("This file is not text.")) from None
        return text

    def clean(self) -> dict[str, Any]:
        """Exactly the chosen way to sign in has to be filled in; the others are ignored."""
        values = super().clean() or self.cleaned_data
        way = values.get("credentials")
        text, upload = values.get("kubeconfig_text") or "", values.get("kubeconfig_file") or ""
        if way == Cluster.Credentials.STORED and "kubeconfig_file" in values:
            if text.strip() and upload:
                self.add_error("kubeconfig_text", _t("Paste a text or upload a file, not both."))
            elif not text.strip() and not upload.strip():
                self.add_error("kubeconfig_text", _t("Paste the kubeconfig, or upload it below."))
        if way == Cluster.Credentials.KUBECONFIG and not values.get("kubeconfig_path"):
            self.add_error("kubeconfig_path", _t("Give the path of the kubeconfig file."))
        return values

    def arguments(self) -> dict[str, str]:
        """What `inventory.clusters.add` is called with."""
        values, way = self.cleaned_data, self.cleaned_data["credentials"]
        stored, path = way == Cluster.Credentials.STORED, way == Cluster.Credentials.KUBECONFIG
        return {
            "name": values["name"],
            "region": values["region"],
            "kubeconfig_text": (values["kubeconfig_text"] or values["kubeconfig_file"]) if stored else "",
            "kubeconfig_path": values["kubeconfig_path"] if path else "",
            "context": values["context"] if stored or path else "",
        }

    def refuse(self, field: str, message: str) -> None:
        """Shows an error of the domain next to the field that it is about."""
        if field == "kubeconfig_text" and self.cleaned_data.get("kubeconfig_file"):
            field = "kubeconfig_file"
        self.add_error(field if field in self.fields else None, message)


# --- DeviceClasses --------------------------------------------------------------------------------


class DeleteClassForm(forms.Form):
    """Typing the name is asked for while somebody uses the class."""

    name = forms.CharField(
        label=_("Type the name of the class"),
        max_length=253,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )

    def __init__(self, *args: Any, expected: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.expected = expected

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if name != self.expected:
            raise forms.ValidationError(_t("This is not its name: nothing was deleted."))
        return name
