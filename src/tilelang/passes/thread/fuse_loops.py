"""Makes one loop of neighboring ones over the same range, so that elements are used while they are in registers.

Takes loops that follow one another, gives one whose body does what theirs do; a copy of a row and the search of its
largest element, say, or exponentials and their sum:

    for i in range(4):                                 for i in range(4):
        for j in range(n): rows[i, j] = X[i, j]            folded = -inf
    for i in range(4):                            =>       for j in range(n):
        folded = -inf                                          rows[i, j] = X[i, j]
        for k in range(n):                                     folded = max(folded, rows[i, k])
            folded = max(folded, rows[i, k])               largest[i] = folded
        largest[i] = folded

Loops around others become one only where innermost loops then do. Loops that write tensors stay alone, since large
results are written past the caches. Invariant: no iteration touches what another one of the loop writes, but for
running values that one of the loops alone updates, so every element gets the value that it did.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tilelang.analysis.independence import lanes
from tilelang.arith.domain import Domain, behind, inside, of_function
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Expr
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Alloc, Bind, For, ForKind, Seq, Stmt, Store, While
from tilelang.ir.visit import accessed_buffers, loads_of, substitute_stmt, variables_of, walk
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property
from tilelang.passes.thread.vectorize_loops import is_worthwhile, vectorize_around

_MOST_STATEMENTS = 6  # of an innermost loop, so that its values stay in registers


class _Fuse:
    """Visits sequences with what is known around them."""

    def __init__(self) -> None:
        self._fused = 0  # how many innermost loops became part of others

    def stmt(self, node: Stmt, domain: Domain) -> Stmt:
        with node.loc:
            return self._sequence(node, domain) if isinstance(node, Seq) else inside(node, domain, self.stmt)

    def _sequence(self, node: Seq, domain: Domain) -> Seq:
        done: list[Stmt] = []
        for child in _flat(node):
            new = self.stmt(child, domain)
            place = _last_loop(done)
            whole = self._together(done[place], new, domain) if place is not None else None
            if place is None or whole is None:
                done.append(new)
            else:
                done[place:] = [*done[place + 1 :], whole]
            domain = behind(child, domain)
        same = len(done) == len(node.body) and all(x is y for x, y in zip(done, node.body, strict=True))
        return node if same else Seq(tuple(done), loc=node.loc)

    def _together(self, first: Stmt, second: Stmt, domain: Domain) -> For | None:
        """Both loops as one; None where that is not the same, or gains nothing."""
        if not isinstance(first, For) or not isinstance(second, For) or not _same_range(first, second):
            return None
        is_inner = _is_innermost(first)
        if is_inner != _is_innermost(second):
            return None
        other = substitute_stmt(second.body, {second.var: first.var})
        whole = dataclasses.replace(first, body=Seq((*_parts(first.body), *_parts(other)), loc=first.loc))
        if is_inner and not all(_only_computes(loop) and is_worthwhile(loop) for loop in (first, second, whole)):
            return None
        if not is_inner and any(vectorize_around(loop, domain) is not None for loop in (first, second)):
            return None
        inside = domain.with_loop(whole.var, whole.start, whole.stop, whole.step)
        verdict = lanes(whole.var, whole.body, inside, step=whole.step)
        if not verdict or verdict.private:
            return None
        both = _touched(first) & _touched(second)
        if any(reduction.buffer.storage in both for reduction in verdict.reductions):
            return None
        if is_inner:
            self._fused += 1
            return whole
        before, body = self._fused, self.stmt(whole.body, inside)
        return dataclasses.replace(whole, body=body) if self._fused > before else None


def _flat(node: Seq) -> Iterator[Stmt]:
    """The statements of a sequence, and of those in it that allocate no memory for that time."""
    for child in node.body:
        if isinstance(child, Seq) and not any(
            isinstance(s, Alloc) and s.buffer.scope is not Scope.VAR for s in child.body
        ):
            yield from _flat(child)
        else:
            yield child


def _last_loop(done: list[Stmt]) -> int | None:
    """The place of the last loop, where nothing stands behind it but new scalars that begin with a literal."""
    for place in reversed(range(len(done))):
        match done[place]:
            case For():
                return place
            case Alloc(buffer=buffer, init=init) if buffer.scope is Scope.VAR and (init is None or _is_literal(init)):
                continue
        break
    return None


def _is_literal(init: Expr) -> bool:
    return not variables_of(init) and not loads_of(init)


def _same_range(first: For, second: For) -> bool:
    serial = all(
        loop.kind is ForKind.SERIAL and loop.pipeline is None and not loop.reductions for loop in (first, second)
    )
    ends = ((first.start, second.start), (first.stop, second.stop))
    fixed = all(_is_fixed(end) for end in (first.start, first.stop))
    return serial and fixed and first.step == second.step and all(same_expr(a, b) for a, b in ends)


def _is_fixed(end: Expr) -> bool:
    """Whether the first loop cannot change where the second one ends."""
    return not loads_of(end)


def _is_innermost(loop: For) -> bool:
    return not any(isinstance(s, For | While) for s in walk(loop.body))


def _parts(body: Stmt) -> tuple[Stmt, ...]:
    return body.body if isinstance(body, Seq) else (body,)


def _only_computes(loop: For) -> bool:
    """Whether a loop consists of a few stores to memory on the chip."""
    stmts = [s for s in walk(loop.body) if not isinstance(s, Seq)]
    on_chip = all(isinstance(s, Bind) or isinstance(s, Store) and s.buffer.scope is not Scope.GLOBAL for s in stmts)
    return on_chip and len(stmts) <= _MOST_STATEMENTS


def _touched(loop: For) -> set[Buffer]:
    return {buffer.storage for stmt in walk(loop.body) for buffer in accessed_buffers(stmt)}


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_body(func, _Fuse().stmt(func.body, of_function(func)))


PASS = Pass(
    "fuse_loops", _run, Level.THREAD, Level.THREAD,
    requires=(Property.SUBSCRIPTS_CHECKED, Property.ACCESSES_UNTESTED),
    establishes=(Property.LOOPS_FUSED,),
)
