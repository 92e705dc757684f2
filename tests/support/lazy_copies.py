"""Tile-level programs in which asynchronous copies land as late as their waits allow.

The reference interpreter runs copies where they stand; here those that a pass made asynchronous wait in groups until
something waits for them, so that a missing wait, a wrong count or a version too few shows as a wrong result.
"""

import dataclasses
from functools import partial

import numpy as np

from tilelang.dtypes import INT64
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import const
from tilelang.ir.stmt import CallStmt, Store
from tilelang.ir.visit import Rewriter
from tilelang.lowering.chunks import ChunkPlan
from tilelang.ops.copy import Copy
from tilelang.passes.base import PassContext
from tilelang.passes.tile import inline_bindings
from tilelang.sim.tile_interp import Interpreter
from tilelang.targets.nvidia.isa.cp_async import CP_ASYNC_COMMIT, CP_ASYNC_WAIT
from tilelang.targets.nvidia.lowerings.copy_async import AsyncCopy
from tilelang.targets.nvidia.passes import expand_pipeline, plan_pipeline
from tilelang.targets.target import Target

CONTEXT = PassContext(target=Target("cuda", "sm_80"))


class AllAsynchronous(Rewriter):
    """Makes copies from global to shared memory asynchronous."""

    def stmt(self, node):
        if isinstance(node, Copy) and node.src.buffer.scope is Scope.GLOBAL and node.dst.buffer.scope is Scope.SHARED:
            return dataclasses.replace(node, choice=AsyncCopy.name, plan=ChunkPlan(1))
        return self.rebuild_stmt(node)


def planned(func):
    """The function with all copies from global to shared memory asynchronous, after `plan_pipeline`."""
    func = inline_bindings.PASS.run(func, CONTEXT)
    func = dataclasses.replace(func, body=AllAsynchronous().visit(func.body))
    return plan_pipeline.PASS.run(func, CONTEXT)


def expanded(func):
    """The function without pipelined loops."""
    return expand_pipeline.PASS.run(planned(func), CONTEXT)


class LazyInterpreter(Interpreter):
    """Runs asynchronous copies when a wait makes them complete, and never earlier."""

    def __init__(self, printer=print, seed=None):
        super().__init__(printer, seed)
        self.open, self.groups = [], []
        self.most_in_flight = 0

    def _execute(self, stmt):
        if isinstance(stmt, Copy) and isinstance(stmt.plan, ChunkPlan):
            self.open.append(partial(Copy(self.fixed(stmt.src), self.fixed(stmt.dst), loc=stmt.loc).reference, self))
            return None
        if isinstance(stmt, Store) and stmt.asynchronous:
            cells, indices = self._memory.cells(stmt.buffer), self._evaluator.indices(stmt.indices)
            self.open.append(partial(cells.store, indices, self._evaluator.data(stmt.value)))
            return None
        if isinstance(stmt, CallStmt) and stmt.routine is CP_ASYNC_COMMIT:
            self.groups.append(self.open)
            self.open = []
            self.most_in_flight = max(self.most_in_flight, sum(map(bool, self.groups)))
            return None
        if isinstance(stmt, CallStmt) and stmt.routine is CP_ASYNC_WAIT:
            left = stmt.args[0].value
            while len(self.groups) > left:
                for land in self.groups.pop(0):
                    land()
            return None
        return super()._execute(stmt)

    def fixed(self, region):
        """The region with its place as it is now."""
        start = tuple(const(int(value), INT64) for value in self._evaluator.indices(region.start))
        return Region(region.buffer, start, region.extent)

    def _launch(self, stmt):
        super()._launch(stmt)
        assert not self.open
        assert not any(self.groups), "copies that nothing has waited for"


def run_lazily(func, arguments):
    """Runs a function on copies of the arguments; gives them and the most groups that were pending at once."""
    copies = [np.array(a) if isinstance(a, np.ndarray) else a for a in arguments]
    interpreter = LazyInterpreter()
    with np.errstate(all="ignore"):
        interpreter.run(func, copies)
    return copies, interpreter.most_in_flight
