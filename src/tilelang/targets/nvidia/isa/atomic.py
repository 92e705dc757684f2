"""Atomic operations on elements of global or shared memory: read-modify-write, compare-and-swap, load and store.

Gives `atomic(op, dtype, ...)`, which makes the instruction of an operation, `atomic_add_vector(dtype, ...)`, and
`of_statement`, which chooses among them.
Invariant: each element changes as the operator's ordinary arithmetic changes it: integers wrap, narrow floats compute
in float32 and round once, NaN wins minima and maxima. What the machine has no instruction for is a loop around
compare-and-swap.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions: atom, red", "Memory Consistency Model"; CUDA
C++ Programming Guide, "Atomic Functions".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import Any

import numpy as np

from tilelang.dtypes import SCALARS, DType, as_dtype, lane_dtype
from tilelang.errors import NoLowering
from tilelang.ir.buffer import Scope
from tilelang.ir.scalar import BinaryOp, convert, data_binary
from tilelang.ir.stmt import Atomic, MemoryOrder, MemoryScope
from tilelang.isa.instruction import Instruction
from tilelang.isa.simulated import Pointer, Warp
from tilelang.targets.gpu.isa.lanes import REDUCE_OPERATORS, spread
from tilelang.targets.nvidia.isa.atomic_text import ORDERS, SCOPES, AtomicText, operation_text, suffix, vector_text

VECTOR_LANES: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"float32": (4, 2), "float16": (8, 4, 2), "bfloat16": (8, 4, 2)}
)
"""Lanes of vector additions by dtype, longest first. Source: PTX ISA, "red", `.vec_32_bit` and `.vec_16_bit`."""

OPERATIONS = (*REDUCE_OPERATORS, "exchange", "cas", "load", "store")
_SOURCE = "PTX ISA, 'Parallel Synchronization and Communication Instructions: {}'"


def _check(what: str, order: str, scope: str) -> None:
    if order not in ORDERS:
        raise NoLowering(f"{what}: no memory order {order!r}", hint=f"one of {', '.join(ORDERS)}")
    if scope not in SCOPES:
        raise NoLowering(f"{what}: no scope {scope!r}", hint=f"one of {', '.join(SCOPES)}")


def _ordered(warp: Warp, order: str, act: Callable[[], np.ndarray]) -> np.ndarray:
    """The action between the fences that its memory order stands for."""
    if order in ("release", "acq_rel", "seq_cst"):
        warp.fence()
    value = act()
    if order in ("acquire", "acq_rel", "seq_cst"):
        warp.fence()
    return value


def of_statement(stmt: Atomic) -> Instruction:
    """The instruction of an atomic statement."""
    # what lies on the chip orders the threads of a block, others do not see it
    reached = stmt.buffer.scope is Scope.GLOBAL or stmt.order is MemoryOrder.RELAXED
    scope = stmt.scope if reached or stmt.scope is not MemoryScope.GPU else MemoryScope.BLOCK
    if stmt.value is not None and stmt.value.dtype.lanes > stmt.buffer.dtype.lanes:
        return atomic_add_vector(stmt.value.dtype, stmt.order.value, scope.value)
    return atomic(stmt.op.value, stmt.buffer.dtype, stmt.order.value, scope.value)


@cache
def atomic(op: str, dtype: DType, order: str = "relaxed", scope: str = "gpu") -> Instruction:
    """An atomic operation on one element per lane.

    It is called with the element's address and, but for "load", the operand; "cas" takes what the element must be (bit
    for bit) and then what it becomes. All but "store" have the previous element as their value, which may be ignored.

    Args:
        op: "add", "min", "max", "and", "or", "xor", "exchange", "cas", "load" or "store".
        dtype: Of the element; a scalar.
        order: "relaxed", "acquire", "release", "acq_rel" or "seq_cst".
        scope: For whose threads it is atomic: the "block", the "gpu" or the "system".

    Raises:
        NoLowering: There is no such operation on the dtype.
    """
    what = f"atomic {op}"
    _check(what, order, scope)
    if op not in OPERATIONS:
        raise NoLowering(f"{what}: no such operation", hint=f"one of {', '.join(OPERATIONS)}")
    if dtype.lanes > 1:
        raise NoLowering(f"{what}: {dtype!s} is a vector", hint="write atomic_add_vector")
    if op in ("and", "or", "xor") and not dtype.is_int:
        raise NoLowering(f"{what}: needs integers, got {dtype!s}")
    words = operation_text(op, dtype, order, scope)

    def simulate(warp: Warp, pointer: Pointer, *operands: Any) -> np.ndarray | None:
        values = [spread(warp, convert(np.asarray(operand), dtype)) for operand in operands]

        def change(old: Any, lane: int) -> Any:
            return _change(op, dtype, old, values, lane)

        previous = _ordered(warp, order, lambda: warp.update(pointer, change))
        return None if op == "store" else previous

    return _record(f"atomic_{op}_{dtype!s}", order, scope, words, simulate, None if op == "store" else dtype)


def _change(op: str, dtype: DType, old: Any, values: list[np.ndarray], lane: int) -> Any:
    match op:
        case "load":
            return old
        case "exchange" | "store":
            return values[0][lane]
        case "cas":
            return values[1][lane] if old.tobytes() == values[0][lane].tobytes() else old
    return data_binary(REDUCE_OPERATORS[op], old, values[0][lane], dtype)


@cache
def atomic_add_vector(dtype: DType, order: str = "relaxed", scope: str = "gpu") -> Instruction:
    """Adds a short vector to neighboring elements of global memory, each of them atomically.

    It is called with the first element's address, a multiple of the vector's size, and the vector. It has no value.

    Args:
        dtype: float32 of 2 or 4 lanes, float16 or bfloat16 of 2, 4 or 8.
        order: As for `atomic`.
        scope: As for `atomic`.

    Raises:
        NoLowering: There is no such vector.
    """
    _check("atomic add", order, scope)
    lane = lane_dtype(dtype)
    if dtype.lanes not in VECTOR_LANES.get(str(lane), ()):
        raise NoLowering(f"atomic add: no instruction for {dtype!s}", hint="add the elements one by one")
    words = vector_text(dtype, order, scope)

    def simulate(warp: Warp, pointer: Pointer, vector: Any) -> None:
        values = np.broadcast_to(np.asarray(vector), (warp.active.size, dtype.lanes))

        def act() -> np.ndarray:
            for place in range(dtype.lanes):
                warp.update(pointer + place, partial(_add, lane, values[:, place]))
            return values

        _ordered(warp, order, act)

    return _record(f"atomic_add_{dtype!s}", order, scope, words, simulate, None)


def _add(dtype: DType, values: np.ndarray, old: Any, lane: int) -> Any:
    return data_binary(BinaryOp.ADD, old, values[lane], dtype)


def _record(
    name: str, order: str, scope: str, words: AtomicText, simulate: Callable[..., Any], result: DType | None
) -> Instruction:
    return Instruction(
        f"{name}{suffix(order, scope)}",
        {"cuda": words.text},
        {} if words.helper is None else {"cuda": words.helper},
        simulate,
        result=result,
        may_diverge=words.retries,
        source=_SOURCE.format("atom, red"),
    )


def instructions() -> Iterator[Instruction]:
    """Those of this file with each dtype, of other than relaxed order with int32 alone."""
    for dtype in SCALARS.values():
        yield from (atomic(op, dtype) for op in OPERATIONS if dtype.is_int or op not in ("and", "or", "xor"))
    for order in ORDERS:
        for scope in SCOPES:
            if (order, scope) != ("relaxed", "gpu"):
                yield from (atomic(op, SCALARS["int32"], order, scope) for op in OPERATIONS)
    for name, lanes in VECTOR_LANES.items():
        yield from (atomic_add_vector(as_dtype(f"{name}x{count}")) for count in reversed(lanes))
