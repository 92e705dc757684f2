"""Tests that a place is within a tensor by 32-bit arithmetic, where the place is a sum of data and 64 bits hold it.

    int64(first) + i * 256 + lane >= 0  and  int64(first) + i * 256 + lane < M
 => uint32(first) + uint32(i) * 256 + uint32(lane) < uint32(M)

Takes a thread-level function, gives one in which a pair of such tests is one comparison of unsigned 32-bit integers.
Invariant: the same outcomes. A sum, a difference and a product of what is left of integers modulo 2**32 is what is left
of their sum, difference and product; and a value from M - 2**32 to 2**32 - 1 is in [0, M) exactly if its rest is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TypeGuard

from tilelang.arith.domain import Domain, behind, of_calls
from tilelang.arith.interval import bounds, computed
from tilelang.arith.ranges import of_dtype
from tilelang.dtypes import INT32, INT64, SCALARS
from tilelang.ir.compare import expr_key
from tilelang.ir.expr import Binary, Cast, Const, Expr, binary, cast, conjunction, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Bind, For, Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property

_UINT32 = SCALARS["uint32"]
_RESTS = 2**32
_NARROW = of_dtype(INT32)
_RING = frozenset({BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL})


def narrowed(test: Expr, domain: Domain) -> Expr:
    """A condition with pairs of tests of the same 64-bit sum as one of 32 bits, where that has the same outcome."""
    if not isinstance(test, Binary) or test.op is not BinaryOp.AND:
        return test
    parts = list(_conjuncts(test))
    below = {expr_key(part.a): part for part in parts if _compares(part, BinaryOp.LT)}
    dropped: list[Expr] = []
    made: list[Expr] = []
    for part in parts:
        upper = below.get(expr_key(part.a)) if _compares(part, BinaryOp.GE) and int_const(part.b) == 0 else None
        if upper is None or not _is_within(upper.a, upper.b, domain):
            made.append(part)
            continue
        dropped.append(upper)
        made.append(binary(BinaryOp.LT, _rest(upper.a, domain), _rest(upper.b, domain)))
    return conjunction(part for part in made if not any(part is each for each in dropped)) if dropped else test


def _conjuncts(condition: Expr) -> Iterator[Expr]:
    if isinstance(condition, Binary) and condition.op is BinaryOp.AND:
        yield from _conjuncts(condition.a)
        yield from _conjuncts(condition.b)
    else:
        yield condition


def _compares(part: Expr, op: BinaryOp) -> TypeGuard[Binary]:
    """Whether this is such a comparison of data of 64 bits."""
    return isinstance(part, Binary) and part.op is op and part.a.dtype == INT64 and not part.a.is_index


def _is_within(place: Expr, extent: Expr, domain: Domain) -> bool:
    """Whether the rest of a place is in [0, extent) only if the place is."""
    at, most = bounds(place, domain), bounds(extent, domain).high
    if at.low is None or at.high is None or most is None:
        return False
    return max(most - _RESTS, -_RESTS) <= at.low and at.high < _RESTS and most < _RESTS


def _rest(expr: Expr, domain: Domain) -> Expr:
    """What is left of an integer modulo 2**32."""
    match expr:
        case Const(value=value):
            return const(int(value) % _RESTS, _UINT32)
        case Cast(a=a, dtype=dtype) if dtype == INT64 and a.dtype.is_int:
            return _rest(a, domain) if a.is_index or a.dtype == INT64 else cast(a, _UINT32)
        case Binary(op=op, a=a, b=b) if op in _RING and not (expr.is_index and bounds(expr, domain).within(_NARROW)):
            return binary(op, _rest(a, domain), _rest(b, domain))
    return cast(expr, _UINT32)


class _Narrow(Rewriter):
    """The rewriting of one launch; `_domain` is what is known where it stands."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain

    def expr(self, node: Expr) -> Expr:
        return narrowed(self.rebuild_expr(node), self._domain)

    def stmt(self, node: Stmt) -> Stmt | None:
        before = self._domain
        try:
            if isinstance(node, Seq):
                return self._seq(node)
            if isinstance(node, For):
                self._domain = before.with_loop(node.var, node.start, node.stop, node.step)
                body = self.visit(node.body) or Seq((), loc=node.loc)
                return node if body is node.body else dataclasses.replace(node, body=body)
            return self.rebuild_stmt(node)
        finally:
            self._domain = before

    def _seq(self, node: Seq) -> Seq:
        body: list[Stmt] = []
        for child in node.body:
            new = self.visit(child)
            body += [] if new is None else [new]
            self._domain = _knowing(child, self._domain)
        same = len(body) == len(node.body) and all(x is y for x, y in zip(body, node.body, strict=True))
        return node if same else Seq(tuple(body), loc=node.loc)


def _knowing(stmt: Stmt, domain: Domain) -> Domain:
    """What is known behind a statement; of data that has a name it is how large it can be."""
    if isinstance(stmt, Bind) and stmt.var.dtype.is_int and stmt.var.dtype.lanes == 1 and not stmt.var.index:
        return domain.with_range(stmt.var, *computed(stmt.value, domain))
    return behind(stmt, domain)


def _launch(launch: Launch, domain: Domain) -> Launch:
    domain = domain.with_extents(launch.block_vars, launch.grid)
    if launch.thread is not None:
        domain = domain.with_range(launch.thread, 0, launch.num_threads - 1)
    body = _Narrow(domain).visit(launch.body)
    return launch if body is launch.body else dataclasses.replace(launch, body=body or Seq((), loc=launch.loc))


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    domain = of_calls(func)
    return with_launches(func, lambda launch: _launch(launch, domain))


PASS = Pass(
    "narrow_bounds_checks", _run, Level.THREAD, Level.THREAD,
    requires=(Property.TESTS_HOISTED,),
)
