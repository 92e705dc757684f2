"""The steps of a gemm along K, of which the first one is loaded, or the last one multiplied, by another statement.

    load step 1 | multiply the first step | load step 2 | multiply step 1 | ... | load step n | multiply step n - 1

Takes the operands and what emits the instructions of a step, gives the program of one thread. Invariant: each step is
loaded before the instructions of the one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr, const
from tilelang.lowering.regions import ZERO
from tilelang.lowering.registers import Emitter
from tilelang.targets.gpu.lowerings.mma_operand import ElementOperand, Operand

Operands = tuple[Operand, Operand]


def inner_steps(
    emit: Emitter,
    steps: int,
    operands: Operands,
    first: Operands | None,
    last: Sequence[Buffer],
    multiply: Callable[[Operand, Operand, Expr], None],
) -> None:
    """Emits the steps.

    Args:
        emit: Receives statements.
        steps: Steps along K, including both ends.
        operands: A and B in shared memory.
        first: The operands of the first step in registers, if they are there.
        last: The registers to which the operands of the last step are loaded, if another gemm multiplies them.
        multiply: Emits the instructions of a step, given A and B.
    """

    def ahead(step: Expr) -> None:
        _fetch(operands, step)
        multiply(*operands, emit.short(step - 1))

    begin, end = int(first is not None), steps - bool(last)
    fetched: tuple[Operand, Operand, Expr] | None = None
    if first is not None:
        _fetch(first, ZERO)
        fetched = *first, ZERO
    if begin < end:
        # a variable of its own for each step, so that offsets in tiles have a common part
        emit.loop("k_step", begin + 1, lambda step: _fetch(operands, step), start=begin)
        if fetched is not None:
            multiply(*fetched)
        emit.loop("k_step", end, ahead, start=begin + 1)
        fetched = *operands, const(end - 1, ZERO.dtype)
    if last:
        to_last = [_shared(operand).loading_to(registers) for operand, registers in zip(operands, last, strict=True)]
        emit.loop("k_step", steps, lambda step: _fetch(to_last, step), start=steps - 1)
    if fetched is not None:
        multiply(*fetched)


def _fetch(operands: Iterable[Operand], step: Expr) -> None:
    for operand in operands:
        operand.fetch(step, tail=False)


def _shared(operand: Operand) -> ElementOperand:
    assert isinstance(operand, ElementOperand)
    return operand
