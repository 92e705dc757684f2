"""Warns of parallel loops whose iterations must run serially.

Takes a tile-level function and returns it with a note in the launch's plan for each such loop. It runs before operators
are expanded to loops, so that it only reports loops of the user.
"""

from __future__ import annotations

import dataclasses
import functools

from tilelang.analysis.accesses import accesses
from tilelang.analysis.liveness import Liveness
from tilelang.analysis.parallel_legality import parallel_legality
from tilelang.arith.domain import of_function
from tilelang.errors import Note, warn
from tilelang.ir.expr import int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Launch, ParallelLoop, Stmt
from tilelang.ir.visit import Rewriter, walk
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property

SERIAL = "T.Parallel: the iterations run serially"
"""How the notes of such loops begin."""

_HINT = (
    "use a reduction (T.reduce_max, T.argmax) or an atomic (T.atomic_add), give each iteration an element of its own, "
    "or write T.serial if the order is meant"
)


class _Launches(Rewriter):
    def __init__(self, func: PrimFunc) -> None:
        self._domain = of_function(func)

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, Launch):
            return self.rebuild_stmt(node)
        domain = self._domain.with_extents(node.block_vars, node.grid)
        reads = Liveness(node.body)
        notes: list[Note] = []
        for loop, context in accesses(node.body).loops:
            if isinstance(loop, ParallelLoop) and not _holds_parallel(loop):
                how = parallel_legality(loop, context.domain(domain), functools.partial(reads.is_read_outside, loop))
                if how.reason and any(int_const(extent) != 1 for extent in loop.extents):
                    text = f"{SERIAL}: {how.reason}"
                    warn(text, loop.loc, hint=_HINT)
                    notes.append(Note(text, loop.loc))
        plan = dataclasses.replace(node.plan, notes=(*node.plan.notes, *notes))
        return dataclasses.replace(node, plan=plan) if notes else node


def _holds_parallel(loop: ParallelLoop) -> bool:
    return any(isinstance(stmt, ParallelLoop) for stmt in walk(loop.body))


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    if not any(isinstance(stmt, ParallelLoop) for stmt in walk(func.body)):
        return func
    return with_body(func, _Launches(func).visit(func.body) or func.body)


PASS = Pass(
    "warn_serialized_loops", _run, Level.TILE, Level.TILE,
    requires=(Property.LOOPS_AS_WRITTEN, Property.FLAGS_REDUCED),
)
