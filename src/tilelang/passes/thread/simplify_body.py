"""Simplifies expressions by the facts of enclosing loops, conditions and bindings, and removes dead code.

Invariant: the same stores of the same values in the same order.
"""

from __future__ import annotations

import dataclasses

from tilelang.arith.domain import Domain, facts_after, of_function
from tilelang.arith.exact import exactly
from tilelang.arith.interval import bounds
from tilelang.arith.prove import decide
from tilelang.arith.simplify import simplify
from tilelang.ir.assumption import Assume
from tilelang.ir.expr import Binary, Const, Expr, Var, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.sequences import with_statements
from tilelang.ir.stmt import Bind, For, If, Launch, Seq, Stmt, While
from tilelang.ir.visit import Rewriter, children, jumps, loads_of, substitute_stmt
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property

_TRUNCATING = {BinaryOp.FLOORDIV: BinaryOp.TRUNCDIV, BinaryOp.FLOORMOD: BinaryOp.TRUNCMOD}


class _Expressions(Rewriter):
    """Simplifies whole expressions; replaces floor division by truncating division where both are equal."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Const | Var):
            return node
        return self._divisions(simplify(node, self._domain))

    def _divisions(self, node: Expr) -> Expr:
        return _Divisions(self._domain).expr(node) if _divides(node) else node


class _Divisions(Rewriter):
    def __init__(self, domain: Domain) -> None:
        self._domain = domain

    def expr(self, node: Expr) -> Expr:
        new = self.rebuild_expr(node)
        if isinstance(new, Binary) and new.op in _TRUNCATING and new.is_index:
            dividend, divisor = bounds(new.a, self._domain).low, bounds(new.b, self._domain).low
            if dividend is not None and dividend >= 0 and divisor is not None and divisor > 0:
                return Binary(_TRUNCATING[new.op], new.a, new.b, new.dtype)
        return new


def _divides(node: Expr) -> bool:
    """Whether an expression has floor divisions; kept on the node."""
    cached: bool | None = node.__dict__.get("_divides")
    if cached is None:
        here = isinstance(node, Binary) and node.op in _TRUNCATING
        cached = node.__dict__["_divides"] = here or any(map(_divides, children(node)))
    return cached


class _Simplify:
    def stmt(self, node: Stmt, domain: Domain) -> Stmt | None:
        """The simplified statement; None if it is empty."""
        with node.loc:
            match node:
                case Seq():
                    return self._seq(node, domain)
                case For():
                    return self._for(node, domain)
                case If():
                    return self._if(node, domain)
                case While():
                    condition = _Expressions(domain).expr(node.condition)
                    body = self.stmt(node.body, domain) or Seq((), loc=node.loc)
                    same = condition is node.condition and body is node.body
                    return node if same else dataclasses.replace(node, condition=condition, body=body)
                case Launch():
                    return self._launch(node, domain)
                case Assume(value=condition):
                    return None if decide(exactly(condition), domain) else node
            return _Expressions(domain).rebuild_stmt(node)

    def _seq(self, node: Seq, domain: Domain) -> Stmt | None:
        body: list[Stmt] = []
        constants: dict[Var, Expr] = {}
        for child in node.body:
            child = substitute_stmt(child, constants) if constants else child
            new = self.stmt(child, domain)
            if isinstance(child, Bind) and isinstance(new, Bind) and _has_tighter_bound(child, new, domain):
                new = child
            if new is None:
                continue
            if isinstance(new, Assume):
                domain = facts_after(child, domain)
            elif isinstance(new, Bind):
                if isinstance(new.value, Const) and not new.value.is_index:
                    constants[new.var] = new.value
                    continue
                domain = domain.with_value(new.var, new.value)
                if isinstance(child, Bind) and new.var.index and (new.value is not child.value or loads_of(new.value)):
                    # which may not be provable of the simplified value, nor of what was loaded once it has changed
                    shown = bounds(child.value, domain)
                    domain = domain.with_range(new.var, shown.low, shown.high)
            body.append(new)
        if not body:
            return None
        return with_statements(node, body)

    def _for(self, node: For, domain: Domain) -> Stmt | None:
        expressions = _Expressions(domain)
        start, stop = expressions.expr(node.start), expressions.expr(node.stop)
        first, last = int_const(start), int_const(stop)
        if first is not None and last is not None:
            trips = len(range(first, last, node.step))
            if trips == 0:
                return None
            if trips == 1 and not jumps(node.body):
                return self.stmt(substitute_stmt(node.body, {node.var: const(first, node.var.dtype)}), domain)
        body = self.stmt(node.body, domain.with_loop(node.var, start, stop, node.step))
        if body is None:
            return None
        same = start is node.start and stop is node.stop and body is node.body
        return node if same else dataclasses.replace(node, start=start, stop=stop, body=body)

    def _if(self, node: If, domain: Domain) -> Stmt | None:
        condition = _Expressions(domain).expr(node.condition)
        truth = decide(condition, domain)
        if truth is not None:
            chosen = node.then_body if truth else node.else_body
            return None if chosen is None else self.stmt(chosen, domain)
        then = self.stmt(node.then_body, domain.assume(condition))
        other = node.else_body and self.stmt(node.else_body, domain)
        if then is None and other is None:
            return None
        if condition is node.condition and then is node.then_body and other is node.else_body:
            return node
        then_body = then or Seq((), loc=node.loc)
        return dataclasses.replace(node, condition=condition, then_body=then_body, else_body=other)

    def _launch(self, node: Launch, domain: Domain) -> Stmt:
        grid = _Expressions(domain).exprs(node.grid)
        domain = domain.with_extents(node.block_vars, grid)
        if node.thread is not None:
            domain = domain.with_range(node.thread, 0, node.num_threads - 1)
        body = self.stmt(node.body, domain) or Seq((), loc=node.loc)
        same = grid is node.grid and body is node.body
        return node if same else dataclasses.replace(node, grid=grid, body=body)


def _has_tighter_bound(a: Bind, b: Bind, domain: Domain) -> bool:
    """Whether the range of a binding's value has a higher provable lower bound before simplification than after."""
    if a.value is b.value or not a.var.index:
        return False
    known, left = bounds(a.value, domain).low, bounds(b.value, domain).low
    return known is not None and (left is None or left < known)


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_body(func, _Simplify().stmt(func.body, of_function(func)))


PASS = Pass(
    "simplify_body", _run, Level.THREAD, Level.THREAD,
    requires=(Property.ACCESSES_IN_RANGE,),
    establishes=(Property.EXPRESSIONS_SIMPLIFIED,),
)
