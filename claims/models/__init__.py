"""Requests, the ledger's intervals, and prices."""

from claims.models.ledger import Allocation, Consumer, LedgerCursor
from claims.models.prices import Price, PriceBook
from claims.models.requests import Request

__all__ = ["Allocation", "Consumer", "LedgerCursor", "Price", "PriceBook", "Request"]
