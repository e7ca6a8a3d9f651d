"""Following a cluster: one lease, one thread per resource, one writer."""
