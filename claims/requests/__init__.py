"""Requests: from submission to the end, by people, by the cluster and by time."""
