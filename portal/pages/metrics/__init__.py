"""What Prometheus fetches: the state of the clusters as the desk knows it, and the desk's own work."""
