"""`T.atomic_*`: atomic updates of elements and tiles that several blocks share.

Takes elements (`C[i, j]`), regions and buffers, emits `Atomic` statements and `AtomicTile` operators. Invariant: the
order of a statement is the one that was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilelang.dtypes import DType
from tilelang.errors import ProgramError, ProgramNotImplementedError, ProgramValueError
from tilelang.ir.buffer import Scope
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Expr, ExprLike, Load, Var, as_expr, cast
from tilelang.ir.stmt import Atomic, AtomicOp, MemoryOrder, MemoryScope
from tilelang.ir.vector import lanes_of, pack, packed_lanes
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
    "atomic_cas",
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
    dst: Operand,
    value: Value,
    memory_order: str | None = None,
    return_prev: bool = False,
    use_tma: bool = False,
    annotations: Mapping[str, object] | None = None,
    *,
    scope: str = "gpu",
) -> Expr | None:
    """Adds to an element, or to every element of a tile, atomically.

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
        annotations: Steer GPU targets only.
        scope: "block", "gpu" or "system": among whose threads the update is atomic and in order.

    Raises:
        ProgramValueError: There is no such order or scope, or extents differ.
        ProgramNotImplementedError: `return_prev` is asked of a tile.
        ProgramError: `dst` is no place in memory.

    Example:
        `T.atomic_add(hist[bin], 1)`
    """
    del use_tma, annotations
    return _update(AtomicOp.ADD, dst, value, memory_order, return_prev, scope)


@api
def atomic_max(
    dst: Operand,
    value: Value,
    memory_order: str | None = None,
    return_prev: bool = False,
    annotations: Mapping[str, object] | None = None,
    *,
    scope: str = "gpu",
) -> Expr | None:
    """Raises an element, or every element of a tile, to at least `value`, atomically. As `T.atomic_add` otherwise."""
    del annotations
    return _update(AtomicOp.MAX, dst, value, memory_order, return_prev, scope)


@api
def atomic_min(
    dst: Operand,
    value: Value,
    memory_order: str | None = None,
    return_prev: bool = False,
    annotations: Mapping[str, object] | None = None,
    *,
    scope: str = "gpu",
) -> Expr | None:
    """Lowers an element, or every element of a tile, to at most `value`, atomically. As `T.atomic_add` otherwise."""
    del annotations
    return _update(AtomicOp.MIN, dst, value, memory_order, return_prev, scope)


@api
def atomic_and(
    dst: Load, value: ExprLike, memory_order: str | None = None, return_prev: bool = False, *, scope: str = "gpu"
) -> Expr | None:
    """`dst &= value` on one integer element, atomically."""
    return _update(AtomicOp.AND, dst, value, memory_order, return_prev, scope)


@api
def atomic_or(
    dst: Load, value: ExprLike, memory_order: str | None = None, return_prev: bool = False, *, scope: str = "gpu"
) -> Expr | None:
    """`dst |= value` on one integer element, atomically."""
    return _update(AtomicOp.OR, dst, value, memory_order, return_prev, scope)


@api
def atomic_xor(
    dst: Load, value: ExprLike, memory_order: str | None = None, return_prev: bool = False, *, scope: str = "gpu"
) -> Expr | None:
    """`dst ^= value` on one integer element, atomically."""
    return _update(AtomicOp.XOR, dst, value, memory_order, return_prev, scope)


@api
def atomic_exchange(
    dst: Load, value: ExprLike, memory_order: str | None = None, return_prev: bool = True, *, scope: str = "gpu"
) -> Expr | None:
    """Stores a value into one element and returns the previous one, atomically."""
    return _update(AtomicOp.EXCHANGE, dst, value, memory_order, return_prev, scope)


@api
def atomic_cas(
    dst: Load, compare: ExprLike, value: ExprLike, memory_order: str | None = None, *, scope: str = "gpu"
) -> Expr:
    """Stores a value into one element if it is what is expected there, atomically, and returns the previous one.

    Args:
        dst: An element `C[i, j]`.
        compare: What it has to be, bit for bit, after conversion to the dtype of `dst`.
        value: What is stored then.
        memory_order: As of `T.atomic_add`. Without it "acq_rel" of a global element, else "relaxed".
        scope: As of `T.atomic_add`.

    Raises:
        ProgramValueError: There is no such order or scope.
        ProgramError: `dst` is no element in memory.

    Example:
        `taken = T.atomic_cas(lock[0], 0, 1, memory_order="acquire")`
    """
    previous = _update(AtomicOp.CAS, dst, value, memory_order, True, scope, compare)
    assert previous is not None
    return previous


@api
def atomic_load(src: Load, memory_order: str = "seq_cst", *, scope: str = "gpu") -> Expr:
    """The value of one element, read atomically.

    Args:
        src: The element.
        memory_order: "relaxed", "consume", "acquire" or "seq_cst".
        scope: As of `T.atomic_add`.

    Raises:
        ProgramValueError: There is no such order of a load, or no such scope.

    Example:
        `ready = T.atomic_load(flag[0], memory_order="acquire")`
    """
    what = "T.atomic_load"
    element = _element(src, what)
    if memory_order not in _LOADS:
        raise ProgramValueError(
            f"{what}: atomic_load does not support memory_order {memory_order!r}", hint=_one_of(_LOADS)
        )
    order, among = _order(what, memory_order), _scope(what, scope)
    stager = current(what)
    result = Var(stager.suggest("loaded"), element.dtype)
    stager.emit(Atomic(AtomicOp.LOAD, element.buffer, element.indices, None, result, order, scope=among))
    return result


@api
def atomic_store(dst: Load, src: ExprLike, memory_order: str = "seq_cst", *, scope: str = "gpu") -> None:
    """Writes one element atomically.

    Args:
        dst: The element.
        src: The value, converted to its dtype.
        memory_order: "relaxed", "release" or "seq_cst".
        scope: As of `T.atomic_add`.

    Raises:
        ProgramValueError: There is no such order of a store, or no such scope.
    """
    what = "T.atomic_store"
    if memory_order not in _STORES:
        raise ProgramValueError(
            f"{what}: atomic_store does not support memory_order {memory_order!r}", hint=_one_of(_STORES)
        )
    _update(AtomicOp.STORE, dst, src, memory_order, False, scope)


@api
def atomic_addx2(dst: Operand, value: Value, return_prev: bool = False) -> Expr | None:
    """Adds two elements to two neighboring ones, each atomically: `dst[j] += value[j]`.

    Args:
        dst: The first of the neighbors along the last dimension, or a region of them.
        value: The first of as many neighbors, a region of them, or a vector.
        return_prev: Whether to return the vector of the values before.

    Raises:
        ProgramError: They are no elements of memory, or no vector of two lanes.

    Example:
        `T.atomic_addx2(C[i, 2 * j], C_local[i, 2 * j])`
    """
    return _add_vector("T.atomic_addx2", dst, value, 2, return_prev)


@api
def atomic_addx4(dst: Operand, value: Value, return_prev: bool = False) -> Expr | None:
    """Adds four elements to four neighboring ones, each atomically. As `T.atomic_addx2` otherwise."""
    return _add_vector("T.atomic_addx4", dst, value, 4, return_prev)


def _update(
    op: AtomicOp,
    dst: object,
    value: object,
    memory_order: str | None,
    return_prev: bool,
    scope: str,
    compare: ExprLike | None = None,
) -> Expr | None:
    what = f"T.atomic_{op.value}"
    order = None if memory_order is None else _order(what, memory_order)
    among = _scope(what, scope)
    if isinstance(dst, Load) and not (isinstance(value, TileProxy) and value.ndim):
        return _update_element(op, what, dst, value, order, return_prev, among, compare)
    if not isinstance(dst, Load | TileProxy) or compare is not None:
        _element(dst, what)
    if return_prev:
        raise ProgramNotImplementedError(
            f"{what}: return_prev is for one element, not for tiles", hint="loop over the elements"
        )
    stager = current(what)
    if isinstance(value, TileProxy) and value.ndim:
        source, target = align(value, dst, what)  # type: ignore[arg-type]
        tile = AtomicTile(op, source, target, order or MemoryOrder.RELAXED, among)
    else:
        assert isinstance(dst, TileProxy)
        scalar = cast(as_expr(value), dst.buffer.dtype)  # type: ignore[arg-type]
        tile = AtomicTile(op, scalar, check_inside(dst.region, what), order or MemoryOrder.RELAXED, among)
    tile.check()
    stager.emit(tile)
    return None


def _update_element(
    op: AtomicOp,
    what: str,
    dst: Load,
    value: object,
    order: MemoryOrder | None,
    return_prev: bool,
    scope: MemoryScope,
    compare: ExprLike | None,
) -> Expr | None:
    element = _element(dst, what)
    _check_dtype(op, what, element.dtype)
    stager = current(what)
    operand = cast(as_expr(value), element.dtype)  # type: ignore[arg-type]
    expected = None if compare is None else cast(as_expr(compare), element.dtype)
    result = Var(stager.suggest("previous"), element.dtype) if return_prev else None
    if order is None:
        takes_number = return_prev and element.buffer.scope is Scope.GLOBAL
        order = MemoryOrder.ACQ_REL if takes_number else MemoryOrder.RELAXED
    stager.emit(Atomic(op, element.buffer, element.indices, operand, result, order, expected, scope))
    return result


def _add_vector(what: str, dst: object, value: object, lanes: int, return_prev: bool) -> Expr | None:
    target = _first(dst, what)
    _check_dtype(AtomicOp.ADD, what, target.dtype)
    stager = current(what)
    previous: list[Expr] = []
    for at, operand in enumerate(_addends(value, what, lanes)):
        element = neighbor(target, at)
        result = Var(stager.suggest("previous"), target.dtype) if return_prev else None
        order = MemoryOrder.ACQ_REL if return_prev and target.buffer.scope is Scope.GLOBAL else MemoryOrder.RELAXED
        added = cast(operand, target.dtype)
        stager.emit(Atomic(AtomicOp.ADD, element.buffer, element.indices, added, result, order))
        previous += [] if result is None else [result]
    return pack(previous) if previous else None


def _first(operand: object, what: str) -> Load:
    """The first of the neighbors that an operand names by it, or by a region of them."""
    if isinstance(operand, TileProxy) and operand.ndim:
        return Load(operand.buffer, operand.region.start, operand.buffer.dtype)
    lanes = packed_lanes(operand) if isinstance(operand, Expr) else None
    if lanes is not None and isinstance(lanes[0], Load):  # of a vector index
        if not all(same_expr(lane, neighbor(lanes[0], at)) for at, lane in enumerate(lanes)):
            raise ProgramError(f"{what}: the elements are no neighbors", hint="index with a T.Ramp of stride 1")
        operand = lanes[0]
    element = _element(operand, what)
    if not element.indices:
        raise ProgramError(f"{what}: '{element.buffer.name}' is a scalar and has no neighbors")
    return element


def _addends(value: object, what: str, lanes: int) -> Sequence[Expr]:
    """The elements that are added: the lanes of a vector, or neighbors in memory."""
    if isinstance(value, Expr) and value.dtype.lanes > 1:
        if value.dtype.lanes != lanes:
            raise ProgramError(f"{what}: the value is a {value.dtype!s}, but {lanes} lanes are needed")
        return lanes_of(current(what).bind("addend", value))
    first = _first(value, what)
    return [neighbor(first, at) for at in range(lanes)]


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
        raise ProgramValueError(f"{what}: unknown memory_order {memory_order!r}", hint=_one_of(tuple(_ORDERS)))
    return _ORDERS[memory_order]


def _scope(what: str, scope: str) -> MemoryScope:
    known = [known.value for known in MemoryScope]
    if scope not in known:
        raise ProgramValueError(f"{what}: unknown scope {scope!r:.40}", hint=_one_of(tuple(known)))
    return MemoryScope(scope)


def _one_of(names: tuple[str, ...]) -> str:
    return f"one of {', '.join(names)}"
