"""Fills the compile cache from several processes.

Invariant: a process that fails or hangs costs time but does not affect results; the caller compiles again what is not
in the cache.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.context import ForkProcess
from typing import Any

from tilelang.runtime import cache

_PATIENCE_SECONDS = 600.0  # for all of them; a forked child can hang on a lock that another thread held


def warm_cache(make: Callable[[Any], object], items: Sequence[Any], workers: int) -> None:
    """Calls `make` of each item in forked processes; does nothing where there is no cache or no fork.

    A kernel is a graph of objects with identities, among them functions without names: it travels to a process by being
    there when it is forked, and comes back as files.

    Args:
        make: Compiles an item.
        items: What to compile.
        workers: How many processes at once.
    """
    if "fork" not in multiprocessing.get_all_start_methods() or sys.platform == "darwin" or not cache.is_writable():
        return
    context = multiprocessing.get_context("fork")
    following = context.Value("i", 0)

    def work() -> None:
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            sys.stdout = sys.stderr = nowhere  # only the parent prints
            while True:
                with following.get_lock():
                    index = following.value
                    following.value += 1
                if index >= len(items):
                    break
                with contextlib.suppress(Exception):
                    make(items[index])
            os._exit(0)  # without the parent's exit handlers

    children = [context.Process(target=work, daemon=True) for _ in range(min(workers, len(items)))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forking where threads run
        for child in children:
            child.start()
    _wait_for(children)


def _wait_for(children: Sequence[ForkProcess]) -> None:
    """Waits for all processes, and ends those that exceed the time limit."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    for child in children:
        child.join(max(0.0, deadline - time.monotonic()))
        if child.is_alive():
            child.kill()
            child.join()
