"""Narrows bounds checks of 64-bit indices that are computed from loaded values to 32-bit unsigned comparisons.

    int64(first) + i * 256 + lane >= 0  and  int64(first) + i * 256 + lane < M
 => uint32(first) + uint32(i) * 256 + uint32(lane) < uint32(M)

Takes a thread-level function, gives one in which such a pair of comparisons is one comparison of uint32. Invariant: the
same results, since addition, subtraction and multiplication commute with truncation modulo 2**32, and a value from
M - 2**32 to 2**32 - 1 is in [0, M) exactly if its truncation is.
"""

from __future__ import annotations

import dataclasses
from typing import TypeGuard

from tilelang.arith.domain import Domain, facts_after, of_calls
from tilelang.arith.interval import bounds, computed
from tilelang.arith.ranges import of_dtype
from tilelang.dtypes import INT32, INT64, SCALARS
from tilelang.ir.compare import expr_key
from tilelang.ir.expr import Binary, Cast, Const, Expr, binary, cast, conjunction, conjuncts, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.sequences import with_statements
from tilelang.ir.stmt import Bind, For, Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter, any_expr
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property

_UINT32 = SCALARS["uint32"]
_MODULUS = 2**32
_INT32_RANGE = of_dtype(INT32)
_MODULAR = frozenset({BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL})


def narrowed(test: Expr, domain: Domain) -> Expr:
    """A conjunction with pairs `x >= 0 and x < n` in int64 replaced by one uint32 comparison, where that is exact."""
    if not isinstance(test, Binary) or test.op is not BinaryOp.AND:
        return test
    parts = list(conjuncts(test))
    below = {expr_key(part.a): part for part in parts if _compares(part, BinaryOp.LT)}
    dropped: list[Expr] = []
    tests: list[Expr] = []
    for part in parts:
        upper = below.get(expr_key(part.a)) if _compares(part, BinaryOp.GE) and int_const(part.b) == 0 else None
        if upper is None or not _is_exact(upper.a, upper.b, domain):
            tests.append(part)
            continue
        dropped.append(upper)
        tests.append(binary(BinaryOp.LT, _truncated(upper.a, domain), _truncated(upper.b, domain)))
    return conjunction(part for part in tests if not any(part is each for each in dropped)) if dropped else test


def _compares(part: Expr, op: BinaryOp) -> TypeGuard[Binary]:
    """Whether an expression is the comparison `op` of int64 data."""
    return isinstance(part, Binary) and part.op is op and part.a.dtype == INT64 and not part.a.is_index


def _is_exact(index: Expr, extent: Expr, domain: Domain) -> bool:
    """Whether an index is in [0, extent) exactly if its truncation to 32 bits is."""
    values, most = bounds(index, domain), bounds(extent, domain).high
    if values.low is None or values.high is None or most is None:
        return False
    return max(most - _MODULUS, -_MODULUS) <= values.low and values.high < _MODULUS and most < _MODULUS


def _truncated(expr: Expr, domain: Domain) -> Expr:
    """An integer expression modulo 2**32, as uint32."""
    match expr:
        case Const(value=value):
            return const(int(value) % _MODULUS, _UINT32)
        case Cast(a=a, dtype=dtype) if dtype == INT64 and a.dtype.is_int:
            return _truncated(a, domain) if a.is_index or a.dtype == INT64 else cast(a, _UINT32)
        case Binary(op=op, a=a, b=b) if op in _MODULAR:
            if expr.is_index and bounds(expr, domain).within(_INT32_RANGE):
                return cast(expr, _UINT32)
            return binary(op, _truncated(a, domain), _truncated(b, domain))
    return cast(expr, _UINT32)


class _Narrow(Rewriter):
    """The rewriter of one launch; `_domain` has the facts at the current point."""

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
            self._domain = _facts_after(child, self._domain)
        return with_statements(node, body)


def _facts_after(stmt: Stmt, domain: Domain) -> Domain:
    """The facts after a statement, with the range of a bound data variable."""
    if isinstance(stmt, Bind) and stmt.var.dtype.is_int and stmt.var.dtype.lanes == 1 and not stmt.var.index:
        return domain.with_range(stmt.var, *computed(stmt.value, domain))
    return facts_after(stmt, domain)


def _launch(launch: Launch, domain: Domain) -> Launch:
    if not any_expr(launch.body, lambda e: _compares(e, BinaryOp.GE)):
        return launch
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
    requires=(Property.COMPARANDS_HOISTED,),
)
