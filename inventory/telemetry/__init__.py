"""What a cluster's Prometheus says: of drivers and Kubernetes, and of how busy devices are.

It is asked by background tasks only, one at a time per cluster, within bounds of time and size; pages show
what was read last, with its age. What it does not say is "no data", never 0.
"""
