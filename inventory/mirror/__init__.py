"""Applying what a cluster said to the mirror: rows, observations and checkpoints in one transaction."""
