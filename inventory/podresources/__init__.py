"""Which Pod has which device of a Device Plugin: what the API server does not know and nodes do.

The scheduler counts units; the kubelet hands out devices and tells which over its PodResources socket. The
way of a report: the collector (``deploy/podresources-collector``) sends it with its node's token (`tokens`),
the intake decodes it (`reports`) and keeps it (`intake`), where `turns` says what it ends and begins.
Labels of the DCGM exporter (`dcgm`) come in through the same door. `naming` tells the physical devices of
Pods to history and pages, `holding` the Pods of a physical device. All of it is for information: what is
billed is the count, from scheduling to finish, with or without it.
"""
