"""English sentences for the codes that this package answers with; the portal translates by the same codes."""

from typing import Any

PHRASES: dict[str, str] = {
    # Errors of a claim: no node can help.
    "unknown-class": "{at}: there is no device class {device_class}",
    "no-class-name": "{at}: the device class is missing (unsupported kind of request?)",
    "gate-off": "{at}: {field} is used, but the feature {gate} is off",
    "unsupported-selector": "{at}, selector #{selector}: empty CEL expression (unsupported selector?)",
    "no-derived-attributes": "{at}: derived attributes are not supported here",
    "unsupported-mode": "{at}: unsupported allocation mode {mode}",
    "unsupported-constraint": "{at}, constraint #{index}: empty constraint (unsupported kind of constraint?)",
    "too-many-devices": "{at}: asks for {count} devices, which exceeds the limit of {limit} per claim",
    "cel-compile-error": "{at}, selector #{selector}: CEL compile error: {message}",
    "cel-evaluation-error": "{at}, selector #{selector}, device {device}: CEL runtime error: {message}",
    "all-unconstrainable": (
        "{at}: asks for all devices, but a constraint would not be satisfied with device {device}"
    ),
    "bad-node-selector": "{at}: the node selector cannot be used: {message}",
    # Errors of one node.
    "incomplete-pool": "{at}: asks for all devices, but resource pool {pool} is currently being updated",
    "invalid-pool": "pool {pool} is invalid: {why}",
    # What is wrong with a pool.
    "contradictory-count": "its slices announce different numbers of slices, such as {one} and {other}",
    "duplicate-device": "device {device} is published twice",
    "duplicate-counter-set": "counter set {counter_set} is published twice",
    "missing-counter-set": "device {device} consumes counters of {counter_set}, which does not exist",
    "missing-counter": "device {device} consumes counter {counter} of {counter_set}, which does not exist",
    # Nothing fits.
    "no-devices": "cannot allocate all claims on node {node}",
    "no-node": "none of {nodes} nodes fits",
    "no-nodes": "there are no nodes to try",
    "allocated-elsewhere": "claim {claim} is already allocated, and not for node {node}",
    # Why a Pod does not go to a node.
    "node-cordoned": "node {node} is cordoned",
    "node-not-ready": "node {node} is not ready",
    "node-tainted": "node {node} has the taint {taint}, which is not tolerated",
    "node-not-selected": "node {node} does not carry the label {label}",
    "resource-short": "node {node} has {free} of {resource} left, {wanted} are wanted",
    # The funnel of a request.
    "stage-published": "published in complete pools",
    "stage-class": "in the class {device_class}",
    "stage-class-selector": "in the class {device_class}, selector #{selector}",
    "stage-selector": "selected by selector #{selector}",
    "stage-untainted": "without a taint that is not tolerated",
    "stage-free": "not held",
    "stage-capacity": "with enough capacity left",
    "stage-counters": "with enough shared counters left",
    "stage-node": "on a node that takes new Pods",
    "stage-together": "on a node that has {wanted} of them",
    "stage-same": "on a node where {wanted} agree in {attribute}",
    "stage-distinct": "on a node where {wanted} differ in {attribute}",
    # The nearest miss.
    "miss-no-devices": "no devices are published at all",
    "miss-incomplete": "pool {pool} is incomplete: {found} of {expected} slices",
    "miss-class": "{request}: no device is in the class {device_class}",
    "miss-selector": "{request}: none of {before} devices passes selector #{selector}: {expression}",
    "miss-tainted": "{request}: all {before} matching devices are tainted, most of them with {taint}",
    "miss-held": "{request}: all {before} matching devices are held, for example {device} by {holder}",
    "miss-capacity": "{request}: none of {before} matching devices has {amount} of {capacity} left",
    "miss-counters": "{request}: {counter} of {counter_set} has {left} left, device {device} needs {needed}",
    "miss-node": "{request}: the {before} matching devices are on nodes that take no new Pods; {why}",
    "miss-reach": "{request}: the {before} matching devices cannot be used on any node in question",
    "miss-together": "{request}: no node has {wanted} matching devices; the best is {node} with {found}",
    "miss-same": "{request}: no node has {wanted} devices that agree in {attribute}; {node} has {found}",
    "miss-distinct": "{request}: no node has {wanted} devices that differ in {attribute}; {node} has {found}",
    "miss-constraint": "without the constraint on {attribute} the claim would fit on node {node}",
    "miss-combination": "each request alone would fit on some node, but not all of them together",
    "miss-claims": "each claim alone would fit, but not all of them together",
    "miss-undecided": "the search took too long on {nodes} nodes",
    "miss-unknown": "no single reason was found",
}


def english(code: str, params: dict[str, Any]) -> str:
    """The sentence for a code; a code without a sentence is shown with its parameters."""
    template = PHRASES.get(code)
    if template is None:
        return f"{code} {params}" if params else code
    return template.format_map(_Blank(params)).removeprefix(": ")


class _Blank(dict[str, Any]):
    """What is not known stays empty."""

    def __missing__(self, key: str) -> str:
        return ""
