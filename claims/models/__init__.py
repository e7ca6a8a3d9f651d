"""The catalogue, requests, the ledger's intervals, and prices."""

from claims.models.catalogue import Flavor, Placement
from claims.models.ledger import Allocation, Consumer, LedgerCursor
from claims.models.prices import Price, PriceBook
from claims.models.quotas import Quota, QuotaObject
from claims.models.requests import FINAL_STATES, Decision, Request, RequestClaim, RequestPod

__all__ = [
    "FINAL_STATES",
    "Allocation",
    "Consumer",
    "Decision",
    "Flavor",
    "LedgerCursor",
    "Placement",
    "Price",
    "PriceBook",
    "Quota",
    "QuotaObject",
    "Request",
    "RequestClaim",
    "RequestPod",
]
