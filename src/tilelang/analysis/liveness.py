"""Liveness of per-thread scalars and arrays across parallel loops.

Takes the body of a launch; answers for a parallel loop and a buffer whether any other statement reads the buffer.
Invariant: a loop that writes a buffer before it reads it is no reader.
"""

from __future__ import annotations

import dataclasses

from tilelang.analysis.accesses import accesses
from tilelang.analysis.parallel_legality import is_private
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.stmt import ParallelLoop, Seq, Stmt
from tilelang.ir.visit import accessed_buffers, sub_statements, walk

_OF_THREAD = (Scope.VAR, Scope.LOCAL)


class Liveness:
    """The statements of a launch that read per-thread scalars and arrays."""

    def __init__(self, body: Stmt) -> None:
        self._units: list[tuple[Stmt, frozenset[Buffer]]] = []
        self._collect(body)

    def is_read_outside(self, loop: ParallelLoop, buffer: Buffer) -> bool:
        """Whether another statement than the loop reads a buffer."""
        return any(
            unit is not loop and buffer in read and not (isinstance(unit, ParallelLoop) and is_private(buffer, unit))
            for unit, read in self._units
        )

    def _collect(self, node: Stmt) -> None:
        whole = isinstance(node, ParallelLoop)
        children = () if whole else sub_statements(node)
        if any(b.scope in _OF_THREAD for s in (walk(node) if whole else (node,)) for b in accessed_buffers(s)):
            seen = accesses(node if not children else _without(node))
            read = frozenset(a.buffer.storage for a in seen.reads if a.buffer.scope in _OF_THREAD)
            if read:
                self._units.append((node, read))
        for child in children:
            self._collect(child)


def _without(node: Stmt) -> Stmt:
    """The statement without its sub-statements."""
    empty = Seq((), loc=node.loc)
    if isinstance(node, Seq):
        return empty
    changes = {f.name: empty for f in dataclasses.fields(node) if isinstance(getattr(node, f.name), Stmt)}
    return dataclasses.replace(node, **changes)  # type: ignore[arg-type]
