"""What clusters say, in the reader's words: messages of the scheduler, of API servers, of Kueue and of CEL
whose forms are known. What is not known is not guessed at; the original is always shown beneath.
"""

import re
from collections.abc import Sequence

from django.utils import translation
from django.utils.translation import gettext_noop

# Part of a message → what it means; groups of the pattern stand in the sentence by name.
_KNOWN: Sequence[tuple[str, str]] = (
    # --- kube-scheduler: why no node fits, each with the number of nodes
    (r"0/(?P<n>\d+) nodes are available", gettext_noop("None of %(n)s nodes fits.")),
    (r"(?P<n>\d+) node\(s\) were unschedulable", gettext_noop("%(n)s cordoned.")),
    (
        r"(?P<n>\d+) cannot allocate all claims",
        gettext_noop("%(n)s without enough free devices that fit the claims."),
    ),
    (
        r"(?P<n>\d+) Insufficient (?P<what>[^\s,.]+(?:\.[^\s,.]+)*)",
        gettext_noop("%(n)s with too little %(what)s left."),
    ),
    (
        r"(?P<n>\d+) node\(s\) had untolerated taint\(?s?\)? ?\{(?P<what>[^}:]+)",
        gettext_noop("%(n)s kept free by the taint %(what)s."),
    ),
    (r"(?P<n>\d+) node\(s\) had untolerated taint\(s\)", gettext_noop("%(n)s kept free by a taint.")),
    (
        r"(?P<n>\d+) node\(s\) didn't match Pod's node affinity/selector",
        gettext_noop("%(n)s without the labels that the Pod asks for."),
    ),
    (
        r"(?P<n>\d+) node\(s\) didn't match pod (?:anti-)?affinity rules",
        gettext_noop("%(n)s excluded by affinity rules."),
    ),
    (
        r"(?P<n>\d+) node\(s\) didn't match pod topology spread",
        gettext_noop("%(n)s excluded by rules of spreading."),
    ),
    (r"(?P<n>\d+) Too many pods", gettext_noop("%(n)s full of Pods.")),
    (
        r"(?P<n>\d+) resourceclaim not available on the node",
        gettext_noop("%(n)s where the claim's devices are not."),
    ),
    (
        r"waiting for resource claim controller to create the resourceclaim",
        gettext_noop("The claim of the Pod is not made yet."),
    ),
    (r"resourceclaim in use", gettext_noop("The claim is in use by as many Pods as it may be.")),
    (
        r"(?:timed out|exceeded).{0,40}allocat",
        gettext_noop(
            "Trying out all combinations of devices took the scheduler too long: ask for something simpler."
        ),
    ),
    (
        r"unbound immediate PersistentVolumeClaims",
        gettext_noop("A volume that the Pod wants is not there yet."),
    ),
    # --- Kueue
    (
        r"insufficient (?:unused )?quota (?:in cohort )?for (?P<what>\S+)",
        gettext_noop("The queue's quota of %(what)s is used up."),
    ),
    (r"ClusterQueue (?P<what>\S+) is inactive", gettext_noop("The queue %(what)s is stopped.")),
    # --- API servers
    (r"exceeded quota: (?P<what>[^\s,]+)", gettext_noop("The quota %(what)s of the namespace is used up.")),
    (
        r'cannot (?P<verb>\w+) resource "(?P<what>[\w./-]+)"',
        gettext_noop("The desk's account may not do this there: %(verb)s %(what)s."),
    ),
    (
        r'admission webhook "(?P<what>[^"]+)" denied',
        gettext_noop("A rule of the cluster (%(what)s) refused it."),
    ),
    (r"violates PodSecurity", gettext_noop("The namespace's security rules do not admit such a Pod.")),
    (
        r"(?P<what>(?:DeviceClass|Namespace|ResourceClaim|Pod) \S+) was not found",
        gettext_noop("%(what)s does not exist there."),
    ),
    (
        r'(?P<kind>[\w.]+) "(?P<what>[^"]+)" not found',
        gettext_noop("%(kind)s %(what)s does not exist there."),
    ),
    (r"is being terminated", gettext_noop("The namespace is being deleted.")),
    (r"connection refused", gettext_noop("Nothing answers at the cluster's address.")),
    (
        r"certificate verify failed|x509|CERTIFICATE_VERIFY_FAILED",
        gettext_noop("The cluster's certificate is not trusted by the kubeconfig."),
    ),
    (
        r"Name or service not known|no such host|getaddrinfo|Temporary failure in name resolution",
        gettext_noop("The cluster's address is not known to the name service."),
    ),
    (r"No route to host|Network is unreachable", gettext_noop("No way leads to the cluster's network.")),
    (r"\btimed out\b|deadline exceeded", gettext_noop("The cluster did not answer in time.")),
    (r"etcdserver", gettext_noop("The cluster's own database is not well.")),
    (r"\bUnauthorized\b", gettext_noop("The cluster does not accept the desk's credentials.")),
    # --- CEL
    (r"undeclared reference to '(?P<what>[^']+)'", gettext_noop("There is nothing called %(what)s.")),
    (
        r"found no matching overload for '(?P<what>[^']+)' applied to '\([^']*Quantity",
        gettext_noop("Quantities are compared by a.compareTo(b) >= 0, not by a sign between them."),
    ),
    (
        r"found no matching overload for '(?P<what>[^']+)'",
        gettext_noop("%(what)s cannot be used on values of these types."),
    ),
    (r"no such key: (?P<what>\S+)", gettext_noop("Some device has no %(what)s: guard it with has().")),
    (r"Syntax error", gettext_noop("The expression is incomplete here, or has a sign too many.")),
)
KNOWN = tuple((re.compile(pattern), sentence) for pattern, sentence in _KNOWN)
# Longer texts are no messages but dumps; each pattern would have to look at all of them.
LONGEST = 4_000


def explained(text: str) -> list[str]:
    """Sentences that say what a cluster's message means, in the order of the message; none where it is not
    known."""
    found: list[tuple[int, int, str]] = []
    # The sentences are marked above.
    say = translation.gettext
    for pattern, sentence in KNOWN:
        for match in pattern.finditer(text[:LONGEST]):
            # The first, more special pattern that reads a part has it.
            if not any(start < match.end() and match.start() < end for start, end, _told in found):
                found.append((*match.span(), say(sentence) % match.groupdict()))
    told = [sentence for _start, _end, sentence in sorted(found)]
    return list(dict.fromkeys(told))
