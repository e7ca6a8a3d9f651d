"""What a node reports of CDI, as a card beside the node's other facts."""

from typing import Any

from django import template
from django.utils import timezone

from inventory.cdi import words
from inventory.cdi.facts import judge_nodes
from inventory.models import CdiNode, Node

register = template.Library()


@register.inclusion_tag("inventory/cdi_card.html")
def cdi_card(node: Node) -> dict[str, Any]:
    """State and time of the node's report, with a link; nothing for a node that has no token."""
    found = list(CdiNode.objects.filter(cluster=node.cluster_id, name=node.name))
    judged = judge_nodes(found, now=timezone.now()) if found else []
    if not judged:
        return {"judged": None}
    return {
        "judged": judged[0],
        "state_label": words.STATES[judged[0].verdict.state],
        "why": words.why_unknown(judged[0].verdict),
    }
