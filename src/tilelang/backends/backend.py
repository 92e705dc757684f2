"""What joins the parts of the compiler for one family of targets: a record of passes, printer and builder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilelang.codegen.source import Source
from tilelang.ir.func import PrimFunc
from tilelang.options import CompileOptions
from tilelang.passes.base import Pass
from tilelang.runtime.library import Entry


@dataclass(frozen=True)
class Backend:
    """All there is to know about compiling for one family of targets.

    Attributes:
        kind: The `Target.kind` that it serves.
        passes: From what the front end leaves to what `emit` prints, in order.
        emit: Prints a thread-level function.
        build: Makes printed source callable, through the cache.
        identity: Names the toolchain and machine that `build` depends on, for cache keys; starts no process when the
            answer is known on disk.
        detect: Whether programs of this family can run here.
    """

    kind: str
    passes: tuple[Pass, ...]
    emit: Callable[[PrimFunc], Source]
    build: Callable[[Source, CompileOptions], Entry]
    identity: Callable[[CompileOptions], str]
    detect: Callable[[], bool]
