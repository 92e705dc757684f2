"""Indices that are surely negative count from the end of their dimension.

Takes a staged function, gives the same with such indices of elements moved into their dimension, and with the choices
that `vector_access` makes for lanes of unknown sign decided where the sign is known. Invariant: an index that may be of
either sign stays as it is.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tilelang.ir.buffer import Buffer
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Binary, Const, Expr, Load, Select, Unary, Var, int_const, unary
from tilelang.ir.func import PrimFunc, ScalarParam
from tilelang.ir.scalar import BinaryOp, UnaryOp
from tilelang.ir.stmt import Atomic, Bind, For, If, Launch, ParallelLoop, Seq, Stmt, Store
from tilelang.ir.visit import Rewriter, children, expressions, walk, walk_expr

if TYPE_CHECKING:
    from tilelang.arith.domain import Domain


def count_from_the_end(func: PrimFunc) -> PrimFunc:
    """The function in which no element's index is surely negative."""
    signed = {param.var for param in func.params if isinstance(param, ScalarParam)}
    if not any(_needs_a_look(stmt, signed) for stmt in walk(func.body)):
        return func
    from tilelang.arith.domain import of_function  # noqa: PLC0415  few programs need the prover while they are staged

    body = _stmt(func.body, of_function(func))
    return func if body is func.body else dataclasses.replace(func, body=body)


def _needs_a_look(stmt: Stmt, signed: set[Var]) -> bool:
    """Whether an index of an element in a statement may be negative; adds variables that it defines and that may be."""
    match stmt:
        case For(var=var, start=start, step=step):
            if step < 0 or _may_be_negative(start, signed):
                signed.add(var)
        case Bind(var=var, value=value):
            if _may_be_negative(value, signed):
                signed.add(var)
        case Store(indices=indices) | Atomic(indices=indices):
            if any(_may_be_negative(index, signed) for index in indices):
                return True
    return any(
        isinstance(node, Load) and any(_may_be_negative(index, signed) for index in node.indices)
        for root in expressions(stmt)
        for node in walk_expr(root)
    )


def _may_be_negative(index: Expr, signed: set[Var]) -> bool:
    """Whether an index holds something that may be negative, as far as a glance shows.

    What is loaded counts as such only under a name, of which conditions may speak.
    """
    match index:
        case Var():
            return index in signed or not index.index
        case Const(value=value):
            return value < 0
        case Unary(op=UnaryOp.NEG) | Select() | Binary(op=BinaryOp.SUB):
            return True
        case Load():
            return False
    return any(_may_be_negative(part, signed) for part in children(index))


def _stmt(node: Stmt, domain: Domain) -> Stmt:
    from tilelang.arith.domain import visit_in_order  # noqa: PLC0415  as above

    match node:
        case Seq():
            return visit_in_order(node, domain, _stmt)
        case Launch():
            domain = domain.with_extents(node.block_vars, node.grid)
            if node.thread is not None:
                domain = domain.with_range(node.thread, 0, node.num_threads - 1)
            return _with(node, body=_stmt(node.body, domain))
        case For():
            inside = domain.with_loop(node.var, node.start, node.stop, node.step)
            node = _Elements(domain).bounds_of(node)
            return _with(node, body=_stmt(node.body, inside))
        case ParallelLoop():
            return _with(node, body=_stmt(node.body, domain.with_extents(node.vars, node.extents)))
        case If():
            condition = _Elements(domain).expr(node.condition)
            then = _stmt(node.then_body, domain.assume(condition))
            other = node.else_body and _stmt(node.else_body, domain.assume(unary(UnaryOp.NOT, condition)))
            return _with(node, condition=condition, then_body=then, else_body=other)
    new = _Inside(domain).rebuild_stmt(node)
    assert new is not None
    return new


def _with(node: Stmt, **parts: object) -> Stmt:
    same = all(getattr(node, name) is part for name, part in parts.items())
    return node if same else dataclasses.replace(node, **parts)  # type: ignore[arg-type]


class _Elements(Rewriter):
    """Treats the indices of all loads in an expression."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain

    def expr(self, node: Expr) -> Expr:
        new = self.rebuild_expr(node)
        if not isinstance(new, Load):
            return new
        return _with_indices(new, self.indices(new.buffer, new.indices))

    def bounds_of(self, loop: For) -> For:
        start, stop = self.expr(loop.start), self.expr(loop.stop)
        same = start is loop.start and stop is loop.stop
        return loop if same else dataclasses.replace(loop, start=start, stop=stop)

    def indices(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        new = tuple(self._index(i, extent) for i, extent in zip(indices, buffer.shape, strict=True))
        return indices if all(a is b for a, b in zip(new, indices, strict=True)) else new

    def _index(self, index: Expr, extent: Expr) -> Expr:
        if isinstance(index, Const | Load):
            return index
        from tilelang.arith.interval import bounds  # noqa: PLC0415  as above

        match index:
            case Select(condition=Binary(op=BinaryOp.LT, a=lane, b=zero), a=moved, b=same) if (
                same_expr(lane, same) and int_const(zero) == 0
            ):
                interval = bounds(lane, self._domain)
                if interval.low is not None and interval.low >= 0:
                    return lane
                return moved if interval.high is not None and interval.high < 0 else index
        interval = bounds(index, self._domain)
        return index + extent if interval.high is not None and interval.high < 0 else index


def _with_indices(load: Load, indices: tuple[Expr, ...]) -> Load:
    return load if indices is load.indices else Load(load.buffer, indices, load.dtype)


class _Inside(_Elements):
    """Treats the statements of a loop or branch that has no facts of its own, and leaves."""

    def stmt(self, node: Stmt) -> Stmt | None:
        return _stmt(node, self._domain)

    def rebuild_stmt(self, node: Stmt) -> Stmt | None:
        new = super().rebuild_stmt(node)
        if not isinstance(new, Store | Atomic):
            return new
        indices = self.indices(new.buffer, new.indices)
        return new if indices is new.indices else dataclasses.replace(new, indices=indices)
