"""What the domain tells the outside, so that it needs to know no task queue."""

from django.dispatch import Signal

# Sent after commit with `request_id`: there is work on the cluster for this request.
work_due = Signal()

# Sent after commit, without arguments: quotas were changed, and have to be watched and written.
quotas_due = Signal()

# Sent after commit with `drill_id`: a drill was started or answered.
drill_due = Signal()

# Sent after commit with `launch_id`: something is to be started, or removed.
launch_due = Signal()
