"""Expands elementwise operators to parallel loops, so that one pass distributes all of them.

Takes a tile-level function, gives one in which `Copy` and `Gemm` without instructions of their own, `Fill`,
`Transpose`, `AtomicTile`, `Im2Col` and `Reduce` are `ParallelLoop`s, operators on lines have operands that all threads
can reach, and tiles in registers are printed from shared memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tilelang.ir.buffer import Region, Scope
from tilelang.ir.builder import Builder
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Print, Stmt, TileOp
from tilelang.ir.visit import Rewriter
from tilelang.lowering import loops
from tilelang.ops.atomic import AtomicTile
from tilelang.ops.combine import CombineReduce
from tilelang.ops.copy import Copy, Transpose
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm
from tilelang.ops.im2col import Im2Col
from tilelang.ops.reduce import Reduce
from tilelang.ops.scan import Scan
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property
from tilelang.targets.gpu.lowerings import gemm_loops

BY_LOOP = "copy.loop"
"""The choice of copies that move element by element, through registers."""

# An expansion takes an instance of its key's class; Python's types cannot say so of a mapping
EXPANSIONS: Mapping[type[TileOp], Callable[[Any, Builder], None]] = MappingProxyType(
    {
        AtomicTile: loops.expand_atomic,
        Copy: loops.expand_copy,
        Fill: loops.expand_fill,
        Gemm: gemm_loops.expand_gemm,
        Im2Col: loops.expand_im2col,
        Reduce: loops.expand_reduce,
        CombineReduce: loops.expand_combine,
        Scan: loops.expand_combine,
        Transpose: loops.expand_transpose,
    }
)
"""What writes an operator as parallel loops, in terms of its regions."""


class _Expand(Rewriter):
    def stmt(self, node: Stmt) -> Stmt | None:
        build = Builder(node.loc)
        match node:
            case Copy(choice=choice) if choice not in ("", BY_LOOP):
                return node
            case Gemm(choice=choice) if choice != gemm_loops.NAME:
                return node
            case TileOp() if type(node) in EXPANSIONS:
                EXPANSIONS[type(node)](node, build)
            case Print(operand=Region() as region) if region.buffer.scope is Scope.FRAGMENT:
                loops.expand_print(node, region, build)
            case _:
                return self.rebuild_stmt(node)
        return build.finish()


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_body(func, _Expand().visit(func.body))


PASS = Pass(
    "expand_to_loops", _run, Level.TILE, Level.TILE,
    requires=(Property.NO_LIBRARY_OPERATORS, Property.LOWERINGS_CHOSEN, Property.NO_PIPELINED_LOOPS),
    establishes=(Property.ELEMENTS_IN_LOOPS,),
    invalidates=(Property.OPERATORS_WHOLE,),
)
