"""Runs every rule on a cluster and keeps what they say."""

import logging
from datetime import datetime

from inventory import contract
from inventory.findings import storage
from inventory.findings.facts import Facts
from inventory.findings.model import Found, Rule, Unjudged
from inventory.findings.registry import RULES
from inventory.findings.storage import Outcome
from inventory.findings.thresholds import Thresholds
from inventory.models import Cluster
from portal.garbage import uncollected

log = logging.getLogger(__name__)

# What is more numerous than this has one cause; the rest of it would only hide the others.
MAX_FOUND = 5000


def evaluate_all(*, now: datetime, thresholds: Thresholds) -> None:
    """Evaluate every cluster. One that cannot be evaluated does not stop the others."""
    for cluster in Cluster.objects.defer("kubeconfig_encrypted").order_by("pk"):
        try:
            evaluate(cluster=cluster, now=now, thresholds=thresholds)
        except Exception:
            log.exception("the findings of %s could not be brought up to date", cluster.name)


def evaluate(*, cluster: Cluster, now: datetime, thresholds: Thresholds) -> None:
    """Judge one cluster by every rule. The number of queries depends on the rules, not on the cluster's
    size."""
    facts = Facts(cluster=cluster, streams=cluster.streams.all(), now=now, thresholds=thresholds)
    if facts.sees("nodes") and facts.sees("resourceslices"):
        contract.note_changes(cluster=cluster, observed=contract.observe(cluster), now=now)
    with uncollected():
        outcomes = [judge(rule, facts) for rule in RULES]
    storage.keep(cluster=cluster, outcomes=outcomes, now=now)


def judge(rule: Rule, facts: Facts) -> Outcome:
    """What one rule says of a cluster: nothing (unknown) while it does not see what it needs."""
    for resource in rule.needs:
        if not facts.sees(resource):
            since = facts.seen_until(resource) or facts.now
            absent = not facts.serves(resource)
            return Outcome(rule, None, missing=resource, unknown_since=since, absent=absent)
    found: list[Found] = []
    unjudged: dict[str, datetime | None] = {}
    truncated = False
    try:
        for item in rule.check(facts):
            if isinstance(item, Unjudged):
                unjudged[item.subject] = item.since
            elif len(found) < MAX_FOUND:
                found.append(item)
            else:
                truncated = True
    except Exception:
        # One rule that trips over an odd object must not silence the others.
        log.exception("the rule %s failed on %s", rule.kind, facts.cluster.name)
        return Outcome(rule, None, unknown_since=facts.now)
    return Outcome(rule, found, unjudged=unjudged, truncated=truncated)
