"""The catalogue, requests, the ledger's intervals, and prices."""

from claims.models.bookings import PLANNED, Booking, BookingBook, BookingDecision
from claims.models.catalogue import Flavor, Placement
from claims.models.ledger import Allocation, Bound, Consumer, LedgerCursor
from claims.models.ledger_keeping import LedgerAudit, LedgerPolicy
from claims.models.prices import Price, PriceBook
from claims.models.quotas import Quota, QuotaObject
from claims.models.requests import FINAL_STATES, Decision, Request, RequestClaim, RequestPod

__all__ = [
    "FINAL_STATES",
    "PLANNED",
    "Allocation",
    "Booking",
    "BookingBook",
    "BookingDecision",
    "Bound",
    "Consumer",
    "Decision",
    "Flavor",
    "LedgerAudit",
    "LedgerCursor",
    "LedgerPolicy",
    "Placement",
    "Price",
    "PriceBook",
    "Quota",
    "QuotaObject",
    "Request",
    "RequestClaim",
    "RequestPod",
]
