"""Filters of pages that tell who holds devices."""

from collections.abc import Mapping, Sequence

from django import template

from inventory.holders import Holder, PodUsing

register = template.Library()


@register.filter
def of_hold(pods: Mapping[tuple[str, str], Sequence[PodUsing]], holder: Holder) -> Sequence[PodUsing]:
    """The Pods of one hold, of what `inventory.holders.pods_using` says; none where the reader sees none."""
    return pods.get((holder.claim.uid, holder.request), ()) if holder.claim else ()
