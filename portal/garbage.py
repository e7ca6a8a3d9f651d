"""When not to look for garbage, and where."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """For work that makes hundreds of thousands of objects, all of which live until its end, and no cycles to
    speak of: to look for garbage among them again and again is a fifth of its time. What is dropped is freed
    at once as ever."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def settle() -> None:
    """For a process that has loaded what it works with: what there is now stays until its end. To walk those
    few hundred thousand objects whenever all garbage is looked for would hold up somebody's page for a
    quarter of a second, again and again."""
    gc.collect()
    gc.freeze()
