"""Narrows tiles of pipelined loops to the dtype of their source tensor; readers convert instead.

Takes a tile-level function; copies from global to shared memory that convert to a wider dtype become plain copies where
the tile can have the tensor's dtype. Such a copy can be asynchronous, which a converting one cannot, and the tile is
smaller. Invariant: every value of the narrower dtype is representable in the wider one, so readers see the same values.
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

# bits of exponent and of mantissa of the floats that readers convert in at most one instruction
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
    """The tiles that can be narrowed, and their replacements."""
    stmts = list(walk(launch.body))
    allocated = [stmt.buffer for stmt in stmts if isinstance(stmt, Alloc)]
    viewed = {buffer.storage for buffer in allocated if buffer.view_of is not None}
    fixed = viewed | {buffer.storage for buffer, _ in launch.hints.layouts}
    candidates = {b for b in allocated if b.scope is Scope.SHARED and b.strides is None and b not in fixed}
    if not any(isinstance(stmt, Copy) and stmt.dst.buffer in candidates and _converts(stmt) for stmt in stmts):
        return {}
    loads = (e for stmt in stmts for root in expressions(stmt) for e in loads_of(root))
    candidates -= {load.buffer for load in loads if load.dtype != load.buffer.dtype}  # vector loads
    storage_accesses: dict[Buffer, list[Access]] = {}
    for access in accesses(launch.body).all:
        if access.buffer in candidates:
            storage_accesses.setdefault(access.buffer, []).append(access)
    found = {}
    for buffer, buffer_accesses in storage_accesses.items():
        dtype = _source(buffer, buffer_accesses)
        if dtype is not None:
            found[buffer] = dataclasses.replace(buffer, dtype=dtype)
    return found


def _converts(op: Copy) -> bool:
    return op.src.buffer.scope is Scope.GLOBAL and includes(op.dst.dtype, op.src.dtype)


def _source(buffer: Buffer, buffer_accesses: Sequence[Access]) -> DType | None:
    """The common dtype of the sources copied into a tile in pipelined loops; None if there are other accesses."""
    writers = [access for access in buffer_accesses if access.write]
    copies = [access.stmt for access in writers if isinstance(access.stmt, Copy) and not access.stmt.request]
    dtypes = {copy.src.dtype for copy in copies if copy.barrier is None and _converts(copy)}
    if len(copies) != len(writers) or len(dtypes) != 1 or not all(map(_converts, copies)):
        return None
    readers = [access for access in buffer_accesses if not access.write]
    if not all(map(_reads_values, readers)) or not any(map(_is_pipelined, writers)):
        return None
    return next(iter(dtypes))


def _reads_values(access: Access) -> bool:
    """Whether an access is by element, or a plain copy."""
    if isinstance(access.stmt, TileOp) and access.extent is not None:
        return type(access.stmt) is Copy and not access.stmt.request
    return access.extent is None and not access.atomic


def _is_pipelined(access: Access) -> bool:
    loops = access.context.loops()
    return any(
        isinstance(loop, For) and loop.kind is ForKind.PIPELINED and loop.pipeline and loop.pipeline.num_stages > 0
        for loop in loops
    )


class _Narrow(Rewriter):
    """Replaces the tiles by narrower ones, and converts loads."""

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
    "narrow_tile_dtypes", _run, Level.TILE, Level.TILE,
    requires=(Property.TENSOR_LAYOUTS_APPLIED, Property.OPERATORS_UNEXPANDED),
    establishes=(Property.TILE_DTYPES_NARROWED,),
)
