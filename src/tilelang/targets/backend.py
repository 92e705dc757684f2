"""The parts of the compiler for one family of targets: a record of passes and printer."""

from __future__ import annotations

from collections.abc import Callable

from tilelang.codegen.source import Source
from tilelang.ir.func import PrimFunc
from tilelang.passes.base import Pass
from tilelang.records import record


@record
class Backend:
    """Turns programs into source text for one family of targets.

    Attributes:
        kind: The `Target.kind` that it serves.
        passes: From what the front end leaves to what `emit` prints, in order.
        emit: Prints a thread-level function.
    """

    kind: str
    passes: tuple[Pass, ...]
    emit: Callable[[PrimFunc], Source]
