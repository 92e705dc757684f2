"""Prefetch of fragments: the operands of a loop's first matrix instructions are loaded during the last ones before.

Takes a pipelined loop with the placement of its statements; gives one that loads what the first step along K of its
first gemm needs one iteration ahead, before the last step of its last gemm:

    for k:  wait for tile k; start copies; multiply tile k
 => wait for tile 0; load its first step; start copies
    for k:  multiply tile k but for its last step, which is loaded; wait for tile k + 1; load its first step; start
            copies; multiply the last step of tile k

So the latency of loads after an iteration's barrier is hidden, and loads do not queue after copies. A gemm is the sum
of gemms over parts of K, so that this is a division of statements, and a placement like any other: no other placement
of the loads is faster, since none exposes less of their latency. Invariant: what stands after the last step of the last
gemm uses registers only, so that no tile that copies overwrite is read there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import int_const
from tilelang.ir.plan import Plan
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import Alloc, For, Seq, Stmt
from tilelang.lowering.regions import slice_along, whole
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm, matrix_extents
from tilelang.records import record
from tilelang.saved_schedule import Placement, in_sequence
from tilelang.schedule.loop_body import LoopBody
from tilelang.schedule.placement_legality import violation


@record
class OperandLoads:
    """How a target loads the operands of one step of a gemm along K.

    Attributes:
        step: The elements along K of one instruction.
        registers: What the operands of a step take of a thread's 32-bit registers.
        choice: The lowering of a copy that loads an operand.
        plans: Its plans for A and B.
    """

    step: int
    registers: int
    choice: str
    plans: tuple[Plan, Plan]


@record
class FragmentPrefetch:
    """A loop whose first fragments are loaded an iteration ahead.

    Attributes:
        loop: The loop with its first and its last gemm divided.
        registers: The fragments, to be allocated before the loop.
        placement: When its statements run.
    """

    loop: For
    registers: tuple[Alloc, ...]
    placement: Placement


def fragment_prefetch(
    loop: For,
    placement: Placement,
    outside: Mapping[Buffer, str],
    loads: Callable[[Gemm], OperandLoads | None],
    registers: int,
) -> FragmentPrefetch | None:
    """The loop with its first fragments loaded ahead; None if it has none, or registers do not suffice.

    Args:
        loop: A pipelined loop.
        placement: When its statements run.
        outside: Buffers whose accesses outside of the loop rule out versions, with the reason.
        loads: How operands of a gemm are loaded; None where it cannot be divided.
        registers: 32-bit registers of a thread that operands may take.
    """
    body = LoopBody(loop)
    ends = _ends(body, placement)
    ways = [loads(gemm) for gemm in ends]
    found = [way for way in ways if way is not None]
    if not ends or len(found) < len(ends) or 2 * max(way.registers for way in found) > registers:
        return None
    first, last = ends
    if first is last and (int_const(first.sizes[2]) or 0) < 2 * found[0].step:
        return None
    parts = {gemm: _Parts(gemm, way, gemm is first, gemm is last) for gemm, way in zip(ends, found, strict=True)}
    flat = flat_statements(loop.body)
    statements = [part for s in flat for part in (parts[s].statements if isinstance(s, Gemm) and s in parts else [s])]
    divided = dataclasses.replace(loop, body=Seq(tuple(statements), loc=loop.body.loc))
    after = LoopBody(divided)
    made = _placement(body, placement, after, parts[first], parts[last])
    if violation(after, made, outside) is not None:
        return None
    tiles = tuple(Alloc(tile, loc=loop.loc) for each in parts.values() for tile in each.tiles)
    return FragmentPrefetch(divided, tiles, made)


def _ends(body: LoopBody, placement: Placement) -> tuple[Gemm, ...]:
    """The first statement of an iteration and the last one that needs more than registers; none unless both are gemms.

    Copies that run ahead of the iteration do not count as a part of it.
    """
    sequence = [body.statements[n] for n in placement.sequence if placement.stage[n] == placement.last]
    needing = [body.statements[n] for n in placement.sequence if not _on_registers(body, n)]
    ends = tuple(s for s in (sequence[0], *needing[-1:]) if isinstance(s, Gemm) and s in sequence)
    return ends if len(ends) > 1 else ()


def _on_registers(body: LoopBody, number: int) -> bool:
    return all(storage.scope is Scope.FRAGMENT for storage, _, _ in body.touched[number])


def _placement(body: LoopBody, old: Placement, after: LoopBody, first: _Parts, last: _Parts) -> Placement:
    """The placement of the divided loop: all before the first gemm comes before the last step of the iteration before.

    What runs ahead there comes after the first loads, all else one stage later than in the old placement.
    """
    sequence = [body.statements[n] for n in old.sequence]
    start, end = sequence.index(first.gemm), sequence.index(last.gemm)
    ahead = [*first.ahead, *sequence[:start]]
    between = sequence[start + 1 : end]
    inner = [first.inner] if first is last else [first.inner, *between, last.inner]
    stage_of = dict(zip(body.statements, old.stage, strict=True))
    stages = {stmt: stage_of.get(stmt, old.last) + (stmt not in ahead) for stmt in after.statements}
    low = min(stages.values())
    number = {stmt: n for n, stmt in enumerate(after.statements)}
    order = [*inner, *ahead, *last.last, *sequence[end + 1 :]]
    return in_sequence([stages[stmt] - low for stmt in after.statements], [number[stmt] for stmt in order])


class _Parts:
    """A gemm whose first step along K is loaded, or whose last step is multiplied, by a statement of its own.

    Attributes:
        gemm: The gemm.
        tiles: The fragments.
        ahead: The loads of the first step; none if the gemm does that.
        inner: The gemm of what is left.
        last: The gemm of the last step; none if the inner one does that.
    """

    def __init__(self, gemm: Gemm, loads: OperandLoads, is_first: bool, is_last: bool) -> None:
        self.gemm = gemm
        self.tiles: list[Buffer] = []
        operands = zip((gemm.a, gemm.b), gemm.axes_along_k, strict=True)
        steps = [slice_along(region, axis, 0, loads.step) for region, axis in operands]
        first = self._fragments(steps, "first") if is_first else None
        last = self._fragments(steps, "last") if is_last else None
        self.ahead: list[Stmt] = []
        self.last: list[Stmt] = []
        if first is not None:
            for step, tile, plan in zip(steps, first, loads.plans, strict=True):
                self.ahead.append(Copy(step, tile, choice=loads.choice, plan=plan, loc=gemm.loc))
        self.inner = dataclasses.replace(gemm, first=first, last=last)
        if last is not None:
            self.last.append(dataclasses.replace(gemm, a=last[0], b=last[1], clear_accum=None))

    @property
    def statements(self) -> list[Stmt]:
        """All parts, in program order."""
        return [*self.ahead, self.inner, *self.last]

    def _fragments(self, steps: Sequence[Region], name: str) -> tuple[Region, Region]:
        """Fragments for the operands of a step."""
        a, b = (
            Buffer(f"{step.buffer.name}_{name}", matrix_extents(step), step.dtype, Scope.FRAGMENT, loc=self.gemm.loc)
            for step in steps
        )
        self.tiles += [a, b]
        return whole(a), whole(b)
