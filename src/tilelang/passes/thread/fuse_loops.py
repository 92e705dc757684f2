"""Fuses neighboring loops over the same range, so that values are used while they are in registers.

Takes such loops, gives one loop with both bodies: a copy of a row and its maximum, say, or exponentials and their sum:

    for i in range(4):                                 for i in range(4):
        for j in range(n): rows[i, j] = X[i, j]            folded = -inf
    for i in range(4):                            =>       for j in range(n):
        folded = -inf                                          rows[i, j] = X[i, j]
        for k in range(n):                                     folded = max(folded, rows[i, k])
            folded = max(folded, rows[i, k])               largest[i] = folded
        largest[i] = folded

Loops need not be adjacent: what is between them, such as the first values of a sum, runs before both if it may. Outer
loops are fused only if innermost loops then fuse. Loops that write tensors are not, since large results are
written by non-temporal stores. Invariant: what both loops access is the same element in one iteration and no other, so
every element gets the same value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tilelang.analysis.independence import lane_legality
from tilelang.arith.domain import Domain, facts_after, of_function, visit_inside
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Expr
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.sequences import statements_of, with_statements
from tilelang.ir.stmt import Alloc, Bind, For, ForKind, Seq, Stmt, Store, While
from tilelang.ir.visit import accessed_buffers, loads_of, substitute_stmt, walk
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property
from tilelang.passes.thread.vectorize_loops import is_worthwhile, vectorize_around

_MAX_STATEMENTS = 6  # of an innermost loop; with more, its values may spill


class _Fuse:
    """Rewrites statements bottom-up, given the facts that hold at each."""

    def __init__(self) -> None:
        self._num_fused = 0  # pairs of innermost loops fused so far

    def stmt(self, node: Stmt, domain: Domain) -> Stmt:
        with node.loc:
            return self._sequence(node, domain) if isinstance(node, Seq) else visit_inside(node, domain, self.stmt)

    def _sequence(self, node: Seq, domain: Domain) -> Seq:
        done: list[Stmt] = []
        for child in _inlined_statements(node):
            new = self.stmt(child, domain)
            if not self._fuse_with_earlier(done, new, domain):
                done.append(new)
            domain = facts_after(child, domain)
        return with_statements(node, done)

    def _fuse_with_earlier(self, done: list[Stmt], second: Stmt, domain: Domain) -> bool:
        """Replaces an earlier loop by its fusion with a statement, behind all that may as well run before that loop."""
        for position in reversed(range(len(done))):
            first, between = done[position], done[position + 1 :]
            if isinstance(first, Alloc):
                continue
            if not isinstance(first, For) or not all(_can_run_before(stmt, first) for stmt in between):
                return False
            merged = self._fused(first, second, domain)
            if merged is not None:
                done[position:] = [*between, merged]
                return True
        return False

    def _fused(self, first: Stmt, second: Stmt, domain: Domain) -> Stmt | None:
        """The second statement after it was fused with the loop before it; None if that does not pay.

        A sequence that allocates memory is fused by its first loops that have anything to do with that loop.
        """
        if not isinstance(second, Seq):
            return self._fused_pair(first, second, domain)
        for index, stmt in enumerate(second.body):
            merged = self._fused_pair(first, stmt, domain)
            if merged is not None:
                return with_statements(second, [*second.body[:index], merged, *second.body[index + 1 :]])
            if not _can_run_before(stmt, first):
                return None
            domain = facts_after(stmt, domain)
        return None

    def _fused_pair(self, first: Stmt, second: Stmt, domain: Domain) -> For | None:
        """The fusion of two loops; None if it is illegal or not profitable."""
        if not isinstance(first, For) or not isinstance(second, For) or not _same_range(first, second):
            return None
        is_inner = _is_innermost(first)
        if is_inner != _is_innermost(second):
            return None
        other = substitute_stmt(second.body, {second.var: first.var})
        both = (*statements_of(first.body), *statements_of(other))
        merged = dataclasses.replace(first, body=Seq(both, loc=first.loc))
        if is_inner and not all(_is_small(loop) and is_worthwhile(loop) for loop in (first, second, merged)):
            return None
        if not is_inner and any(vectorize_around(loop, domain) is not None for loop in (first, second)):
            return None
        inside = domain.with_loop(merged.var, merged.start, merged.stop, merged.step)
        common = _accessed(first.body) & _accessed(second.body)
        # all iterations of a loop that becomes lanes are independent; others need not be of those of their own loop
        legality = lane_legality(merged.var, merged.body, inside, step=merged.step, among=None if is_inner else common)
        if not legality or legality.private:
            return None
        if any(reduction.buffer.storage in common for reduction in legality.reductions):
            return None
        if is_inner:
            self._num_fused += 1
            return merged
        before, body = self._num_fused, self.stmt(merged.body, inside)
        return dataclasses.replace(merged, body=body) if self._num_fused > before else None


def _inlined_statements(node: Seq) -> Iterator[Stmt]:
    """The statements of a sequence, with nested sequences inlined unless they allocate memory for their duration."""
    for child in node.body:
        if isinstance(child, Seq) and not any(
            isinstance(s, Alloc) and s.buffer.scope is not Scope.VAR for s in child.body
        ):
            yield from _inlined_statements(child)
        else:
            yield child


def _same_range(first: For, second: For) -> bool:
    serial = all(
        loop.kind is ForKind.SERIAL and loop.pipeline is None and not loop.reductions for loop in (first, second)
    )
    ends = ((first.start, second.start), (first.stop, second.stop))
    fixed = all(_is_fixed(end) for end in (first.start, first.stop))
    return serial and fixed and first.step == second.step and all(same_expr(a, b) for a, b in ends)


def _is_fixed(end: Expr) -> bool:
    """Whether a loop bound loads nothing, so that the first loop cannot change it."""
    return not loads_of(end)


def _is_innermost(loop: For) -> bool:
    return not any(isinstance(s, For | While) for s in walk(loop.body))


def _is_small(loop: For) -> bool:
    """Whether a loop consists of a few stores to on-chip memory."""
    stmts = [s for s in walk(loop.body) if not isinstance(s, Seq)]
    on_chip = all(isinstance(s, Bind) or isinstance(s, Store) and s.buffer.scope is not Scope.GLOBAL for s in stmts)
    return on_chip and len(stmts) <= _MAX_STATEMENTS


def _can_run_before(stmt: Stmt, loop: Stmt) -> bool:
    """Whether a statement after a loop may as well run before it: it allocates or computes other memory on the chip."""
    if not all(isinstance(s, Seq | For | Store | Alloc) for s in walk(stmt)):
        return False
    found = _accessed(stmt)
    return not found & _accessed(loop) and all(buffer.scope is not Scope.GLOBAL for buffer in found)


def _accessed(stmt: Stmt) -> set[Buffer]:
    return {buffer.storage for inner in walk(stmt) for buffer in accessed_buffers(inner)}


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_body(func, _Fuse().stmt(func.body, of_function(func)))


PASS = Pass(
    "fuse_loops", _run, Level.THREAD, Level.THREAD,
    requires=(Property.SUBSCRIPTS_CHECKED, Property.ACCESSES_UNPREDICATED),
    establishes=(Property.LOOPS_FUSED,),
)
