"""``manage.py poddevices``: tokens of nodes' collectors from a shell."""

from inventory.management.node_tokens import NodeTokenCommand
from inventory.podresources import tokens


class Command(NodeTokenCommand):
    help = "Issue, list and revoke the tokens with which nodes report which Pods have which devices."
    sort = tokens.TOKENS
