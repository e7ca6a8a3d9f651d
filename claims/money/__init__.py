"""From intervals of the ledger to what somebody pays."""
