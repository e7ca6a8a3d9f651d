"""What proposals tell the outside, so that they need to know no task queue."""

from django.dispatch import Signal

# Sent after commit with `proposal_id`: there is something to roll out.
approved = Signal()
