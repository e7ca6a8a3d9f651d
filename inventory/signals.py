"""What the mirror tells the rooms above it."""

from django.dispatch import Signal

# Sent after the commit of a transaction that appended observations, with `cluster_id`.
observed = Signal()
# Sent within the transaction that opened findings, with `cluster`, `opened` (the findings) and `now`.
findings_opened = Signal()
