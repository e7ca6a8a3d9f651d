"""Maintenance that a request would run into, in words."""

from collections.abc import Sequence
from datetime import datetime

from django.utils import timezone
from django.utils.dateformat import format as date_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from claims.asks.values import Reading
from inventory.models.taints import Place
from inventory.taints import notices

NODES_NAMED = 5


def maintenance_ahead(reading: Reading, *, nodes: Sequence[str] | None, now: datetime) -> list[str]:
    """What is planned, until the time asked for is over, where it would fit; of the whole cluster while that
    is not known. A query or two."""
    if reading.cluster is None or reading.duration is None:
        return []
    until = now + reading.duration
    if not nodes:
        planned = notices.between(reading.cluster.pk, start=now, end=until)
        return [
            _said(_("Maintenance of the whole cluster from %(start)s to %(end)s: %(reason)s."), one)
            for one in planned
            if one.scope == Place.Scope.CLUSTER
        ]
    found = []
    for one, hit in notices.running_into(reading.cluster.pk, nodes=nodes, start=now, end=until):
        if len(hit) == len(nodes):
            found.append(
                _said(_("Maintenance wherever it fits, from %(start)s to %(end)s: %(reason)s."), one)
            )
            continue
        words = ngettext(
            "Maintenance on %(count)d of the nodes where it fits, from %(start)s to %(end)s: %(reason)s. "
            "It is %(names)s.",
            "Maintenance on %(count)d of the nodes where it fits, from %(start)s to %(end)s: %(reason)s. "
            "They are %(names)s.",
            len(hit),
        )
        names = ", ".join(hit[:NODES_NAMED]) + (" …" if len(hit) > NODES_NAMED else "")
        found.append(_said(words, one, count=len(hit), names=names))
    return found


def _said(words: str, one: object, **more: object) -> str:
    moments = {
        name: date_format(timezone.localtime(getattr(one, f"{name}s_at")), "Y-m-d H:i")
        for name in ("start", "end")
    }
    return words % {**moments, "reason": getattr(one, "reason", ""), **more}
