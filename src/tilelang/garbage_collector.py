"""Python's cyclic garbage collector, disabled where it would traverse many objects and free none."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def disabled() -> Iterator[None]:
    """Disables the collector, for code whose objects are large trees without cycles."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextlib.contextmanager
def disabled_for_imports() -> Iterator[None]:
    """Disables the collector, and moves what was made meanwhile to its oldest generation, without a traversal.

    Modules live as long as the process, so collections of the young generations need not look at them.
    """
    with disabled():
        yield
        if not gc.get_freeze_count():  # else the user froze objects, which must stay so
            gc.freeze()
            gc.unfreeze()
