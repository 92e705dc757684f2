"""Expands library operators (sort, top-k, online softmax, gather and scatter of rows, ...) to simpler operators.

Takes a tile-level function, gives one without `ArgReduce`, `GatherRows`, `OnlineSoftmax`, `ScatterRows`, `Sort` and
`TopK`; copies and fills in iterations of a parallel loop become loops of the thread that executes the iteration.
Invariant: the expansion computes what the operator's reference does, and needs no special feature of the
target. Scratch tiles of a pipelined loop are allocated in front of it, since statements of several of its iterations
may be under way; where the user places its statements, what an operator becomes has the place of the operator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Set
from functools import partial
from types import MappingProxyType
from typing import Any

from tilelang.ir.buffer import Buffer
from tilelang.ir.builder import Builder
from tilelang.ir.expr import const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.sequences import effectful
from tilelang.ir.stmt import Alloc, For, ForKind, ParallelLoop, Seq, Stmt, TileOp
from tilelang.ir.visit import Rewriter, walk
from tilelang.lowering.by_loop import LOOPS
from tilelang.lowering.library.arg_reduce import expand_arg_reduce
from tilelang.lowering.library.gather_scatter import expand_gather, expand_scatter
from tilelang.lowering.library.online_softmax import expand_online_softmax
from tilelang.lowering.library.sort import expand_sort, expand_topk
from tilelang.ops.arg_reduce import ArgReduce
from tilelang.ops.gather_scatter import GatherRows, ScatterRows
from tilelang.ops.online_softmax import OnlineSoftmax
from tilelang.ops.sort import Sort, TopK
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property
from tilelang.transforms.statement_places import divided

# An expansion takes an instance of its key's class; Python's types cannot say so of a mapping
_EXPANSIONS: Mapping[type[TileOp], Callable[[Any, Builder], None]] = MappingProxyType(
    {
        ArgReduce: expand_arg_reduce,
        GatherRows: expand_gather,
        OnlineSoftmax: expand_online_softmax,
        ScatterRows: expand_scatter,
        Sort: expand_sort,
    }
)


class _Expand(Rewriter):
    def __init__(self, *, many_threads: bool) -> None:
        largest = partial(expand_topk, many_threads=many_threads)
        self._expansions: dict[type[TileOp], Callable[[Any, Builder], None]] = {**_EXPANSIONS, TopK: largest}

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, For) and node.kind is ForKind.PIPELINED:
            return self._pipelined(node)
        if isinstance(node, ParallelLoop):
            return _ExpandInIterations().rebuild_stmt(node)
        if not isinstance(node, TileOp) or type(node) not in self._expansions:
            return self.rebuild_stmt(node)
        build = Builder(node.loc)
        self._expansions[type(node)](node, build)
        return build.finish()

    def _pipelined(self, loop: For) -> Stmt | None:
        """A pipelined loop after the allocations that the expansions in it need."""
        rebuilt = self.rebuild_stmt(loop)
        if not isinstance(rebuilt, For):
            return rebuilt
        if loop.pipeline is not None and loop.pipeline.places_statements:
            counts = [self._count(stmt) for stmt in effectful(loop.body)]
            rebuilt = dataclasses.replace(rebuilt, pipeline=divided(loop.pipeline, counts))
        of_user = {s.buffer for s in walk(loop.body) if isinstance(s, Alloc)}
        hoist = _HoistAllocations(of_user)
        body = hoist.visit(rebuilt.body) or Seq((), loc=loop.loc)
        if not hoist.found:
            return rebuilt
        return Seq((*hoist.found, dataclasses.replace(rebuilt, body=body)), loc=loop.loc)

    def _count(self, stmt: Stmt) -> int:
        """How many statements of a loop a statement becomes."""
        made = self.visit(stmt) if isinstance(stmt, TileOp) else stmt
        return 0 if made is None else len(effectful(made))


class _ExpandInIterations(Rewriter):
    """Expands operators of an iteration, which one thread executes, to serial loops."""

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, TileOp):
            return self.rebuild_stmt(node)
        build = Builder(node.loc)
        LOOPS[type(node)].expand(node, build)
        return _Serial().visit(build.finish())


class _Serial(Rewriter):
    """Makes parallel loops serial."""

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, ParallelLoop):
            return self.rebuild_stmt(node)
        body = node.body
        for var, extent in reversed([*zip(node.vars, node.extents, strict=True)]):
            body = For(var, const(0, extent.dtype), extent, 1, ForKind.SERIAL, body, loc=node.loc)
        return body


class _HoistAllocations(Rewriter):
    """Removes the allocations of all tiles but some.

    Attributes:
        found: What was removed.
    """

    def __init__(self, kept: Set[Buffer]) -> None:
        self._kept = kept
        self.found: list[Alloc] = []

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Alloc) and node.init is None and node.buffer not in self._kept:
            self.found.append(node)
            return None
        return self.rebuild_stmt(node)


def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    expand = _Expand(many_threads=context.target.machine.warp_size > 1)
    return with_body(func, expand.visit(func.body))


PASS = Pass(
    "expand_library", _run, Level.TILE, Level.TILE,
    requires=(Property.RULES_CHECKED,),
    establishes=(Property.NO_LIBRARY_OPERATORS,),
    invalidates=(Property.LOOPS_AS_WRITTEN,),
)
