"""The command line: match, allocate and explain over manifests, without any cluster or database."""

from portal.dra.cli.commands import main

__all__ = ["main"]
