"""Which families of targets there are: the one place that lists vendors.

Takes a kind, gives its `Family`. Invariant: nothing is loaded before it is needed: a kernel that was compiled before
needs neither the compiler proper (passes, lowerings, printers) nor what builds for another family.
"""

from __future__ import annotations

import functools
from importlib import import_module

from tilelang.errors import CompilerBug
from tilelang.targets.family import Family

# the modules whose `FAMILY` is a vendor's; "auto" means the first one with a device at hand
_VENDORS = (
    "tilelang.targets.nvidia.family",
    "tilelang.targets.amd.family",
    "tilelang.targets.cpu.family",
)


@functools.lru_cache(maxsize=1)
def families() -> dict[str, Family]:
    """All families by the kind of their targets."""
    return {family.kind: family for family in (import_module(module).FAMILY for module in _VENDORS)}


def family_of(kind: str) -> Family:
    """The family of the targets of a kind."""
    found = families().get(kind)
    if found is None:
        raise CompilerBug(f"target {kind}: no backend")
    return found
