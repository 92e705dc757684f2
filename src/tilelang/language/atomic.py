"""`T.atomic_*`: indivisible updates of elements and tiles that several blocks share.

Takes elements (`C[i, j]`), regions and buffers, emits `Atomic` statements and `AtomicTile` operators. Invariant: the
order of a statement is the one that was asked for.
"""

from __future__ import annotations

from tilelang.dtypes import DType
from tilelang.errors import ProgramError
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import Expr, ExprLike, Load, Var, as_expr, cast
from tilelang.ir.stmt import Atomic, AtomicOp, MemoryOrder
from tilelang.language.api import api
from tilelang.language.extents import shape_text
from tilelang.language.proxy import TileProxy
from tilelang.language.regions import Operand, align, check_inside, neighbor
from tilelang.language.stage import current
from tilelang.ops.atomic import AtomicTile

__all__ = [
    "atomic_add",
    "atomic_addx2",
    "atomic_addx4",
    "atomic_and",
    "atomic_exchange",
    "atomic_load",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_store",
    "atomic_xor",
]

Value = ExprLike | TileProxy

# "consume" is what C++ compilers take for "acquire"
_ORDERS = {**{order.value: order for order in MemoryOrder}, "consume": MemoryOrder.ACQUIRE}
# A load has nothing to release, a store nothing to acquire. Source: C++ standard, [atomics.types.operations]
_LOADS = tuple(name for name, order in _ORDERS.items() if order not in (MemoryOrder.RELEASE, MemoryOrder.ACQ_REL))
_STORES = ("relaxed", "release", "seq_cst")


@api
def atomic_add(
    dst: Operand, value: Value, memory_order: str | None = None, return_prev: bool = False, use_tma: bool = False
) -> Expr | None:
    """Adds to an element, or to every element of a tile, indivisibly.

    Outside of a global tensor nothing happens, and the previous value reads as 0.

    Shapes: for a tile, `value` is a scalar or a tile of equal extents; an element position with a tile as value names
    where the tile begins.

    Args:
        dst: An element `C[i, j]`, a region or a buffer.
        value: What to add, converted to the dtype of `dst`.
        memory_order: "relaxed", "acquire", "release", "acq_rel" or "seq_cst": what else is in order before and after
            the update, as in C++. Without it an update is relaxed, but "acq_rel" if it returns the previous value of a
            global element, so that who takes a number sees what was done by those who took one before.
        return_prev: Whether to return the value before the update; elements only.
        use_tma: Steers GPU targets only.

    Raises:
        ProgramError: `dst` is no place in memory, or extents differ.

    Example:
        `T.atomic_add(hist[bin], 1)`
    """
    return _update(AtomicOp.ADD, dst, value, memory_order, return_prev)


@api
def atomic_max(dst: Operand, value: Value, memory_order: str | None = None, return_prev: bool = False) -> Expr | None:
    """Raises an element, or every element of a tile, to at least `value`, indivisibly. As `T.atomic_add` otherwise."""
    return _update(AtomicOp.MAX, dst, value, memory_order, return_prev)


@api
def atomic_min(dst: Operand, value: Value, memory_order: str | None = None, return_prev: bool = False) -> Expr | None:
    """Lowers an element, or every element of a tile, to at most `value`, indivisibly. As `T.atomic_add` otherwise."""
    return _update(AtomicOp.MIN, dst, value, memory_order, return_prev)


@api
def atomic_and(dst: Load, value: ExprLike, memory_order: str | None = None, return_prev: bool = False) -> Expr | None:
    """`dst &= value` on one integer element, indivisibly."""
    return _update(AtomicOp.AND, dst, value, memory_order, return_prev)


@api
def atomic_or(dst: Load, value: ExprLike, memory_order: str | None = None, return_prev: bool = False) -> Expr | None:
    """`dst |= value` on one integer element, indivisibly."""
    return _update(AtomicOp.OR, dst, value, memory_order, return_prev)


@api
def atomic_xor(dst: Load, value: ExprLike, memory_order: str | None = None, return_prev: bool = False) -> Expr | None:
    """`dst ^= value` on one integer element, indivisibly."""
    return _update(AtomicOp.XOR, dst, value, memory_order, return_prev)


@api
def atomic_exchange(
    dst: Load, value: ExprLike, memory_order: str | None = None, return_prev: bool = True
) -> Expr | None:
    """Stores a value into one element and returns the previous one, indivisibly."""
    return _update(AtomicOp.EXCHANGE, dst, value, memory_order, return_prev)


@api
def atomic_load(src: Load, memory_order: str = "seq_cst") -> Expr:
    """The value of one element, read indivisibly.

    Example:
        `ready = T.atomic_load(flag[0], memory_order="acquire")`
    """
    what = "T.atomic_load"
    element = _element(src, what)
    order = _order(what, memory_order)
    if memory_order not in _LOADS:
        raise ProgramError(f"{what}: memory_order {memory_order!r} is none of a load", hint=_one_of(_LOADS))
    stager = current(what)
    result = Var(stager.suggest("loaded"), element.dtype)
    stager.emit(Atomic(AtomicOp.LOAD, element.buffer, element.indices, None, result, order))
    return result


