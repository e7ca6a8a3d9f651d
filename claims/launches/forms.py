"""Forms of launches as they are drawn. What is right and wrong is decided by `claims.launches.terms` and
`claims.launches.launching`."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from django import forms
from django.utils.translation import gettext_lazy as _

from claims.asks.reading import WHOLE
from claims.catalogue.forms import DomainForm
from claims.launches.terms import MAX_VALUE, LaunchTerms
from claims.models import Flavor, LaunchTemplate
from portal.accounts.models import Project

_PLAIN = {"autocomplete": "off", "spellcheck": "false"}
_CODE = {"rows": 3, "class": "cd-mono", "spellcheck": "false"}


class LaunchTemplateForm(DomainForm):
    name = forms.CharField(label=_("Name"), help_text=_("What researchers call it, such as Training run."))
    slug = forms.CharField(
        label=_("Short name"),
        help_text=_("Lower-case letters, digits and hyphens; addresses and programs use it."),
        widget=forms.TextInput(attrs=_PLAIN),
    )
    description = forms.CharField(
        label=_("Description"), required=False, widget=forms.Textarea(attrs={"rows": 2, "maxlength": 1000})
    )
    kind = forms.CharField(label=_("Kind"), widget=forms.RadioSelect(choices=LaunchTemplate.Kind.choices))
    image = forms.CharField(label=_("Image"), widget=forms.TextInput(attrs=_PLAIN | {"maxlength": 400}))
    command = forms.CharField(
        label=_("Command"),
        required=False,
        help_text=_("One word a line; empty for what the image says."),
        widget=forms.Textarea(attrs=_CODE),
    )
    args = forms.CharField(
        label=_("Arguments"),
        required=False,
        help_text=_("One word a line. $(NAME) stands for the variable of that name."),
        widget=forms.Textarea(attrs=_CODE),
    )
    env = forms.CharField(
        label=_("Environment"),
        required=False,
        help_text=_(
            "One variable a line, as NAME=value. No secrets: everybody in the namespace can read it."
        ),
        widget=forms.Textarea(attrs=_CODE),
    )
    cpu = forms.CharField(label=_("CPUs"), widget=forms.TextInput(attrs=_PLAIN | {"maxlength": 32}))
    memory = forms.CharField(label=_("Memory"), widget=forms.TextInput(attrs=_PLAIN | {"maxlength": 32}))
    volumes = forms.CharField(
        label=_("Volumes"),
        required=False,
        help_text=_("One a line: /data=name-of-a-claim of the namespace, or /scratch=empty:10Gi."),
        widget=forms.Textarea(attrs=_CODE),
    )
    port = forms.CharField(
        label=_("Port of the notebook"),
        required=False,
        widget=forms.NumberInput(attrs={"min": 1, "max": 65535, "inputmode": "numeric"}),
    )
    user_id = forms.CharField(
        label=_("Runs as user"),
        required=False,
        help_text=_("Its number within the image; never 0."),
        widget=forms.NumberInput(attrs={"min": 1, "inputmode": "numeric"}),
    )
    parameters = forms.CharField(
        label=_("What a researcher fills in"),
        required=False,
        help_text=_(
            "A list in YAML, each with name and label, and maybe default, pattern, choices, required: true. "
            "Each becomes an environment variable."
        ),
        widget=forms.Textarea(attrs=_CODE | {"rows": 6}),
    )
    flavors = forms.CharField(
        label=_("Only for these flavors"), required=False, widget=forms.CheckboxSelectMultiple
    )
    projects = forms.CharField(
        label=_("Only for these projects"), required=False, widget=forms.CheckboxSelectMultiple
    )

    def __init__(
        self, *, values: Mapping[str, Any], errors: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        super().__init__(values=values, errors=errors)
        flavors = Flavor.objects.filter(archived_at=None).order_by("name")
        projects = Project.objects.filter(archived_at=None).order_by("name")
        self._choose("flavors", [(flavor.slug, flavor.name) for flavor in flavors])
        self._choose("projects", [(project.slug, project.name) for project in projects])

    def _choose(self, name: str, choices: list[tuple[str, str]]) -> None:
        widget = self.fields[name].widget
        assert isinstance(widget, forms.CheckboxSelectMultiple)  # as declared above
        widget.choices = choices


def template_values(terms: LaunchTerms, *, version: int) -> dict[str, Any]:
    """A template as its form shows it."""
    return terms.as_dict() | {
        "version": str(version),
        "command": "\n".join(terms.command),
        "args": "\n".join(terms.args),
        "env": "\n".join(f"{name}={value}" for name, value in terms.env.items()),
        "volumes": "\n".join(
            f"{volume['path']}={volume.get('claim') or 'empty:' + volume['size']}" for volume in terms.volumes
        ),
        "port": "" if terms.port is None else str(terms.port),
        "user_id": str(terms.user_id),
        "parameters": _as_yaml(terms.parameters),
    }


def _as_yaml(parameters: Sequence[Mapping[str, Any]]) -> str:
    if not parameters:
        return ""
    plain = [dict(parameter) for parameter in parameters]
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100)


class LaunchForm(forms.Form):
    """The parameters of one template; each field has the parameter's name behind a prefix, so that no name
    is one that the page itself needs."""

    key = forms.CharField(widget=forms.HiddenInput)

    def __init__(
        self,
        *,
        template: LaunchTemplate,
        values: Mapping[str, Any] | None = None,
        errors: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.messages = errors
        defaults = {FIELD + p["name"]: p.get("default", "") for p in template.parameters}
        shown = {"key": str(uuid.uuid4()), **defaults, **(values or {})}
        super().__init__(data=shown if errors is not None else None, initial=shown)
        for parameter in template.parameters:
            self.fields[FIELD + parameter["name"]] = _field(parameter)

    def full_clean(self) -> None:
        """Puts the domain's messages where they belong."""
        self.cleaned_data = {}
        self._errors = forms.utils.ErrorDict()
        for name, messages in (self.messages or {}).items():
            field = FIELD + name
            self.add_error(field if name != WHOLE and field in self.fields else None, list(messages))


FIELD = "p-"


def filled_in(values: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a form that was sent, by their names."""
    return {name.removeprefix(FIELD): value for name, value in values.items() if name.startswith(FIELD)}


def _field(parameter: Mapping[str, Any]) -> forms.CharField:
    required = bool(parameter.get("required"))
    label = parameter.get("label") or parameter["name"]
    if choices := parameter.get("choices"):
        blank = [] if required and parameter.get("default") else [("", "–")]
        widget: forms.Widget = forms.Select(choices=[*blank, *((c, c) for c in choices)])
    else:
        widget = forms.TextInput(attrs=_PLAIN | {"maxlength": MAX_VALUE})
    pattern = parameter.get("pattern")
    told = _("Like this: %(pattern)s") % {"pattern": pattern} if pattern else ""
    return forms.CharField(label=label, required=required, help_text=told, widget=widget)
