"""Elements that a vector index names: a load or store for each lane, as a vectorized loop where the lanes are alike.

Takes the elements and values of all lanes, gives expressions and statements. Invariant: all values are read before the
first element is written.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.dtypes import INT32
from tilelang.errors import ProgramTypeError, ProgramValueError
from tilelang.ir.buffer import Buffer
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var, cast, select
from tilelang.ir.stmt import For, ForKind, Store
from tilelang.ir.vector import lanes_of, pack
from tilelang.ir.visit import children, loads_of
from tilelang.language.stage import Stager

Indices = tuple[Expr, ...]


def vector_lanes(name: str, keys: Sequence[object]) -> list[list[object]] | None:
    """The keys of an index, once for each lane of the vectors among them; None if there is no vector.

    Raises:
        ProgramValueError: Vectors differ in lanes.
        ProgramTypeError: A vector stands beside a slice.
    """
    counts = {key.dtype.lanes for key in keys if isinstance(key, Expr) and key.dtype.lanes > 1}
    if not counts:
        return None
    if len(counts) > 1:
        lanes = " and ".join(map(str, sorted(counts)))
        raise ProgramValueError(f"the indices of '{name}' are vectors of {lanes} lanes")
    if any(isinstance(key, slice) for key in keys):
        raise ProgramTypeError(
            f"'{name}' is indexed by a vector beside a slice", hint="give every dimension a scalar or a vector"
        )
    (count,) = counts
    spread = [lanes_of(key) if _is_vector(key) else (key,) * count for key in keys]  # type: ignore[arg-type]
    return [list(lane) for lane in zip(*spread, strict=True)]


def _is_vector(key: object) -> bool:
    return isinstance(key, Expr) and key.dtype.lanes > 1


def wrapped(index: Expr, extent: Expr) -> Expr:
    """A lane of a vector index: what is negative counts from the end."""
    return index if isinstance(index, Const) else select(index < 0, index + extent, index)


def load_elements(buffer: Buffer, places: Sequence[Indices]) -> Expr:
    """The vector of some elements.

    Raises:
        ProgramTypeError: The elements are vectors themselves.
    """
    _check_elements(buffer)
    return pack([Load(buffer, place, buffer.dtype) for place in places])


def store_elements(stager: Stager, buffer: Buffer, places: Sequence[Indices], value: Expr) -> None:
    """Writes the lanes of a vector, or a scalar, to some elements.

    Raises:
        ProgramTypeError: The elements are vectors themselves.
        ProgramValueError: The vector has another number of lanes.
    """
    _check_elements(buffer)
    if value.dtype.lanes not in (1, len(places)):
        raise ProgramValueError(
            f"{len(places)} elements of '{buffer.name}' are assigned a vector of {value.dtype.lanes} lanes"
        )
    lanes = lanes_of(value) if value.dtype.lanes > 1 else (value,) * len(places)
    if any(node.buffer is buffer for lane in lanes for node in loads_of(lane)):
        lanes = tuple(stager.bind("lane", lane) for lane in lanes)
    values = [cast(lane, buffer.dtype) for lane in lanes]
    var = Var(stager.unique("lane"), INT32, index=True)
    indices = [_alike(column, var) for column in zip(*places, strict=True)]
    common = _alike(values, var)
    if common is None or any(index is None for index in indices):
        for place, lane in zip(places, values, strict=True):
            stager.emit(Store(buffer, place, lane))
        return
    body = Store(buffer, tuple(index for index in indices if index is not None), common, loc=stager.loc)
    stager.emit(For(var, Const(0, INT32), Const(len(places), INT32), 1, ForKind.VECTORIZED, body))


def _check_elements(buffer: Buffer) -> None:
    if buffer.dtype.lanes > 1:
        raise ProgramTypeError(
            f"'{buffer.name}' holds {buffer.dtype!s} and is indexed by a vector", hint="index one vector by a scalar"
        )


def _alike(lanes: Sequence[Expr], var: Var) -> Expr | None:
    """The expression of `var` that is lane i where `var` is i, if the lanes are built alike; else None."""
    first = lanes[0]
    if all(same_expr(first, lane) for lane in lanes[1:]):
        return first
    if any(type(lane) is not type(first) or lane.dtype != first.dtype for lane in lanes):
        return None
    if isinstance(first, Const):
        return _progression([lane for lane in lanes if isinstance(lane, Const)], var)
    parts = [_alike(column, var) for column in zip(*map(children, lanes), strict=True)]
    if not parts or any(part is None for part in parts) or not all(_same_head(first, lane) for lane in lanes):
        return None
    return _rebuilt(first, tuple(part for part in parts if part is not None))


def _progression(literals: Sequence[Const], var: Var) -> Expr | None:
    first = literals[0]
    step = literals[1].value - first.value
    even = all(literal.value == first.value + i * step for i, literal in enumerate(literals))
    if not even or not first.is_index:
        return None
    scaled: Expr = var if step == 1 else var * int(step)
    return scaled + int(first.value) if first.value else scaled


def _same_head(a: Expr, b: Expr) -> bool:
    match a, b:
        case Binary(op=op), Binary():
            return op is b.op
        case Unary(op=sign), Unary():
            return sign is b.op
        case Load(), Load():
            return a.buffer is b.buffer
        case Call(), Call():
            return a.callee is b.callee
    return isinstance(a, Select | Cast)


def _rebuilt(expr: Expr, parts: tuple[Expr, ...]) -> Expr | None:
    match expr:
        case Binary(op=op, dtype=dtype):
            return Binary(op, parts[0], parts[1], dtype)
        case Unary(op=op, dtype=dtype):
            return Unary(op, parts[0], dtype)
        case Load(buffer=buffer, dtype=dtype):
            return Load(buffer, parts, dtype)
        case Call(callee=callee, dtype=dtype):
            return Call(callee, parts, dtype)
        case Select(dtype=dtype):
            return Select(parts[0], parts[1], parts[2], dtype)
        case Cast(dtype=dtype):
            return Cast(parts[0], dtype)
    return None
