"""Finds groups of wgmma instructions which one asm statement can hold: a fence, an unrolled nest and a commit.

NVVM's time grows with asm statements and their operands: one for each instruction would have all registers of the
accumulator each time, and each register that is fenced takes one. Invariant: the same instructions in the same order.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from tilelang.dtypes import INT32, DType
from tilelang.errors import Loc
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.compare import expr_key
from tilelang.ir.expr import Const, Expr, const, int_const
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import CallStmt, For, ForKind, Stmt
from tilelang.ir.visit import substitute_stmt
from tilelang.isa.instruction import Effect, Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.records import record
from tilelang.targets.nvidia.isa.async_units import WGMMA
from tilelang.targets.nvidia.isa.wgmma import WGMMA_COMMIT, WGMMA_FENCE, wgmma_sequence
from tilelang.targets.nvidia.isa.wgmma_registers import define_operands, fence_operands

Argument = Region | Expr
_BARRIERS = (Effect.SYNC_BLOCK, Effect.SYNC_SOME, Effect.SYNC_WARP, Effect.FENCE)
# of operands in shared memory that add to given sums: a statement of fewer saves no time, and ptxas moves other
# instructions between those of a loop
_MIN_STEPS = 8


@record(slots=True)
class WgmmaSequence:
    """A group of instructions of one form on the same accumulator, one step along K after the other.

    Attributes:
        helper: The function with the asm statement.
        c: The accumulator.
        operands: A and B of each step.
        accumulate: Whether the first step adds to what the accumulator holds; all others do.
        loc: The user's line.
    """

    helper: Helper
    c: Argument
    operands: list[tuple[Argument, Argument]]
    accumulate: Argument
    loc: Loc


def with_sequences(statements: Sequence[Stmt]) -> list[Stmt | WgmmaSequence]:
    """The statements, with sequences in place of groups and of the fences of the registers that they name."""
    result: list[Stmt | WgmmaSequence] = []
    committed = False  # by the sequence before
    for stmt, following in itertools.zip_longest(statements, statements[1:]):
        if committed:
            committed = False
            continue
        fence = _fence_at_end(result) if isinstance(stmt, For) and _calls(following, WGMMA_COMMIT) else None
        sequence = _sequence_of(stmt) if isinstance(stmt, For) and fence is not None else None
        if fence is not None and sequence is not None:
            named, first = _named_registers(sequence), fence
            while first and _is_on(named, fence_operands, result[first - 1]):
                first -= 1
            held = first < fence and isinstance(sequence.operands[0][0], Region)
            defined = first and _is_on(named, define_operands, result[first - 1])
            if held or defined or len(sequence.operands) >= _MIN_STEPS:
                result[first : fence + 1] = []
                result.append(sequence)
                committed = True
                continue
        result.append(stmt)
    return result


def _fence_at_end(statements: Sequence[Stmt | WgmmaSequence]) -> int | None:
    """The last fence, if only barriers and fences of other kinds follow, before which it may be as well as after."""
    for place in range(len(statements) - 1, -1, -1):
        stmt = statements[place]
        if _calls(stmt, WGMMA_FENCE):
            return place
        if not isinstance(stmt, CallStmt) or not isinstance(stmt.routine, Instruction):
            return None
        if stmt.routine.effect not in _BARRIERS or stmt.routine.async_unit is WGMMA:
            return None
    return None


def _calls(stmt: Stmt | WgmmaSequence | None, instruction: Instruction) -> bool:
    return isinstance(stmt, CallStmt) and stmt.routine is instruction


def _named_registers(sequence: WgmmaSequence) -> Counter[Buffer]:
    """How many elements of each array the statement has as operands: it comes after what computes them."""
    arrays = [sequence.c, *(a for a, _ in sequence.operands)]
    named: Counter[Buffer] = Counter()
    for region in arrays:
        if isinstance(region, Region):
            named[region.buffer] += _elements(region)
    return named


def _is_on(
    named: Counter[Buffer], instruction: Callable[[DType, int], Instruction], stmt: Stmt | WgmmaSequence
) -> bool:
    """Whether a statement is an instruction on all elements of an array, which are all named."""
    array = stmt.args[0] if isinstance(stmt, CallStmt) and stmt.args else None
    if not isinstance(array, Region) or named[array.buffer] != _elements(array):
        return False
    return _calls(stmt, instruction(array.buffer.dtype, _elements(array)))


def _elements(array: Region) -> int:
    return int_const(array.extent[0]) or 0


def _sequence_of(nest: For) -> WgmmaSequence | None:
    """The instructions of a nest of unrolled loops; None for a single one, and for loops of anything else."""
    form = _innermost(nest)
    if form is None or form.async_unit is not WGMMA:
        return None
    steps = [call.args for call in _unrolled(nest)]
    if len(steps) < 2:
        return None
    helper = wgmma_sequence(form, len(steps))
    places = {tuple(map(expr_key, c.start)) for c, *_ in steps if isinstance(c, Region)}
    later = [accumulate for _, _, _, accumulate, *_ in steps[1:]]
    accumulating = all(isinstance(each, Const) and each.value for each in later)
    if helper is None or len(places) > 1 or not accumulating:
        return None
    c, _, _, accumulate, *_ = steps[0]
    return WgmmaSequence(helper, c, [(a, b) for _, a, b, *_ in steps], accumulate, nest.loc)


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
