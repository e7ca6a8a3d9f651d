"""The editor of a price book as it is drawn. What is right and wrong is decided by
`claims.money.price_terms`."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.core.exceptions import NON_FIELD_ERRORS
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from claims.asks.reading import WHOLE
from claims.models import PriceRule
from claims.money.price_terms import MAX_ROWS, SECTIONS
from inventory.models import DeviceClass, DeviceProfile
from portal.accounts.models import Project

# Empty rows to write into, in each section.
BLANKS = 2
_PLAIN = {"autocomplete": "off", "spellcheck": "false"}
_NUMBER = {**_PLAIN, "inputmode": "decimal"}
_NAME = re.compile(r"(prices|rules|discounts)-([0-9]{1,3})-([a-z_]+)", re.ASCII)


class JudgedForm(forms.Form):
    """Fields that were judged elsewhere: shows what was typed, with the messages next to their fields."""

    def __init__(
        self, *, values: Mapping[str, Any], errors: Mapping[str, Sequence[str]], prefix: str = ""
    ) -> None:
        self.messages = errors
        # Bound to nothing Django would read: values are shown as they were typed.
        super().__init__(initial=dict(values), prefix=prefix or None)
        self._errors = forms.utils.ErrorDict()
        for name, said in errors.items():
            self._errors[name if name in self.fields else NON_FIELD_ERRORS] = self.error_class(list(said))

    def full_clean(self) -> None:
        """Nothing: see `__init__`."""


class HeadForm(JudgedForm):
    name = forms.CharField(label=_("Name"), help_text=_("Such as “Prices 2027”."))
    currency = forms.CharField(label=_("Currency"), widget=forms.TextInput(attrs={**_PLAIN, "maxlength": 3}))
    note = forms.CharField(
        label=_("Why there are new prices"), widget=forms.Textarea(attrs={"rows": 2, "maxlength": 500})
    )


class PriceForm(JudgedForm):
    device_class = forms.CharField(
        label=_("Device class"), widget=forms.TextInput(attrs={**_PLAIN, "list": "device-classes"})
    )
    product = forms.CharField(
        label=_("Product"), widget=forms.TextInput(attrs={**_PLAIN, "list": "products"})
    )
    per_hour = forms.CharField(label=_("Per device and hour"), widget=forms.TextInput(attrs=_NUMBER))


class RuleForm(JudgedForm):
    order = forms.CharField(
        label=_("Order"), widget=forms.TextInput(attrs={**_PLAIN, "inputmode": "numeric", "maxlength": 3})
    )
    label = forms.CharField(label=_("Label"))
    use = forms.ChoiceField(label=_("For time that is"), choices=PriceRule.Use.choices)
    device_class = forms.CharField(
        label=_("Device class"), widget=forms.TextInput(attrs={**_PLAIN, "list": "device-classes"})
    )
    product = forms.CharField(
        label=_("Product"), widget=forms.TextInput(attrs={**_PLAIN, "list": "products"})
    )
    profile = forms.CharField(
        label=pgettext_lazy("of devices", "Profile"),
        widget=forms.TextInput(attrs={**_PLAIN, "list": "profiles", "class": "cd-mono"}),
    )
    resource = forms.CharField(label=_("Extended resource"), widget=forms.TextInput(attrs=_PLAIN))
    expression = forms.CharField(
        label=_("CEL over the attributes of the device"),
        widget=forms.Textarea(attrs={"rows": 1, "class": "cd-mono", "spellcheck": "false"}),
    )
    unit = forms.ChoiceField(label=_("Price"), choices=PriceRule.Unit.choices)
    capacity = forms.CharField(
        label=_("Capacity that is counted"),
        widget=forms.TextInput(attrs={**_PLAIN, "placeholder": "gpu.example.com/memory"}),
    )
    per = forms.CharField(
        label=_("Of so much of it"), widget=forms.TextInput(attrs={**_PLAIN, "placeholder": "1Gi"})
    )
    per_hour = forms.CharField(label=_("Per hour"), widget=forms.TextInput(attrs=_NUMBER))


class DiscountForm(JudgedForm):
    project = forms.CharField(
        label=_("Project"), widget=forms.TextInput(attrs={**_PLAIN, "list": "projects"})
    )
    cost_centre = forms.CharField(
        label=_("or cost centre"), widget=forms.TextInput(attrs={**_PLAIN, "list": "cost-centres"})
    )
    percent = forms.CharField(label=_("Percent off"), widget=forms.TextInput(attrs=_NUMBER))


_FORMS: Mapping[str, type[JudgedForm]] = {
    "prices": PriceForm,
    "rules": RuleForm,
    "discounts": DiscountForm,
}


class Editor:
    """All forms of a document; `errors` by path, as `price_terms` names them."""

    def __init__(
        self, *, document: Mapping[str, Any], errors: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        errors = errors or {}
        self.head = HeadForm(values=document, errors=_below("", errors, SECTIONS))
        self.sections = {name: self._rows(name, document, errors) for name in SECTIONS}
        self.wrong = bool(errors)

    @property
    def prices(self) -> list[JudgedForm]:
        return self.sections["prices"]

    @property
    def rules(self) -> list[JudgedForm]:
        return self.sections["rules"]

    @property
    def discounts(self) -> list[JudgedForm]:
        return self.sections["discounts"]

    @staticmethod
    def _rows(
        name: str, document: Mapping[str, Any], errors: Mapping[str, Sequence[str]]
    ) -> list[JudgedForm]:
        rows = document.get(name) or []
        return [
            _FORMS[name](
                values={"order": str(index + 1), **(rows[index] if index < len(rows) else {})},
                errors=_below(f"{name}.{index}", errors, ()),
                prefix=f"{name}-{index}",
            )
            for index in range(min(len(rows) + BLANKS, MAX_ROWS))
        ]

    def suggestions(self) -> dict[str, Sequence[Any]]:
        """What may be named, for the browser to complete; four queries."""
        profiles = DeviceProfile.objects.order_by("product", "digest")
        projects = list(Project.objects.filter(archived_at=None).order_by("slug"))
        return {
            "device_classes": sorted(set(DeviceClass.objects.values_list("name", flat=True))),
            "products": sorted({profile.product for profile in profiles if profile.product}),
            "profiles": [(profile.digest, profile.product or profile.driver) for profile in profiles],
            "projects": [(project.slug, project.name) for project in projects],
            "cost_centres": sorted({project.cost_centre for project in projects if project.cost_centre}),
        }


def document_from(data: QueryDict) -> dict[str, Any]:
    """What the editor sends, as a document: rows without anything in them are none, rules by their order."""
    document: dict[str, Any] = {name: data.get(name, "") for name in ("name", "currency", "note")}
    cells: dict[str, dict[int, dict[str, str]]] = {name: {} for name in SECTIONS}
    for name, value in data.items():
        found = _NAME.fullmatch(name)
        if found and isinstance(value, str) and (found[3] in SECTIONS[found[1]] or found[3] == "order"):
            cells[found[1]].setdefault(int(found[2]), {})[found[3]] = value.strip()
    for section, rows in cells.items():
        ordered = sorted(rows.items(), key=lambda row: (_order(row[1].pop("order", "")), row[0]))
        document[section] = [row for _index, row in ordered]
    return document


def _order(typed: str) -> int:
    return int(typed) if typed.isascii() and typed.isdigit() and len(typed) <= 3 else 1_000


def _below(
    path: str, errors: Mapping[str, Sequence[str]], sections: Sequence[str] | Mapping[str, Any]
) -> dict[str, Sequence[str]]:
    """The errors at a path, by what follows it; at the root, those of no section's row."""
    if path:
        found = {
            key.removeprefix(f"{path}."): said for key, said in errors.items() if key.startswith(f"{path}.")
        }
        return found | ({WHOLE: errors[path]} if path in errors else {})
    return {key: said for key, said in errors.items() if key.split(".")[0] not in sections or "." not in key}