@api
def atomic_store(dst: Load, value: ExprLike, memory_order: str = "seq_cst") -> None:
    """Writes one element indivisibly."""
    what = "T.atomic_store"
    _order(what, memory_order)
    if memory_order not in _STORES:
        raise ProgramError(f"{what}: memory_order {memory_order!r} is none of a store", hint=_one_of(_STORES))
    _update(AtomicOp.STORE, dst, value, memory_order, False)


@api
def atomic_addx2(dst: Load, value: Operand, return_prev: bool = False) -> None:
    """Adds two neighboring elements to two neighboring ones, each indivisibly: `dst[j] += value[j]`.

    Example:
        `T.atomic_addx2(C[i, 2 * j], C_local[i, 2 * j])`
    """
    _add_vector("T.atomic_addx2", dst, value, 2, return_prev)


@api
def atomic_addx4(dst: Load, value: Operand, return_prev: bool = False) -> None:
    """Adds four neighboring elements to four neighboring ones, each indivisibly: `dst[j] += value[j]`."""
    _add_vector("T.atomic_addx4", dst, value, 4, return_prev)


def _update(op: AtomicOp, dst: object, value: object, memory_order: str | None, return_prev: bool) -> Expr | None:
    what = f"T.atomic_{op.value}"
    order = None if memory_order is None else _order(what, memory_order)
    if isinstance(dst, Load) and not (isinstance(value, TileProxy) and value.ndim):
        return _update_element(op, what, dst, value, order, return_prev)
    if not isinstance(dst, Load | TileProxy):
        _element(dst, what)
    if return_prev:
        raise ProgramError(f"{what}: return_prev is for one element, not for tiles", hint="loop over the elements")
    stager = current(what)
    if isinstance(value, TileProxy) and value.ndim:
        source, target = align(value, dst, what)  # type: ignore[arg-type]
        tile = AtomicTile(op, source, target, order or MemoryOrder.RELAXED)
    else:
        assert isinstance(dst, TileProxy)
        scalar = cast(as_expr(value), dst.buffer.dtype)  # type: ignore[arg-type]
        tile = AtomicTile(op, scalar, check_inside(dst.region, what), order or MemoryOrder.RELAXED)
    tile.check()
    stager.emit(tile)
    return None


def _update_element(
    op: AtomicOp, what: str, dst: Load, value: object, order: MemoryOrder | None, return_prev: bool
) -> Expr | None:
    element = _element(dst, what)
    _check_dtype(op, what, element.dtype)
    stager = current(what)
    operand = cast(as_expr(value), element.dtype)  # type: ignore[arg-type]
    result = Var(stager.suggest("previous"), element.dtype) if return_prev else None
    if order is None:
        takes_number = return_prev and element.buffer.scope is Scope.GLOBAL
        order = MemoryOrder.ACQ_REL if takes_number else MemoryOrder.RELAXED
    stager.emit(Atomic(op, element.buffer, element.indices, operand, result, order))
    return result


def _add_vector(what: str, dst: Load, value: object, lanes: int, return_prev: bool) -> None:
    first, source = _element(dst, what), _element(value, what)
    if return_prev:
        raise ProgramError(f"{what}: return_prev is for one element", hint="write T.atomic_add for each of them")
    for element in (first, source):
        if not element.indices:
            raise ProgramError(f"{what}: '{element.buffer.name}' is a scalar and has no neighbors")
    _check_dtype(AtomicOp.ADD, what, first.dtype)
    stager = current(what)
    for lane in range(lanes):
        target, operand = neighbor(first, lane), neighbor(source, lane)
        stager.emit(Atomic(AtomicOp.ADD, target.buffer, target.indices, cast(operand, first.dtype)))


def _element(operand: object, what: str) -> Load:
    if isinstance(operand, Load):
        if operand.buffer.scope is Scope.VAR:
            raise ProgramError(
                f"{what}: '{operand.buffer.name}' is a mutable scalar, which no other block shares",
                hint=f"assign it, as in `{operand.buffer.name} += x`, or name an element of a buffer",
            )
        return operand
    if isinstance(operand, TileProxy):
        if operand.ndim == 0:
            return operand.__tilelang_expr__()  # type: ignore[return-value]
        index = ", ".join("ijklmn"[d % 6] for d in range(operand.ndim))
        raise ProgramError(
            f"{what}: '{operand.name}' is a tile {shape_text(operand.shape)}, but one element is needed",
            hint=f"name one: {operand.name}[{index}]",
        )
    raise ProgramError(
        f"{what}: the first operand is a value, not a place in memory", hint=f"name an element: {what}(C[i, j], ...)"
    )


def _check_dtype(op: AtomicOp, what: str, dtype: DType) -> None:
    if op in (AtomicOp.AND, AtomicOp.OR, AtomicOp.XOR) and not dtype.is_int:
        raise ProgramError(f"{what}: needs integers, got {dtype!s}")
    if dtype.lanes > 1:
        raise ProgramError(f"{what}: vector dtype {dtype!s} has no arithmetic", hint="name its lanes with T.view")


def _order(what: str, memory_order: str) -> MemoryOrder:
    if memory_order not in _ORDERS:
        raise ProgramError(f"{what}: unknown memory_order {memory_order!r}", hint=_one_of(tuple(_ORDERS)))
    return _ORDERS[memory_order]


def _one_of(names: tuple[str, ...]) -> str:
    return f"one of {', '.join(names)}"
