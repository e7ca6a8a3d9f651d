"""The ledger: intervals in which claims held devices, folded from observations.

`fold` is the pure core, `storage` keeps the rows and the cursor, `audit` checks the invariants.
"""
