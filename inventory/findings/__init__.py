"""What is wrong in the field, told from the mirror: rules, their evaluation, and what people do about it.

Rules (`pools`, `nodes`, `claims`, `workloads`, `health`, `platform`, `namespaces`, `cdi`) are pure functions
over `facts`; `registry` names them, `evaluation` runs them, `storage` keeps what they found, `handling` is
what people do, `search` what they look for.
"""
