"""Forms of the inventory as they are drawn. What is right and wrong is decided by the domain, for commands
too."""

import json
import re
from collections.abc import Sequence
from typing import Any

import yaml
from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.http import QueryDict
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from inventory.classes import Wanted
from inventory.models import Cluster

MAX_KUBECONFIG_BYTES = 256 * 1024
# One entry's parameters may have 10 KiB, a class 32 entries; nobody types more than this.
MAX_CONFIG = 64 * 1024
DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


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
            attrs={"rows": 8, "class": "inv-expression", "spellcheck": "false", "autocomplete": "off"}
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


class ClassForm(forms.Form):
    """A DeviceClass as a form. Its expressions are several fields of one name: see `expressions`."""

    cluster = forms.ChoiceField(label=_("Cluster"))
    name = forms.CharField(
        label=_("Name"),
        max_length=253,
        help_text=_("People choose classes by name: say what it gives, such as a100-80g."),
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    extended_resource_name = forms.CharField(
        label=_("Extended resource name"),
        max_length=253,
        required=False,
        help_text=_(
            "Pods that ask for this resource get a device of the class, as they would from a Device Plugin: "
            "for example example.com/gpu."
        ),
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    config = forms.CharField(
        label=_("Configuration for drivers"),
        max_length=MAX_CONFIG,
        required=False,
        strip=False,
        help_text=_("YAML as in spec.config: a list of entries with opaque.driver and opaque.parameters."),
        widget=forms.Textarea(attrs={"rows": 4, "class": "inv-expression", "spellcheck": "false"}),
    )
    reason = forms.CharField(
        label=_("Why"), max_length=1000, required=False, help_text=_("It is kept with the version.")
    )
    # The resourceVersion that the form was filled from: a change by somebody else meanwhile is a conflict.
    seen_version = forms.CharField(max_length=63, required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, clusters: Sequence[str], fixed: bool = False, **kwargs: Any) -> None:
        """`clusters` are those to choose from; with `fixed` neither cluster nor name can be changed."""
        super().__init__(*args, **kwargs)
        self.fixed = fixed
        if fixed:
            del self.fields["cluster"], self.fields["name"]
        else:
            field = self.fields["cluster"]
            assert isinstance(field, forms.ChoiceField)
            field.choices = [(name, name) for name in clusters]
        data = self.data
        typed = (
            data.getlist("expression") if isinstance(data, QueryDict) else self.initial.get("expressions", [])
        )
        # Never empty: there is always a place to write one.
        self.expressions: list[str] = [str(text).replace("\r\n", "\n") for text in typed] or [""]
        self.expression_errors: list[str] = []

    def clean_name(self) -> str:
        """A name that Kubernetes takes: a DNS subdomain."""
        name: str = self.cleaned_data["name"]
        if not DNS_SUBDOMAIN.fullmatch(name):
            raise forms.ValidationError(
                _t("Lower-case letters, digits, hyphens and dots; it starts and ends with a letter or digit.")
            )
        return name

    def clean_config(self) -> list[dict[str, Any]]:
        """The entries of spec.config."""
        return config_entries(self.cleaned_data["config"])

    def wanted(self) -> Wanted:
        """What `inventory.classes` is asked for."""
        return Wanted(
            expressions=[text.strip() for text in self.expressions if text.strip()],
            extended_resource_name=self.cleaned_data["extended_resource_name"],
            config=self.cleaned_data["config"],
        )

    def refuse(self, field: str, message: str) -> None:
        """Shows an error of the domain next to what it is about."""
        if field == "expressions":
            self.expression_errors.append(message)
        else:
            self.add_error(field if field in self.fields else None, message)


def config_entries(text: str) -> list[dict[str, Any]]:
    """The entries of a `config` written in YAML; none for nothing. Raises ValidationError."""
    if not text.strip():
        return []
    try:
        entries = yaml.load(text, Loader=_PlainLoader)  # noqa: S506 - a SafeLoader
        json.dumps(entries, allow_nan=False)
    except yaml.YAMLError as error:
        raise forms.ValidationError(_t("This is not YAML: %(reason)s") % {"reason": _said(error)}) from None
    except (TypeError, ValueError, RecursionError):
        raise forms.ValidationError(_t("This YAML holds something that JSON cannot say.")) from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise forms.ValidationError(_t("This is not a list of entries: start each with “- opaque:”."))
    return entries


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


class _PlainLoader(yaml.SafeLoader):
    """YAML without aliases: a few lines of them can stand for gigabytes."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError(_t("aliases are not supported here"))
        return super().compose_node(parent, index)


def _said(error: yaml.YAMLError) -> str:
    """A parser's complaint on one line, with its place."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return _t("line %(line)d, column %(column)d: %(problem)s") % {
            "line": mark.line + 1,
            "column": mark.column + 1,
            "problem": error.problem or "",
        }
    return str(error)
