"""Requests, the ledger's intervals, and prices."""

from claims.models.ledger import Allocation, Consumer, LedgerCursor
from claims.models.prices import Price, PriceBook
from claims.models.requests import FINAL_STATES, Request, RequestClaim

__all__ = [
    "FINAL_STATES",
    "Allocation",
    "Consumer",
    "LedgerCursor",
    "Price",
    "PriceBook",
    "Request",
    "RequestClaim",
]
