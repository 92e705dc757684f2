"""Which backend serves which target."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tilelang.backends.backend import Backend
from tilelang.backends.cpu import CPU
from tilelang.errors import CompilerBug
from tilelang.target import Target

BACKENDS: Mapping[str, Backend] = MappingProxyType({"cpu": CPU})


def resolve(target: Target) -> Backend:
    """The backend of a target."""
    if target.kind not in BACKENDS:
        raise CompilerBug(f"target {target}: no backend")
    return BACKENDS[target.kind]
