"""Tokens with which nodes report their CDI specs: one writes its node's report and does nothing else."""

from inventory.models import CdiNode, CdiToken
from inventory.node_tokens import (
    DEFAULT_LIFETIME,
    LAST_USED_RESOLUTION,
    MAX_LIFETIME,
    MAX_LIVE,
    NodeTokens,
    UnableToIssueNodeToken,
    digest_of,
)

__all__ = [
    "DEFAULT_LIFETIME",
    "LAST_USED_RESOLUTION",
    "MAX_LIFETIME",
    "MAX_LIVE",
    "PREFIX",
    "TOKENS",
    "UnableToIssueNodeToken",
    "digest_of",
    "find",
    "issue",
    "revoke",
]

PREFIX = "cdnode_"
TOKENS = NodeTokens(nodes=CdiNode, tokens=CdiToken, prefix=PREFIX, action="cdi-token")
issue, revoke, find = TOKENS.issue, TOKENS.revoke, TOKENS.find
