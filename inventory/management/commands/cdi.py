"""``manage.py cdi``: tokens of nodes from a shell."""

from inventory.cdi import tokens
from inventory.management.node_tokens import NodeTokenCommand


class Command(NodeTokenCommand):
    help = "Issue, list and revoke the tokens with which nodes report their CDI specs."
    sort = tokens.TOKENS
