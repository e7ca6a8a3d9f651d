"""What the mirror shows of a node pool that goes from a Device Plugin to DRA."""
