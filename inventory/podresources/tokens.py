"""Tokens with which a node's collector reports the devices of its Pods; for nothing else."""

from inventory.models import PodDeviceNode, PodDeviceToken
from inventory.node_tokens import DEFAULT_LIFETIME, MAX_LIFETIME, NodeTokens, UnableToIssueNodeToken

__all__ = [
    "DEFAULT_LIFETIME",
    "MAX_LIFETIME",
    "PREFIX",
    "TOKENS",
    "UnableToIssueNodeToken",
    "find",
    "issue",
    "revoke",
]

PREFIX = "pdnode_"
TOKENS = NodeTokens(
    nodes=PodDeviceNode,
    tokens=PodDeviceToken,
    prefix=PREFIX,
    action="pod-device-token",
    among={"source": PodDeviceNode.Source.PODRESOURCES},
)
issue, revoke, find = TOKENS.issue, TOKENS.revoke, TOKENS.find
