"""`T.Parallel` loops around barriers: all iterations come to a barrier before any goes on.

Takes the recorded body of a loop, gives loops with the barriers between them, so that every executor sees the same
order. Invariant: each iteration does what it did, in its order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tilelang.ir.builder import as_body
from tilelang.ir.stmt import Alloc, Bind, CallStmt, Seq, Stmt
from tilelang.ir.visit import accessed_buffers, expressions, needed_bindings, variables_of, walk
from tilelang.isa.instruction import Effect, Instruction
from tilelang.language.stage import reads_memory

_OF_ALL = Effect.SYNC_BLOCK | Effect.JOIN_BLOCK | Effect.SYNC_GRID


def around_barriers(body: Stmt, loop: Callable[[Stmt], Stmt]) -> Stmt:
    """The loop, or one before and one after each barrier of the block or grid that its body has.

    It stays whole where what an iteration computed before a barrier is used after it under a name.

    Args:
        body: One iteration.
        loop: Makes the loop of a body.
    """
    sections: list[list[Stmt]] = [[]]
    barriers: list[Stmt] = []
    for part in _parts(body):
        if _is_barrier(part):
            barriers.append(part)
            sections.append([])
        else:
            sections[-1].append(part)
    if not barriers:
        return loop(body)
    for number, section in enumerate(sections[1:], start=1):
        before = [stmt for earlier in sections[:number] for stmt in earlier]
        names = _needed(section, before)
        if names is None:
            return loop(body)
        section[:0] = names
    loops: list[Stmt] = []
    for section, barrier in zip(sections, (*barriers, None), strict=True):
        if any(not isinstance(stmt, Bind) for stmt in section):
            part = as_body(section, body.loc)
            loops.append(dataclasses.replace(loop(part), loc=body.loc))
        if barrier is not None:
            loops.append(barrier)
    return Seq(tuple(loops), loc=body.loc)


def _parts(body: Stmt) -> list[Stmt]:
    """The statements of a body; a sequence that declares nothing is no scope."""
    if not isinstance(body, Seq):
        return [body]
    found: list[Stmt] = []
    for stmt in body.body:
        declares = isinstance(stmt, Seq) and any(isinstance(s, Bind | Alloc) for s in stmt.body)
        found.extend(_parts(stmt) if isinstance(stmt, Seq) and not declares else [stmt])
    return found


def _is_barrier(stmt: Stmt) -> bool:
    routine = stmt.routine if isinstance(stmt, CallStmt) and stmt.result is None and not stmt.args else None
    return isinstance(routine, Instruction) and bool(routine.effect & _OF_ALL)


def _needed(section: list[Stmt], before: list[Stmt]) -> list[Stmt] | None:
    """The names of values that a section uses from before it; None if it uses something else that is declared there."""
    declared = {stmt.buffer for stmt in before if isinstance(stmt, Alloc)}
    results = {s.result for s in before if getattr(s, "result", None) is not None}  # type: ignore[attr-defined]
    inner = [s for stmt in section for s in walk(stmt)]
    if any(buffer in declared for stmt in inner for buffer in accessed_buffers(stmt)):
        return None
    needed = needed_bindings(section, {stmt.var: stmt for stmt in before if isinstance(stmt, Bind)})
    if any(reads_memory(stmt.value) for stmt in needed):
        return None
    used = {var for stmt in (*inner, *needed) for root in expressions(stmt) for var in variables_of(root)}
    return None if used & results else [stmt for stmt in before if stmt in needed]
