"""Finds the wgmma instructions of an unrolled nest, which one asm statement can hold.

NVVM's time grows with the operands of asm statements: one for each instruction would have all registers of the
accumulator each time. Invariant: the same instructions in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.dtypes import INT32
from tilelang.ir.buffer import Region
from tilelang.ir.compare import expr_key
from tilelang.ir.expr import Const, Expr, const, int_const
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import CallStmt, For, ForKind, Stmt
from tilelang.ir.visit import substitute_stmt
from tilelang.isa.instruction import Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.records import record
from tilelang.targets.nvidia.isa.async_units import WGMMA
from tilelang.targets.nvidia.isa.wgmma import wgmma_sequence

Argument = Region | Expr
_MIN_STEPS = 8  # statements of fewer save little time, and ptxas moves other instructions between those of a loop


@record(slots=True)
class WgmmaSequence:
    """Instructions of one form on the same accumulator, one step along K after the other.

    Attributes:
        helper: The function with the asm statement.
        c: The accumulator.
        operands: A and B of each step.
        accumulate: Whether the first step adds to what the accumulator holds; all others do.
    """

    helper: Helper
    c: Argument
    operands: list[tuple[Argument, Argument]]
    accumulate: Argument


def sequence_of(nest: For) -> WgmmaSequence | None:
    """The instructions of a nest of unrolled loops; None for few of them, and for loops of anything else."""
    form = _innermost(nest)
    if form is None or form.async_unit is not WGMMA:
        return None
    steps = [call.args for call in _unrolled(nest)]
    if len(steps) < _MIN_STEPS:
        return None
    helper = wgmma_sequence(form, len(steps))
    places = {tuple(map(expr_key, c.start)) for c, *_ in steps if isinstance(c, Region)}
    later = [accumulate for _, _, _, accumulate, *_ in steps[1:]]
    accumulating = all(isinstance(each, Const) and each.value for each in later)
    if helper is None or len(places) > 1 or not accumulating:
        return None
    c, _, _, accumulate, *_ = steps[0]
    return WgmmaSequence(helper, c, [(a, b) for _, a, b, *_ in steps], accumulate)


def _innermost(nest: Stmt) -> Instruction | None:
    """Return the calls of a nest of completely unrolled loops, if it does nothing else."""
    if isinstance(nest, CallStmt):
        return nest.routine if isinstance(nest.routine, Instruction) else None
    if not isinstance(nest, For) or nest.kind is not ForKind.UNROLLED or nest.unroll_factor:
        return None
    body = statements_of(nest.body)
    known = int_const(nest.start) is not None and int_const(nest.stop) is not None
    return _innermost(body[0]) if known and len(body) == 1 else None


def _unrolled(nest: Stmt) -> Iterator[CallStmt]:
    """The calls of a nest, one for each iteration."""
    if isinstance(nest, CallStmt):
        yield nest
    elif isinstance(nest, For):
        body, = statements_of(nest.body)
        for value in range(int_const(nest.start) or 0, int_const(nest.stop) or 0, nest.step):
            yield from _unrolled(substitute_stmt(body, {nest.var: const(value, INT32)}))
