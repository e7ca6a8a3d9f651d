"""How pages tell from when to when a device was seen with a Pod, and by whom."""

from datetime import datetime

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from inventory.podresources.naming import NamedDevice, is_silent, until
from portal.templatetags.ui import local_time

register = template.Library()


@register.simple_tag
def seen_span(named: NamedDevice, ended_at: datetime | None = None) -> SafeString:
    """“as the kubelet reports it, from … until …”; a silent source is told, and so are gaps."""
    parts = {"source": named.source_label, "start": local_time(named.seen_from)}
    last = until(named, ended_at)
    if last is not None:
        said = format_html(
            _("as reported by {source}, from {start} until {end}"), **parts, end=local_time(last)
        )
    elif is_silent(named, now=timezone.now()):
        said = format_html(
            _("as reported by {source}, from {start}; unknown since {end}"),
            **parts,
            end=local_time(named.reported_at),
        )
    else:
        said = format_html(_("as reported by {source}, since {start}"), **parts)
    if named.gaps:
        gaps = ngettext(
            "; not looked at once in between", "; not looked at %(count)s times in between", len(named.gaps)
        ) % {"count": len(named.gaps)}
        said = format_html("{}{}", said, gaps)
    return said
