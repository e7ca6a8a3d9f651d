"""The catalogue, requests, the ledger's intervals, and prices."""

from claims.models.bookings import PLANNED, Booking, BookingBook, BookingDecision
from claims.models.catalogue import Flavor, Placement
from claims.models.changes import OPEN_CHANGES, ChangeDecision, Draft, RequestChange
from claims.models.charges import Charge, CostCentre
from claims.models.drills import Drill, DrillObject, DrillStep
from claims.models.launches import Launch, LaunchTemplate
from claims.models.ledger import Allocation, Bound, Consumer, LedgerCursor
from claims.models.ledger_keeping import LedgerAudit, LedgerPolicy
from claims.models.news import HolderMessage, Idleness, Mute, Watch
from claims.models.poolplans import PoolPlan, PoolPlanEntry, PoolSignature
from claims.models.pools import GrowablePool
from claims.models.prices import Price, PriceBook, PriceDiscount, PriceDraft, PriceRule
from claims.models.quotas import Quota, QuotaObject
from claims.models.readiness import ReadinessNote
from claims.models.requests import FINAL_STATES, Decision, HoldPod, Request, RequestClaim, RequestPod
from claims.models.rollups import ChargeDay, ChargeMonth
from claims.models.saved import SavedRequest
from claims.models.statements import (
    Adjustment,
    BookedTotal,
    Budget,
    BudgetAlert,
    Dispute,
    DisputeEntry,
    Statement,
    StatementLine,
)
from claims.models.statements_told import StatementHook, ToldCorrection
from claims.models.touched import LedgerTouch
from claims.models.utilisation import AllocationUse, UseCursor

__all__ = [
    "FINAL_STATES",
    "OPEN_CHANGES",
    "PLANNED",
    "Adjustment",
    "Allocation",
    "AllocationUse",
    "BookedTotal",
    "Booking",
    "BookingBook",
    "BookingDecision",
    "Bound",
    "Budget",
    "BudgetAlert",
    "ChangeDecision",
    "Charge",
    "ChargeDay",
    "ChargeMonth",
    "Consumer",
    "CostCentre",
    "Decision",
    "Dispute",
    "DisputeEntry",
    "Draft",
    "Drill",
    "DrillObject",
    "DrillStep",
    "Flavor",
    "GrowablePool",
    "HoldPod",
    "HolderMessage",
    "Idleness",
    "Launch",
    "LaunchTemplate",
    "LedgerAudit",
    "LedgerCursor",
    "LedgerPolicy",
    "LedgerTouch",
    "Mute",
    "Placement",
    "PoolPlan",
    "PoolPlanEntry",
    "PoolSignature",
    "Price",
    "PriceBook",
    "PriceDiscount",
    "PriceDraft",
    "PriceRule",
    "Quota",
    "QuotaObject",
    "ReadinessNote",
    "Request",
    "RequestChange",
    "RequestClaim",
    "RequestPod",
    "SavedRequest",
    "Statement",
    "StatementHook",
    "StatementLine",
    "ToldCorrection",
    "UseCursor",
    "Watch",
]
