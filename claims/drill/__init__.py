"""Lifecycle drills: what DRA does on a node pool, proven with claims and Pods of the desk's own."""
