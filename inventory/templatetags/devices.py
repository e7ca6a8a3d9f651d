"""Tags and filters of pages that tell who holds devices."""

from collections.abc import Mapping, Sequence

from django import template
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from inventory.holders import Holder, PodUsing
from portal.templatetags.ui import local_time

register = template.Library()

# Of a device that many share, as many are named in a row of a list.
HOLDERS_SHOWN = 2


@register.filter
def of_hold(pods: Mapping[tuple[str, str], Sequence[PodUsing]], holder: Holder) -> Sequence[PodUsing]:
    """The Pods of one hold, of what `inventory.holders.pods_using` says; none where the reader sees none."""
    return pods.get((holder.claim.uid, holder.request), ()) if holder.claim else ()


@register.simple_tag
def held_by(holders: Sequence[Holder], in_step: bool) -> SafeString:  # noqa: FBT001 - tags take what they are given
    """Whose a device is and since when, for a cell of a list. A tag rather than a template: a page has one
    for every row."""
    if not holders:
        return mark_safe('<span class="cd-muted">–</span>')
    named = format_html_join(
        "",
        '<div class="inv-held">{}{}</div>',
        ((_project(holder), _since(holder, in_step=in_step)) for holder in holders[:HOLDERS_SHOWN]),
    )
    if len(holders) <= HOLDERS_SHOWN:
        return named
    more = _("and %(n)s more") % {"n": len(holders) - HOLDERS_SHOWN}
    return format_html('{}<div class="inv-sub">{}</div>', named, more)


def _project(holder: Holder) -> SafeString | str:
    if holder.project is None:
        return format_html('<span class="cd-muted">{}</span>', _("no project"))
    if holder.claim is None:
        return str(holder.project)
    address = reverse("project-detail", args=[holder.project.slug])
    return format_html('<a class="inv-plain" href="{}">{}</a>', address, holder.project)


def _since(holder: Holder, *, in_step: bool) -> SafeString | str:
    if holder.since is None:
        return ""
    since: SafeString | str = local_time(holder.since)
    if in_step:
        since = mark_safe(_("since %(since)s") % {"since": since})  # noqa: S308 - words of ours around a tag
    return format_html(' <span class="inv-since">{}</span>', since)
