"""What autoscalers say of node groups that may grow: read where a cluster shows it, never required."""
