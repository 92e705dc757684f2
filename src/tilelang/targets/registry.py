"""Which families of targets there are: the one place that lists vendors.

Takes a kind, gives its `Family`. Invariant: nothing is loaded before it is needed: a kernel that was compiled before
needs neither the compiler proper (passes, lowerings, printers) nor another vendor's machines.
"""

from __future__ import annotations

import functools
from importlib import import_module

from tilelang.errors import CompilerBug
from tilelang.targets.family import Family

# the modules whose `FAMILY` is a vendor's, by kind; "auto" means the first one with a device at hand
_VENDORS = {
    "cuda": "tilelang.targets.nvidia.family",
    "hip": "tilelang.targets.amd.family",
    "cpu": "tilelang.targets.cpu.family",
}


def families() -> dict[str, Family]:
    """All families by the kind of their targets."""
    return {kind: family_of(kind) for kind in _VENDORS}


def is_kind(name: str) -> bool:
    """Whether a name is the kind of a family."""
    return name in _VENDORS


@functools.cache
def family_of(kind: str) -> Family:
    """The family of the targets of a kind."""
    if not is_kind(kind):
        raise CompilerBug(f"target {kind}: no backend")
    family: Family = import_module(_VENDORS[kind]).FAMILY
    return family
