"""The icons that a flavor may have, and what they show: for those who choose one without seeing it."""

from collections.abc import Mapping

from django.utils.translation import gettext_lazy as _
from django_stubs_ext import StrOrPromise

# Names of Tabler's.
ICONS: Mapping[str, StrOrPromise] = {
    "cpu": _("Chip"),
    "cpu-2": _("Chip with a second one inside"),
    "device-desktop": _("Screen"),
    "server-2": _("Servers"),
    "bolt": _("Lightning"),
    "rocket": _("Rocket"),
    "brain": _("Brain"),
    "photo": _("Picture"),
    "flask": _("Flask"),
    "atom": _("Atom"),
    "chart-dots": _("Chart with dots"),
    "network": _("Globe with a network"),
    "database": _("Database"),
    "box": _("Box"),
    "layout-grid": _("Four squares"),
    "puzzle": _("Piece of a puzzle"),
    "school": _("Graduation cap"),
    "telescope": _("Telescope"),
    "dna-2": _("DNA"),
}
