"""Taints of devices and nodes: who put them there, rules of the desk, maintenance, emptying a node."""
