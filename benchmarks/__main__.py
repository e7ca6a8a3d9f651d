"""``python -m benchmarks [NAME…]``: runs the benchmarks of this folder, each in a process of its own.

Every benchmark is a module that prints its figures and can be run alone: ``python -m benchmarks.NAME``.
"""

import pkgutil
import subprocess
import sys

import benchmarks


def names() -> list[str]:
    """The benchmarks of this folder; modules with a leading underscore are their helpers."""
    found = (module.name for module in pkgutil.iter_modules(benchmarks.__path__))
    return sorted(name for name in found if not name.startswith("_"))


def main(wanted: list[str]) -> int:
    known = names()
    unknown = set(wanted) - set(known)
    if unknown:
        print(f"No such benchmark: {', '.join(sorted(unknown))}. There are: {', '.join(known)}.")
        return 2
    status = 0
    for name in wanted or known:
        print(f"\n== {name}", flush=True)
        status |= subprocess.call([sys.executable, "-m", f"benchmarks.{name}"])
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
