"""What others may want to follow."""

from django.dispatch import Signal

# A source was read; with `source_id`. Sent outside of any transaction.
read = Signal()
