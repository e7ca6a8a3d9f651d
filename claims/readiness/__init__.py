"""Whether a cluster is ready for production with DRA: each point with evidence or a signed note."""
