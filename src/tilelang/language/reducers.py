"""`T.alloc_reducer`, `T.reducer_init`, `T.reducer_update` and `T.finalize_reducer`: totals of many iterations.

Takes fragments whose elements iterations of `T.Parallel` combine values into, emits fills, stores and copies.
Invariant: under the meaning of a block as one sequential program the totals are complete at any time, so the calls are
plain statements of the program; `reducer_epochs` refuses programs that could see a partial result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tilelang.dtypes import DType
from tilelang.errors import ProgramAssertionError, ProgramValueError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Expr, ExprLike, Load, as_expr, binary, cast
from tilelang.ir.stmt import Alloc, Stmt, Store
from tilelang.ir.visit import loads_of
from tilelang.language.alloc import on_chip
from tilelang.language.api import api
from tilelang.language.deprecation import warn_deprecated
from tilelang.language.dtypes import convert_to
from tilelang.language.extents import shape_text
from tilelang.language.proxy import BufferProxy, TileProxy
from tilelang.language.reducer_epochs import FINALIZE, INIT, UPDATE
from tilelang.language.regions import Operand, as_buffer, scalar_operand, tile_region
from tilelang.language.stage import Stager, current
from tilelang.language.types import DTypeLike, ShapeLike
from tilelang.ops.copy import Copy
from tilelang.ops.describe import drop_units, operand_text, same_extents
from tilelang.ops.fill import Fill
from tilelang.ops.reduce import OPERATORS, ReduceOp, neutral

__all__ = [
    "alloc_reducer",
    "finalize_reducer",
    "reducer_init",
    "reducer_update",
]

_OPS = {op.value: op for op in ReduceOp if not op.takes_absolute}


@api
def alloc_reducer(
    shape: ShapeLike, dtype: DTypeLike = "float32", op: str = "sum", replication: str | None = None
) -> BufferProxy:
    """A tile of totals: many iterations of `T.Parallel` loops combine values into each of its elements.

    It is used in epochs: `T.reducer_init` opens one, `T.reducer_update` combines values into elements, and
    `T.finalize_reducer` closes it and writes the totals into a fragment. Nothing else may touch it.

    A program without these calls may treat it as a fragment that starts at the operator's neutral element (older
    syntax): `T.clear(r)` or `T.fill(r, v)`, then `r[i] += x` or `r[i] = T.max(r[i], x)` in `T.Parallel` loops, and
    `T.finalize_reducer(r)` before it is read.

    Shapes: constant extents.

    Args:
        shape: The extents.
        dtype: The element dtype; integers or bool for operators of bits.
        op: "sum", "max", "min", "bitand", "bitor" or "bitxor"; NaN wins in max and min.
        replication: "all" or "none", of the older syntax: deprecated, and without influence on the result.

    Raises:
        ProgramError: The operator is another one.
        ProgramAssertionError: An operator of bits is asked for on floats.

    Example:
        `row_max = T.alloc_reducer((block_M,), T.float32, op="max")`
    """
    what = "T.alloc_reducer"
    if op not in _OPS:
        raise ProgramValueError(f"{what}: op is {op!r:.40}", hint=f"one of {', '.join(_OPS)}")
    if replication not in (None, "all", "none"):
        raise ProgramValueError(f"{what}: replication is {replication!r:.40}", hint="leave it out")
    if replication is not None:
        warn_deprecated("T.alloc_reducer: replication", "it means nothing, leave it out")
    reducer = on_chip(what, shape, dtype, Scope.FRAGMENT)
    row = reducer.buffer.dtype
    if _OPS[op].is_bitwise and row.is_float:
        raise ProgramAssertionError(
            f"{what}: op={op!r} needs an integer dtype, got {row!s}", hint="name the bits as integers with T.view"
        )
    stager = current(what)
    stager.reducers[reducer.buffer] = _OPS[op]
    first = convert_to(neutral(_OPS[op], row), row, what)
    stager.emit(Fill(reducer.region, first))
    return reducer


@api
def reducer_init(reducer: BufferProxy, init: ExprLike | TileProxy | None = None) -> None:
    """Opens an epoch of a reducer: every element starts at the operator's neutral element, or at `init`.

    The neutral element is 0 for sum, bitor and bitxor, -inf or the least integer for max, inf or the greatest integer
    for min, and all ones for bitand. A reducer can be opened anew in every iteration of a loop, but only once in a run
    of statements.

    Shapes: `init` is a scalar, or a tile of the reducer's shape.

    Args:
        reducer: Of `T.alloc_reducer`.
        init: What is combined into the totals, once, beside the values of the updates; of the reducer's dtype.

    Raises:
        ProgramValueError: It is no reducer, or `init` is of another dtype or shape; the epoch before is open; it stands
            inside of `T.Parallel`.

    Example:
        `T.reducer_init(row_max)`
    """
    what = INIT
    buffer, op = _reducer(reducer, what)
    stager = current(what)
    _start_without_fill(stager, buffer)
    whole = reducer.region
    if isinstance(init, TileProxy) and init.ndim:
        start = init.region
        if start.dtype != buffer.dtype:
            raise _unlike(f"init '{init.name}'", start.dtype, buffer)
        if not same_extents(start.extent if init.is_whole else [as_expr(e) for e in init.shape], buffer.shape):
            raise ProgramValueError(
                f"{what}: init '{init.name}' is {shape_text(init.shape)}, which does not match reducer "
                f"'{buffer.name}' {shape_text(buffer.shape)}",
                hint="pass a tile of the reducer's shape, or a scalar",
            )
        _emit(stager, Copy(start, whole, loc=stager.loc), INIT, buffer)
        return
    value = neutral(op, buffer.dtype) if init is None else scalar_operand(init, what, "init")
    given = as_expr(value)
    literal = isinstance(value, bool | int | float)
    if not literal and given.dtype != buffer.dtype:
        raise _unlike("init", given.dtype, buffer)
    _emit(stager, Fill(whole, convert_to(given, buffer.dtype, what), loc=stager.loc), INIT, buffer)


@api
def reducer_update(target: Expr, value: ExprLike) -> None:
    """Combines a value into an element of a reducer: `T.reducer_update(acc[i], x)`.

    Any number of iterations may update one element. The value is converted to the reducer's dtype first.

    Args:
        target: An element of a reducer.
        value: What is combined into it.

    Raises:
        ProgramValueError: It is no element of a reducer, or stands outside of `T.Parallel` or of an epoch.

    Example:
        `for i, j in T.Parallel(block_M, block_N): T.reducer_update(row_max[i], scores[i, j])`
    """
    what = UPDATE
    stager = current(what)
    if not isinstance(target, Load) or target.buffer not in stager.reducers:
        raise ProgramValueError(
            f"{what}: the target is {target!r:.60}, no element of a reducer", hint="write acc[i] of T.alloc_reducer"
        )
    buffer = target.buffer
    _start_without_fill(stager, buffer)
    operand = cast(as_expr(scalar_operand(value, what, "value")), buffer.dtype)
    if any(node.buffer is buffer for node in loads_of(operand)):
        raise ProgramValueError(
            f"{what}: illegal read of reducer '{buffer.name}' in the value, whose parts are not combined yet",
            hint=f"read the fragment that T.finalize_reducer({buffer.name}, dst) writes",
        )
    combined = cast(binary(OPERATORS[stager.reducers[buffer]], target, operand), buffer.dtype)
    _emit(stager, Store(buffer, target.indices, combined, loc=stager.loc), UPDATE, buffer)


@api
def finalize_reducer(
    reducer: BufferProxy, dst: Operand | None = None, batch: int = 1, annotations: Mapping[str, object] | None = None
) -> None:
    """Closes the epoch of a reducer and writes its totals into a fragment.

    It stands where `T.reducer_init` does, or below in a branch, once per epoch. Without `dst` (older syntax) the
    reducer itself is read like any fragment afterwards.

    Shapes: `dst` has the reducer's shape and dtype.

    Args:
        reducer: Of `T.alloc_reducer`.
        dst: Where the totals go.
        batch: Elements that threads combine at once; steers GPU targets only.
        annotations: Hints of published TileLang, which steer nothing here.

    Raises:
        ProgramValueError: It is no reducer, the shape or dtype of `dst` differs, `batch` does not divide the number of
            elements, or no epoch is open here.

    Example:
        `T.finalize_reducer(row_max, scores_max)`
    """
    del annotations
    what = FINALIZE
    buffer, _ = _reducer(reducer, what)
    stager = current(what)
    _check_batch(what, batch, buffer)
    if dst is None:
        return
    _start_without_fill(stager, buffer)
    target = tile_region(dst, what, element=True)
    if target.dtype != buffer.dtype:
        raise ProgramValueError(
            f"{what}: '{target.buffer.name}' is {target.dtype!s}, but reducer '{buffer.name}' is {buffer.dtype!s}",
            hint=f"allocate '{target.buffer.name}' as {buffer.dtype!s}, and convert afterwards with T.copy",
        )
    if not same_extents(drop_units(target.extent), drop_units(buffer.shape)):
        raise ProgramValueError(
            f"{what}: {operand_text(target)}, but reducer '{buffer.name}' is {shape_text(buffer.shape)}",
            hint="both need the same shape",
        )
    _emit(stager, Copy(reducer.region, target, loc=stager.loc), FINALIZE, buffer)


def _reducer(operand: object, what: str) -> tuple[Buffer, ReduceOp]:
    """The buffer of a reducer, and its operator.

    Raises:
        ProgramValueError: It is none.
    """
    buffer = as_buffer(operand, what)
    op = current(what).reducers.get(buffer)
    if op is None:
        raise ProgramValueError(
            f"{what}: '{buffer.name}' is in scope {buffer.scope.value!r}, not a reducer",
            hint="allocate it with T.alloc_reducer",
        )
    return buffer, op


def _start_without_fill(stager: Stager, buffer: Buffer) -> None:
    """Takes back the first value that `T.alloc_reducer` gave: epochs have their own."""
    for block in stager.open_blocks:
        for place, stmt in enumerate(block[:-1]):
            first = block[place + 1]
            if isinstance(stmt, Alloc) and stmt.buffer is buffer and isinstance(first, Fill):
                if first.dst.buffer is buffer and first not in stager.reducer_steps:
                    del block[place + 1]
                return


def _emit(stager: Stager, stmt: Stmt, step: str, reducer: Buffer) -> None:
    """Emits a statement that is a step of an epoch."""
    stager.reducer_steps[stmt] = (step, reducer)
    stager.emit(stmt)


def _unlike(what: str, dtype: DType, buffer: Buffer) -> ProgramValueError:
    return ProgramValueError(
        f"{INIT}: {what} is {dtype!s}, which does not match reducer '{buffer.name}' of {buffer.dtype!s}",
        hint=f"convert it: T.cast(init, '{buffer.dtype!s}')",
    )


def _check_batch(what: str, batch: object, buffer: Buffer) -> None:
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
        raise ProgramValueError(f"{what}: batch must be >= 1, got {batch!r:.40}", hint="leave it out")
    cells = math.prod(buffer.static_shape or ())
    if batch > cells:
        raise ProgramValueError(
            f"{what}: batch {batch} exceeds total output elements of '{buffer.name}', {cells}", hint="leave it out"
        )
    if cells % batch:
        raise ProgramValueError(
            f"{what}: batch {batch} must evenly divide the {cells} elements of '{buffer.name}'", hint="leave it out"
        )
