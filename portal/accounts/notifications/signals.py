"""What telling tells the outside, so that it needs to know no task queue."""

from django.dispatch import Signal

# Sent after commit: there is something in the outbox that is due.
deliveries_due = Signal()
