"""Expands library operators (sort, top-k, arg-reductions, gather and scatter of rows) to programs of simpler operators.

Takes a tile-level function, gives one without `ArgReduce`, `GatherRows`, `ScatterRows`, `Sort` and `TopK`. Invariant:
the expansion computes what the operator's reference does, and needs no special feature of the target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tilelang.ir.builder import Builder
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Stmt, TileOp
from tilelang.ir.visit import Rewriter
from tilelang.lowering.library.arg_reduce import expand_arg_reduce
from tilelang.lowering.library.gather_scatter import expand_gather, expand_scatter
from tilelang.lowering.library.sort import expand_sort, expand_topk
from tilelang.ops.arg_reduce import ArgReduce
from tilelang.ops.gather_scatter import GatherRows, ScatterRows
from tilelang.ops.sort import Sort, TopK
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property

# An expansion takes an instance of its key's class; Python's types cannot say so of a mapping
_EXPANSIONS: Mapping[type[TileOp], Callable[[Any, Builder], None]] = MappingProxyType(
    {
        ArgReduce: expand_arg_reduce,
        GatherRows: expand_gather,
        ScatterRows: expand_scatter,
        Sort: expand_sort,
        TopK: expand_topk,
    }
)


class _Expand(Rewriter):
    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, TileOp) or type(node) not in _EXPANSIONS:
            return self.rebuild_stmt(node)
        build = Builder(node.loc)
        _EXPANSIONS[type(node)](node, build)
        return build.finish()


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_body(func, _Expand().visit(func.body))


PASS = Pass(
    "expand_library", _run, Level.TILE, Level.TILE,
    requires=(Property.RULES_CHECKED,),
    establishes=(Property.NO_LIBRARY_OPERATORS,),
    invalidates=(Property.LOOPS_AS_WRITTEN,),
)
