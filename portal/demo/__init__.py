"""The embedded cluster: an API server, controllers and a sample fleet in one process.

How a write travels, and where to look for it:

    server      HTTP: who calls (auth), what is meant (requests), the answer (views, lists, watching, errors)
    writing     the steps of a write, each in a module: schema (decode), defaults, rules (checks),
                admission with quota and usage (other objects), patches, managed_fields
    store       the objects: get, list, watch, create, update, patch, delete, for server and controllers alike
    table       one resource in memory: current records, and the history that watches and pages are read from
    journal     the same on disk
    resources   the table of what is stored; discovery and openapi tell clients what is served
    catalog     which Kubernetes version serves what in which API versions, and the optional parts;
                conversion turns stored objects into older versions and back, shapes has their types

    namespaces, quota, expiry     what moves by itself inside an API server's reach
    controllers, fleet, load      the world around: scheduler, kubelets, queues, garbage collection, fleets
"""
