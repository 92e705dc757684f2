"""Names bounds of loops that are data of other dtypes than int32, so that arithmetic on them is exact.

    for k in range(lengths[b]):   # uint8      =>      k_stop = T.int64(lengths[b])
                                                        for k in range(k_stop)

Takes statements, gives statements in which counts of iterations neither wrap nor have a dtype that an index cannot
have. Invariant: the loops run the same iterations.
"""

from __future__ import annotations

import dataclasses

from tilelang.arith.exact import bind_exact
from tilelang.dtypes import INT32
from tilelang.ir.expr import Expr
from tilelang.ir.stmt import Bind, For, Seq, Stmt
from tilelang.ir.visit import Rewriter


class WithExactBounds(Rewriter):
    """The rewriting of all loops below a statement."""

    def stmt(self, node: Stmt) -> Stmt | None:
        """The statement with its loops rewritten."""
        rebuilt = self.rebuild_stmt(node)
        if not isinstance(rebuilt, For):
            return rebuilt
        binds: list[Bind] = []

        def named(bound: Expr, suffix: str) -> Expr:
            if bound.is_index or bound.dtype == INT32:
                return bound
            binds.append(bind_exact(f"{rebuilt.var.name}_{suffix}", bound, rebuilt.loc))
            return binds[-1].var

        start, stop = named(rebuilt.start, "start"), named(rebuilt.stop, "stop")
        if not binds:
            return rebuilt
        return Seq((*binds, dataclasses.replace(rebuilt, start=start, stop=stop)), loc=rebuilt.loc)
