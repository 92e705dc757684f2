"""Keeps tiles of pipelined loops in the dtype that they are copied from, where that is narrower: readers convert.

Takes a tile-level function, gives one in which a copy from global to shared memory does not convert if the tile can
have the tensor's dtype. Such a copy is asynchronous, which a converting one cannot be, and the tile is smaller.
Invariant: every value of the narrower dtype is one of the wider, so that readers see the same values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tilelang.analysis.accesses import Access, accesses
from tilelang.dtypes import DType
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Cast, Expr, Load
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Alloc, For, ForKind, Launch, Seq, TileOp
from tilelang.ir.visit import Rewriter, expressions, loads_of, walk
from tilelang.ops.copy import Copy
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property

# the bits of exponent and of fraction of the floats that readers convert in one instruction, or in none
_FORMATS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"float16": (5, 10), "bfloat16": (8, 7), "tfloat32": (8, 10), "float32": (8, 23)}
)


def includes(wide: DType, narrow: DType) -> bool:
    """Whether a float dtype has every value of a narrower one."""
    if wide not in _FORMATS or narrow not in _FORMATS or narrow.bits >= wide.bits:
        return False
    return all(has >= needed for has, needed in zip(_FORMATS[wide], _FORMATS[narrow], strict=True))


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_launches(func, _narrowed)


def _narrowed(launch: Launch) -> Launch:
    tiles = _tiles(launch)
    if not tiles:
        return launch
    body = _Narrow(tiles).visit(launch.body)
    return dataclasses.replace(launch, body=body or Seq((), loc=launch.loc))


def _tiles(launch: Launch) -> dict[Buffer, Buffer]:
    """The tiles that can have the dtype of the tensors they are copied from, and what takes their place."""
    stmts = list(walk(launch.body))
    allocated = [stmt.buffer for stmt in stmts if isinstance(stmt, Alloc)]
    viewed = {buffer.storage for buffer in allocated if buffer.view_of is not None}
    fixed = viewed | {buffer.storage for buffer, _ in launch.hints.layouts}
    candidates = {b for b in allocated if b.scope is Scope.SHARED and b.strides is None and b not in fixed}
    if not any(isinstance(stmt, Copy) and stmt.dst.buffer in candidates and _converts(stmt) for stmt in stmts):
        return {}
    loads = (e for stmt in stmts for root in expressions(stmt) for e in loads_of(root))
    candidates -= {load.buffer for load in loads if load.dtype != load.buffer.dtype}  # several elements at a time
    storage_accesses: dict[Buffer, list[Access]] = {}
    for access in accesses(launch.body).all:
        if access.buffer in candidates:
            storage_accesses.setdefault(access.buffer, []).append(access)
    found = {}
    for buffer, uses in storage_accesses.items():
        dtype = _source(buffer, uses)
        if dtype is not None:
            found[buffer] = dataclasses.replace(buffer, dtype=dtype)
    return found


def _converts(op: Copy) -> bool:
    return op.src.buffer.scope is Scope.GLOBAL and includes(op.dst.dtype, op.src.dtype)


def _source(buffer: Buffer, uses: Sequence[Access]) -> DType | None:
    """The dtype of all that is copied into a tile, in pipelined loops; None if it is used in other ways, too."""
    writers = [use for use in uses if use.write]
    copies = [use.stmt for use in writers if isinstance(use.stmt, Copy) and not use.stmt.request]
    dtypes = {copy.src.dtype for copy in copies if copy.barrier is None and _converts(copy)}
    if len(copies) != len(writers) or len(dtypes) != 1 or not all(map(_converts, copies)):
        return None
    readers = [use for use in uses if not use.write]
    if not all(map(_reads_values, readers)) or not any(map(_is_pipelined, writers)):
        return None
    return next(iter(dtypes))


def _reads_values(use: Access) -> bool:
    """Whether an access reads elements one by one, or copies them."""
    if isinstance(use.stmt, TileOp) and use.extent is not None:
        return type(use.stmt) is Copy and not use.stmt.request
    return use.extent is None and not use.atomic


def _is_pipelined(use: Access) -> bool:
    loops = use.context.loops()
    return any(
        isinstance(loop, For) and loop.kind is ForKind.PIPELINED and loop.pipeline and loop.pipeline.num_stages > 0
        for loop in loops
    )


class _Narrow(Rewriter):
    """Puts the narrower tiles in the place of the others, and converts what is read of them."""

    def __init__(self, tiles: Mapping[Buffer, Buffer]) -> None:
        self._tiles = tiles

    def buffer(self, node: Buffer) -> Buffer:
        return self._tiles.get(node, node)

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Load) and node.buffer in self._tiles:
            narrow = self._tiles[node.buffer]
            return Cast(Load(narrow, self.exprs(node.indices), narrow.dtype), node.dtype)
        return self.rebuild_expr(node)


PASS = Pass(
    "narrow_tiles", _run, Level.TILE, Level.TILE,
    requires=(Property.TENSORS_DIRECT, Property.OPERATORS_WHOLE),
    establishes=(Property.TILES_NARROWED,),
)
