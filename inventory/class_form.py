"""A DeviceClass as it is typed: as a form, or as YAML. Either becomes the other with all that was typed."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from django import forms
from django.http import QueryDict
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from inventory import class_text, describe
from inventory.classes import Wanted

DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
# One entry's parameters may have 10 KiB, a class 32 entries; nobody types more than this.
MAX_CONFIG = 64 * 1024
MAX_LABELS = 16 * 1024
FORM, YAML = "form", "yaml"
_CODE = {"class": "inv-expression inv-lines", "spellcheck": "false"}


class ClassForm(forms.Form):
    """Its expressions are several fields of one name: see `expressions`. Written as YAML (`mode`), only the
    `text` counts, and the fields of the form are read from it."""

    mode = forms.ChoiceField(
        choices=[(FORM, FORM), (YAML, YAML)], required=False, initial=FORM, widget=forms.HiddenInput
    )
    cluster = forms.ChoiceField(label=_("Cluster"))
    name = forms.CharField(
        label=_("Name"),
        max_length=253,
        help_text=_("People choose classes by name: say what it gives, such as a100-80g."),
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    text = forms.CharField(
        label=_("The class as YAML"),
        max_length=class_text.MAX_TEXT,
        required=False,
        strip=False,
        help_text=_(
            "The whole object: apiVersion, kind, metadata with name, labels and annotations, and spec."
        ),
        widget=forms.Textarea(attrs={**_CODE, "rows": 24, "autocomplete": "off"}),
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
        widget=forms.Textarea(attrs={**_CODE, "rows": 4}),
    )
    labels = forms.CharField(
        label=_("Labels"),
        max_length=MAX_LABELS,
        required=False,
        help_text=_("One on a line, as in YAML: example.org/rack: r7"),
        widget=forms.Textarea(attrs={**_CODE, "rows": 2}),
    )
    annotations = forms.CharField(
        label=_("Annotations"),
        max_length=MAX_LABELS,
        required=False,
        help_text=_("One on a line, as in YAML."),
        widget=forms.Textarea(attrs={**_CODE, "rows": 2}),
    )
    reason = forms.CharField(
        label=_("Why"), max_length=1000, required=False, help_text=_("It is kept with the version.")
    )
    # The resourceVersion that the form was filled from: a change by somebody else meanwhile is a conflict.
    seen_version = forms.CharField(max_length=63, required=False, widget=forms.HiddenInput)
    # Labels and annotations that the form was filled with: those that nobody touched stay as they are.
    labels_were = forms.CharField(max_length=MAX_LABELS, required=False, widget=forms.HiddenInput)
    annotations_were = forms.CharField(max_length=MAX_LABELS, required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, clusters: Sequence[str], fixed: str | bool = False, **kwargs: Any) -> None:
        """`clusters` are those to choose from; with `fixed` neither cluster nor name can be changed. As a
        text it is the name, which YAML must say, too."""
        super().__init__(*args, **kwargs)
        self.fixed = fixed
        self.read: class_text.ClassText | None = None
        said = str(self.data.get("mode", "") if self.is_bound else self.initial.get("mode", ""))
        self.written = said == YAML
        if fixed:
            del self.fields["cluster"], self.fields["name"]
        else:
            field = self.fields["cluster"]
            assert isinstance(field, forms.ChoiceField)
            field.choices = [(name, name) for name in clusters]
            if self.written:
                self.fields["name"].required = False
        data = self.data
        typed = (
            data.getlist("expression") if isinstance(data, QueryDict) else self.initial.get("expressions", [])
        )
        # Never empty: there is always a place to write one.
        self.expressions: list[str] = [str(text).replace("\r\n", "\n") for text in typed] or [""]
        self.expression_errors: list[str] = []

    @property
    def class_name(self) -> str:
        """The name as typed, or as YAML says it."""
        if self.read is not None:
            return self.read.name
        return str(self.cleaned_data.get("name", "") or (self.fixed if isinstance(self.fixed, str) else ""))

    def clean_name(self) -> str:
        """A name that Kubernetes takes: a DNS subdomain."""
        name: str = self.cleaned_data["name"]
        if not self.written:
            check_name(name)
        return name

    def clean_config(self) -> list[dict[str, Any]]:
        """The entries of spec.config."""
        return [] if self.written else config_entries(self.cleaned_data["config"])

    def clean_labels(self) -> dict[str, str]:
        """Names and texts."""
        return {} if self.written else mapping(self.cleaned_data["labels"])

    def clean_annotations(self) -> dict[str, str]:
        """Names and texts."""
        return {} if self.written else mapping(self.cleaned_data["annotations"])

    def clean(self) -> dict[str, Any]:
        """What is written as YAML is read."""
        values = super().clean() or self.cleaned_data
        if self.written and "text" in values:
            try:
                self.read = class_text.read_one(values["text"])
                check_name(self.read.name)
            except class_text.UnreadableText as wrong:
                self.add_error("text", wrong.told)
            except forms.ValidationError as wrong:
                self.add_error("text", wrong)
            else:
                if isinstance(self.fixed, str) and self.read.name != self.fixed:
                    said = _t("The name of a class cannot be changed: this one is %(name)s.")
                    self.add_error("text", said % {"name": self.fixed})
        return values

    def wanted(self) -> Wanted:
        """What `inventory.classes` is asked for."""
        if self.read is not None:
            wanted = self.read.wanted
            labels, annotations = wanted.labels or {}, wanted.annotations or {}
        else:
            wanted = Wanted(
                expressions=[text.strip() for text in self.expressions if text.strip()],
                extended_resource_name=self.cleaned_data["extended_resource_name"],
                config=self.cleaned_data["config"],
            )
            labels, annotations = self.cleaned_data["labels"], self.cleaned_data["annotations"]
        return Wanted(
            expressions=wanted.expressions,
            extended_resource_name=wanted.extended_resource_name,
            config=wanted.config,
            labels=_changed(labels, self.cleaned_data.get("labels_were", "")),
            annotations=_changed(annotations, self.cleaned_data.get("annotations_were", "")),
        )

    def refuse(self, field: str, message: str) -> None:
        """Shows an error of the domain next to what it is about."""
        if self.written:
            self.add_error("text" if field else None, message)
        elif field == "expressions":
            self.expression_errors.append(message)
        else:
            self.add_error(field if field in self.fields else None, message)

    # --- the one way of writing and the other ------------------------------------------------------

    def turned(self) -> "ClassForm":
        """The same as YAML if it was a form, and as a form if it was YAML. Only after it was cleaned without
        an error."""
        values: dict[str, Any] = {
            name: self.cleaned_data.get(name, "")
            for name in ("cluster", "reason", "seen_version", "labels_were", "annotations_were")
        }
        if self.read is not None:
            wanted = self.read.wanted
            values |= {"mode": FORM, "name": self.read.name, **typed(wanted)}
        else:
            full = Wanted(
                expressions=[text.strip() for text in self.expressions if text.strip()],
                extended_resource_name=self.cleaned_data["extended_resource_name"],
                config=self.cleaned_data["config"],
                labels=self.cleaned_data["labels"],
                annotations=self.cleaned_data["annotations"],
            )
            values |= {"mode": YAML, "text": class_text.written(self.class_name, full)}
        names = [] if self.fixed else [value for value, _label in self.fields["cluster"].choices]  # type: ignore[attr-defined]  # a choice field
        return ClassForm(clusters=names, fixed=self.fixed, initial=values)


def typed(wanted: Wanted) -> dict[str, Any]:
    """What the fields of a form hold for a class."""
    return {
        "expressions": list(wanted.expressions),
        "extended_resource_name": wanted.extended_resource_name,
        "config": _yaml(list(wanted.config)),
        "labels": _yaml(dict(wanted.labels or {})),
        "annotations": _yaml(dict(wanted.annotations or {})),
    }


def check_name(name: str) -> None:
    """A name that Kubernetes takes: a DNS subdomain. Raises ValidationError."""
    if len(name) > 253 or not DNS_SUBDOMAIN.fullmatch(name):
        raise forms.ValidationError(
            _t("Lower-case letters, digits, hyphens and dots; it starts and ends with a letter or digit.")
        )


def config_entries(text: str) -> list[dict[str, Any]]:
    """The entries of a `config` written in YAML; none for nothing. Raises ValidationError."""
    if not text.strip():
        return []
    entries = _loaded(text)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise forms.ValidationError(_t("This is not a list of entries: start each with “- opaque:”."))
    return entries


def mapping(text: str) -> dict[str, str]:
    """Labels or annotations, one on a line. Raises ValidationError."""
    if not text.strip():
        return {}
    found = _loaded(text)
    if not isinstance(found, dict):
        raise forms.ValidationError(_t("Write one on a line, as “name: text”."))
    for key, value in found.items():
        if not isinstance(key, str) or not isinstance(value, str):
            said = _t("“%(key)s” is not a text: write it in quotes.") % {"key": str(key)[:100]}
            raise forms.ValidationError(said)
    return found


def _changed(texts: Mapping[str, str], were: str) -> Mapping[str, str] | None:
    """None where nobody touched them."""
    try:
        before = mapping(were)
    except forms.ValidationError:
        before = {}
    return None if dict(texts) == before else texts


def _yaml(value: Any) -> str:

    return describe.as_yaml(value) if value else ""


def _loaded(text: str) -> Any:
    try:
        found = yaml.load(text, Loader=class_text.Loader)  # noqa: S506 - a SafeLoader
        json.dumps(found, allow_nan=False)
    except yaml.YAMLError as error:
        raise forms.ValidationError(_t("This is not YAML: %(reason)s") % {"reason": _said(error)}) from None
    except (TypeError, ValueError, RecursionError):
        raise forms.ValidationError(_t("This YAML holds something that JSON cannot say.")) from None
    return found


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
