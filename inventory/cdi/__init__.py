"""Container Device Interface: what nodes report of their spec files, and how that fits the mirror.

The way of a report: the collector (``deploy/cdi-collector``) sends it with its node's token (`tokens`), the
intake decodes and keeps it (`intake`), reading every spec file (`specs`, `documents`); `owners` knows which
driver or claim a file belongs to and `runtime` what a runtime's setting means; `comparison` finds what does
not fit, over what `facts` gathers of the mirror, and `words` says it to people.
"""
