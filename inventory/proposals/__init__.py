"""A change of a DeviceClass as a proposal: drawn with its effect, looked at by a second administrator where
the rule asks for that, rehearsed on every cluster, and then applied cluster by cluster.

drawing ─> deciding ─> roll_out ─> writing (the one module that talks to a cluster)

A class that is no longer what the change was drawn from is never overwritten: the proposal is outdated, shows
what differs three ways, and can be drawn anew.
"""
