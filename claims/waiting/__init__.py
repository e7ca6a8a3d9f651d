"""Waiting for devices: how long it took, being told when one is free, asking who holds it."""
