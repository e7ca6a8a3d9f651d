"""The ledger as people look at it: intervals, timelines, occupancy, and what nobody saw."""
