"""What of CDI one reader sees, on pages and over REST alike.

Everybody sees whether a node is in order, its base specs and what is wrong with them. Specs of claims, which
tell who uses what, and what a spec would do to a container are for administrators and auditors.
"""

from collections.abc import Sequence

from django.db.models import QuerySet
from django.http import QueryDict

from inventory.cdi.comparison import Finding
from inventory.cdi.facts import Judged
from inventory.filters import clean_text
from inventory.models import CdiNode, CdiSpecFile


def wanted_nodes(params: QueryDict) -> QuerySet[CdiNode]:
    """Nodes by part of the name and by cluster; anything else is ignored."""
    nodes = CdiNode.objects.all()
    if text := clean_text(params.get("q", "")):
        nodes = nodes.filter(name__icontains=text)
    if cluster := clean_text(params.get("cluster", "")):
        nodes = nodes.filter(cluster__name=cluster)
    return nodes


def visible_findings(judged: Judged, *, detailed: bool) -> Sequence[Finding]:
    """Without those about claims, unless the reader sees everything (`detailed`)."""
    return [found for found in judged.verdict.findings if detailed or not found.claims]


def visible_files(judged: Judged, *, detailed: bool) -> Sequence[CdiSpecFile]:
    """Base specs, and claim specs for those who see everything."""
    return [file for file in judged.files if detailed or not file.claim_uid]
