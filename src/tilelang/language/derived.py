"""Functions of values that are small programs themselves: `T.any_of`, `T.all_of`, `T.dp4a`.

Takes expressions and tiles, emits plain statements, gives expressions. Invariant: nothing here needs support by a
target; it is all loads, stores, loops and integer arithmetic.
"""

from __future__ import annotations

from functools import reduce

from tilelang.dtypes import BOOL, INT32
from tilelang.errors import ProgramValueError
from tilelang.ir.expr import Expr, ExprLike, Load, Var, as_bool, as_expr, binary, cast, int_const
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import For, ForKind, Stmt, Store
from tilelang.isa.catalogue import INTRINSICS
from tilelang.language.api import api
from tilelang.language.extents import shape_text
from tilelang.language.math import apply, is_number
from tilelang.language.proxy import TileProxy
from tilelang.language.regions import neighbor
from tilelang.language.stage import current

__all__ = [
    "all_of",
    "any_of",
    "dp4a",
    "evaluate",
]

Condition = ExprLike | TileProxy | list[ExprLike] | tuple[ExprLike, ...]


@api
def any_of(*conditions: Condition, buffer: TileProxy | None = None) -> Expr | bool:
    """Whether at least one condition holds; of a tile, whether at least one element differs from zero.

    Shapes: a buffer of any shape, or a region of which only the last dimension has more than one element.

    Args:
        conditions: Conditions, or a tile.
        buffer: The tile, by name.

    Raises:
        ProgramValueError: A region has elements along another dimension than the last.

    Example:
        `T.any_of(i < 1, j < 1)`
    """
    return _fold("T.any_of", BinaryOp.OR, conditions if buffer is None else (*conditions, buffer))


@api
def all_of(*conditions: Condition, buffer: TileProxy | None = None) -> Expr | bool:
    """Whether all conditions hold; of a tile, whether no element is zero. Arguments as in `T.any_of`.

    Example:
        `T.if_then_else(T.all_of(0 <= h, h < H), image[h], 0)`
    """
    return _fold("T.all_of", BinaryOp.AND, conditions if buffer is None else (*conditions, buffer))


def _fold(what: str, op: BinaryOp, conditions: tuple[object, ...]) -> Expr | bool:
    if len(conditions) == 1:
        first = conditions[0]
        if isinstance(first, TileProxy) and first.ndim:
            return _fold_tile(what, op, first)
        if isinstance(first, list | tuple):
            conditions = tuple(first)
    if all(is_number(c) for c in conditions):
        return any(conditions) if op is BinaryOp.OR else all(conditions)
    return reduce(lambda a, b: binary(op, a, b), [as_bool(c) for c in conditions])  # type: ignore[arg-type]


def _fold_tile(what: str, op: BinaryOp, tile: TileProxy) -> Expr:
    *leading, _ = tile.region.extent
    if not tile.is_whole and any(int_const(extent) != 1 for extent in leading):
        raise ProgramValueError(
            f"{what}: the region {shape_text(tile.shape)} of '{tile.name}' has other dimensions than the last",
            hint=f"pass a row, as in {tile.name}[i, :], or all of {tile.name}",
        )
    stager = current(what)
    result = stager.mutable(what[2:5], BOOL, op is BinaryOp.AND)
    indices = [Var(stager.unique(f"i{dim}"), INT32, index=True) for dim in range(tile.ndim)]
    body: Stmt = Store(result.buffer, (), binary(op, result, as_bool(tile[tuple(indices)])), loc=stager.loc)
    for index, extent in reversed(list(zip(indices, tile.shape, strict=True))):
        body = For(index, as_expr(0), as_expr(extent), 1, ForKind.SERIAL, body, loc=stager.loc)
    stager.emit(body)
    return stager.bind(what[2:5], result)


@api
def dp4a(A: Expr | TileProxy, B: Expr | TileProxy, C: Expr | TileProxy) -> Expr | None:
    """The dot product of four bytes, added to an integer.

    On 32-bit integers that pack four bytes each it is a value: `T.dp4a(a, b, c)` is `c` plus the four products. On
    buffers, regions or elements of int8 it is a statement: `T.dp4a(A[i], B[j], C[k])` adds the products of `A[i:i+4]`
    and `B[j:j+4]` to `C[k]`.

    Raises:
        ProgramValueError: The operands are neither.
    """
    a, b, c = _first_element(A), _first_element(B), _first_element(C)
    if not (isinstance(a, Load) and isinstance(b, Load) and a.dtype.bits == b.dtype.bits == 8) and _packs(a, b, c):
        return apply(INTRINSICS["dp4a"], a, b, c)  # type: ignore[no-any-return]
    kinds = [as_expr(x).dtype for x in (a, b, c)]
    if [str(kind) for kind in kinds] != ["int8", "int8", "int32"] or not isinstance(c, Load):
        found = ", ".join(map(str, kinds))
        raise ProgramValueError(
            f"T.dp4a: dp4a requires int8, int8 and int32 elements of buffers, got {found}",
            hint="write T.dp4a(A[i], B[j], C[k]), or pass three integers of 32 bits",
        )
    assert isinstance(a, Load)
    assert isinstance(b, Load)
    total: Expr = c
    for lane in range(4):
        total = total + cast(neighbor(a, lane), c.dtype) * cast(neighbor(b, lane), c.dtype)
    current("T.dp4a").emit(Store(c.buffer, c.indices, total))
    return None


def _first_element(operand: Expr | TileProxy) -> Expr:
    if isinstance(operand, TileProxy) and operand.ndim:
        region = operand.region
        return Load(region.buffer, region.start, region.buffer.dtype)
    return as_expr(operand)  # type: ignore[arg-type]


def _packs(*operands: Expr) -> bool:
    """Whether all operands are integers of 32 bits, or literals."""
    return all(x.dtype.is_int and x.dtype.bits == 32 for x in operands)


@api
def evaluate(value: ExprLike | None) -> None:
    """A value computed for nothing. What a call inside of it does happens in any case; None is what some calls give."""
    current("T.evaluate")
    if value is not None:
        as_expr(value)
