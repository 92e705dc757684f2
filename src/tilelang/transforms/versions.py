"""Multi-versioned buffers of pipelines: an additional first dimension, and an index for it in every use.

Takes a buffer and a count, gives the buffer of all versions; rewrites statements to use one version. Invariant:
operators along a dimension of the buffer use the same dimension.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tilelang.dtypes import INT32
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Expr, Load, const
from tilelang.ir.stmt import Atomic, Stmt, Store
from tilelang.ir.visit import Rewriter
from tilelang.ops.along import AlongDimension


def versioned(buffer: Buffer, count: int) -> Buffer:
    """The buffer that holds `count` versions of another."""
    if buffer.strides is not None:
        raise CompilerBug(f"versions: '{buffer.name}' has strides")
    return dataclasses.replace(buffer, shape=(const(count, INT32), *buffer.shape))


class OnVersion(Rewriter):
    """Replaces buffers by one of their versions.

    Args:
        versions: For each buffer, the buffer of all versions and the index of the version to use.
    """

    def __init__(self, versions: Mapping[Buffer, tuple[Buffer, Expr]]) -> None:
        self._versions = versions

    def expr(self, node: Expr) -> Expr:
        """Loads, from the version."""
        if isinstance(node, Load) and node.buffer in self._versions:
            buffer, index = self._versions[node.buffer]
            return Load(buffer, (index, *self.exprs(node.indices)), node.dtype)
        return self.rebuild_expr(node)

    def region(self, node: Region) -> Region:
        """Regions, of the version."""
        inner = Rewriter.region(self, node)
        if node.buffer not in self._versions:
            return inner
        buffer, index = self._versions[node.buffer]
        return Region(buffer, (index, *inner.start), (const(1, INT32), *inner.extent))

    def stmt(self, node: Stmt) -> Stmt | None:
        """Stores and operators, on the version."""
        if isinstance(node, Store | Atomic) and node.buffer in self._versions:
            new = self.rebuild_stmt(node)
            assert isinstance(new, Store | Atomic)
            buffer, index = self._versions[node.buffer]
            return dataclasses.replace(new, buffer=buffer, indices=(index, *new.indices))
        new = self.rebuild_stmt(node)
        if isinstance(node, AlongDimension) and node.dim_operand.buffer in self._versions and new is not None:
            return dataclasses.replace(new, dim=node.dim + 1)  # type: ignore[call-arg]
        return new
