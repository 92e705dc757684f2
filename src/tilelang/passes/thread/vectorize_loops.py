"""Marks loops that may be executed as vector lanes, and rewrites their reductions to scalars.

Takes serial loops, gives loops of kind VECTORIZED whose `reductions` are mutable scalars. A loop that reduces into an
element of a buffer gets a scalar that is loaded before and stored after it. The innermost loop is vectorized, unless
its accesses are strided and those of the loop around it are contiguous, as in a matrix multiplication.
Invariant: the same results up to reassociation of `+` and `*`. min and max still propagate NaN: a second reduction
records whether a NaN was seen, since min and max reductions of compilers drop it; for those that drop it, whether there
was anything else.
"""

from __future__ import annotations

import dataclasses

from tilelang.analysis.independence import lane_legality
from tilelang.analysis.strides import stride_along
from tilelang.arith.domain import Domain, of_function, visit_in_order, visit_inside
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Binary, Const, Expr, Load, Select, Var, binary, cast, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Alloc, Bind, For, ForKind, Reduction, Seq, Stmt, Store, While
from tilelang.ir.visit import Rewriter, expressions, loads_of, walk, walk_expr
from tilelang.ops.reduce import ReduceOp, neutral
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property

_MIN_TRIPS = 4  # shorter loops are unrolled by compilers, and vectorized as straight code
_DROPS_NAN = {"fmax": ("max", ReduceOp.MAX), "fmin": ("min", ReduceOp.MIN)}  # OpenMP's reductions, neutral elements
_CHOICE = {
    "max": (BinaryOp.MAX, BinaryOp.GT), "min": (BinaryOp.MIN, BinaryOp.LT),
    "fmax": (BinaryOp.FMAX, BinaryOp.GT), "fmin": (BinaryOp.FMIN, BinaryOp.LT),
}  # fmt: skip


def vectorize(loop: For, domain: Domain) -> Stmt:
    """The loop as a vectorized one with its reduction scalars around it, or as a serial one."""
    return _with_scalar_reductions(loop, domain, ForKind.VECTORIZED) if is_worthwhile(loop) else _serial(loop)


def vectorize_around(loop: For, domain: Domain) -> Stmt | None:
    """Vectorizes an outer loop over its inner loop, if only so all accesses are contiguous; None otherwise."""
    inner = [stmt for stmt in walk(loop.body) if isinstance(stmt, For)]
    if len(inner) != 1 or not is_worthwhile(loop, inner[0]) or _all_loads_contiguous(inner[0], inner[0].var):
        return None
    if any(isinstance(e, Load) or e is loop.var for bound in (inner[0].start, inner[0].stop) for e in walk_expr(bound)):
        return None
    inside = domain.with_loop(loop.var, loop.start, loop.stop, loop.step)
    legality = lane_legality(loop.var, loop.body, inside, step=loop.step)
    if not legality or legality.private or legality.reductions:
        return None
    body = _Inner(inner[0], _with_scalar_reductions(inner[0], inside, ForKind.SERIAL)).visit(loop.body) or loop.body
    return dataclasses.replace(loop, kind=ForKind.VECTORIZED, body=body)


class _Inner(Rewriter):
    """Replaces a loop by a statement."""

    def __init__(self, loop: For, new: Stmt) -> None:
        self._loop, self._new = loop, new

    def stmt(self, node: Stmt) -> Stmt | None:
        return self._new if node is self._loop else self.rebuild_stmt(node)


def _serial(loop: For) -> For:
    return loop if loop.kind is not ForKind.VECTORIZED else dataclasses.replace(loop, kind=ForKind.SERIAL)


def _with_scalar_reductions(loop: For, domain: Domain, kind: ForKind) -> Stmt:
    """The loop with its reductions in scalars, or a serial loop if its iterations are not independent."""
    serial = _serial(loop)
    inside = domain.with_loop(loop.var, loop.start, loop.stop, loop.step)
    legality = lane_legality(loop.var, loop.body, inside, step=loop.step)
    if not legality or legality.private:
        return serial
    before: list[Stmt] = []
    after: list[Stmt] = []
    reductions: list[Reduction] = []
    body = loop.body
    for reduction in legality.reductions:
        scalar = _ScalarReduction(reduction, loop)
        changed = scalar.rewrite(body)
        if changed is None:
            return serial
        body = changed
        before += scalar.before
        after += scalar.after
        reductions += scalar.reductions
    clauses = tuple(reductions) if kind is ForKind.VECTORIZED else ()
    marked = dataclasses.replace(loop, kind=kind, body=body, reductions=clauses)
    return Seq((*before, marked, *after), loc=loop.loc) if before or after else marked


class _ScalarReduction:
    """One reduction of a loop, rewritten to mutable scalars.

    Attributes:
        before: Statements that allocate and initialize the scalars.
        after: Statements that store the result.
        reductions: The scalars and operators.
    """

    def __init__(self, reduction: Reduction, loop: For) -> None:
        self._of, self._loop = reduction, loop
        self._dtype = reduction.buffer.dtype
        self.before: list[Stmt] = []
        self.after: list[Stmt] = []
        self.reductions: list[Reduction] = []

    def rewrite(self, body: Stmt) -> Stmt | None:
        """The loop's body with the scalars; None if that is impossible."""
        if not (self._dtype.is_int or self._dtype.is_float) or self._dtype.lanes > 1:
            return None
        is_scalar, op = self._of.buffer.scope is Scope.VAR, self._of.op
        choosing = self._dtype.is_float and op in _CHOICE
        if op in _DROPS_NAN and not choosing:
            return None
        if is_scalar and not choosing:
            self.reductions.append(self._of)
            return body
        loc = self._loop.loc
        running = Buffer(f"{self._of.buffer.name}_run", (), self._dtype, Scope.VAR)
        first = Load(self._of.buffer, self._of.indices, self._dtype)
        clause, neutral_of = _DROPS_NAN.get(op, (op, None))
        start = first if neutral_of is None else const(neutral(neutral_of, self._dtype), self._dtype)
        self.before.append(Alloc(running, start, loc=loc))
        self.reductions.append(Reduction(running, (), clause))
        result: Expr = Load(running, (), self._dtype)
        seen = None
        if choosing:
            seen = Buffer(f"{self._of.buffer.name}_{'nan' if neutral_of is None else 'found'}", (), INT32, Scope.VAR)
            was_nan = cast(binary(BinaryOp.NE, first, first), INT32)
            self.before.append(Alloc(seen, was_nan if neutral_of is None else const(0, INT32), loc=loc))
            self.reductions.append(Reduction(seen, (), "|"))
            is_seen = binary(BinaryOp.NE, Load(seen, (), INT32), 0)
            if neutral_of is None:
                result = Select(is_seen, const(float("nan"), self._dtype), result, self._dtype)
            else:
                result = Select(is_seen, binary(_CHOICE[op][0], first, result), first, self._dtype)
        self.after.append(Store(self._of.buffer, self._of.indices, result, loc=loc))
        rewriter = _ReplaceElement(self._of, running, seen)
        new = rewriter.visit(body)
        return None if rewriter.failed else new


class _ReplaceElement(Rewriter):
    """Replaces the reduced element by a scalar."""

    def __init__(self, reduction: Reduction, running: Buffer, seen: Buffer | None) -> None:
        self._of, self._running, self._seen = reduction, running, seen
        self.failed = False

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Load) and self._is_element(node.buffer, node.indices):
            return Load(self._running, (), node.dtype)
        return self.rebuild_expr(node)

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, Store) or not self._is_element(node.buffer, node.indices):
            return self.rebuild_stmt(node)
        if self._seen is None:
            return Store(self._running, (), self.expr(node.value), loc=node.loc)
        others = self._others(node.value)
        if others is None:
            self.failed = True
            return node
        return Seq(tuple(s for other in others for s in self._choose(self.expr(other), node)), loc=node.loc)

    def _choose(self, value: Expr, node: Store) -> list[Stmt]:
        """`running = value > running ? value : running`, and `seen |= value is NaN`, or is not where NaN is dropped."""
        assert self._seen is not None
        loc, dtype = node.loc, value.dtype
        parts: list[Stmt] = []
        if not isinstance(value, Const | Var):
            var = Var("candidate", dtype)
            parts.append(Bind(var, value, loc=loc))
            value = var
        running, seen = Load(self._running, (), dtype), Load(self._seen, (), INT32)
        beats = binary(_CHOICE[self._of.op][1], value, running)
        parts.append(Store(self._running, (), Select(beats, value, running, dtype), loc=loc))
        sought = binary(BinaryOp.EQ if self._of.op in _DROPS_NAN else BinaryOp.NE, value, value)
        parts.append(Store(self._seen, (), binary(BinaryOp.BITOR, seen, cast(sought, INT32)), loc=loc))
        return parts

    def _others(self, value: Expr) -> list[Expr] | None:
        """The other operands, if the value is a chain of the min or max operator over the element; None otherwise."""
        if isinstance(value, Load) and self._is_element(value.buffer, value.indices):
            return []
        if isinstance(value, Binary) and value.op is _CHOICE[self._of.op][0]:
            a, b = self._others(value.a), self._others(value.b)
            return None if a is None or b is None else a + b
        reads = any(self._is_element(e.buffer, e.indices) for e in loads_of(value))
        return None if reads else [value]

    def _is_element(self, buffer: Buffer, indices: tuple[Expr, ...]) -> bool:
        return buffer is self._of.buffer and all(
            same_expr(a, b) for a, b in zip(indices, self._of.indices, strict=True)
        )


def is_worthwhile(loop: For, inner: For | None = None) -> bool:
    """Whether vectorization is profitable: all stores and, if there are loads, some of them are contiguous.

    Args:
        loop: The loop.
        inner: The loop inside of it, if there may be one; all loads must be contiguous then.
    """
    if loop.kind is ForKind.UNROLLED or loop.step != 1:
        return False
    start, stop = int_const(loop.start), int_const(loop.stop)
    if start is not None and stop is not None and stop - start < _MIN_TRIPS:
        return False
    loads: list[int | None] = []
    for stmt in walk(loop.body):
        if isinstance(stmt, For | While) and stmt is not inner:
            return False
        if isinstance(stmt, Store) and stride_along(stmt.buffer, stmt.indices, loop.var) not in (0, 1):
            return False
        for root in expressions(stmt):
            loads += [stride_along(e.buffer, e.indices, loop.var) for e in loads_of(root)]
    near = [stride in (0, 1) for stride in loads]
    return all(near) if inner is not None else not near or any(near)


def _all_loads_contiguous(loop: For, var: Var) -> bool:
    """Whether all loads of a loop have stride 0 or 1 in a variable."""
    loads = (e for stmt in walk(loop.body) for root in expressions(stmt) for e in walk_expr(root))
    return all(stride_along(e.buffer, e.indices, var) in (0, 1) for e in loads if isinstance(e, Load))


class _Vectorize:
    """Rewrites statements, given the facts that hold at each."""

    def stmt(self, node: Stmt, domain: Domain) -> Stmt:
        with node.loc:
            if isinstance(node, Seq):
                return visit_in_order(node, domain, self.stmt)
            if not isinstance(node, For):
                return visit_inside(node, domain, self.stmt)
            around = vectorize_around(node, domain)
            if around is not None:
                return around
            loop = visit_inside(node, domain, self.stmt)
            assert isinstance(loop, For)
            return vectorize(loop, domain)


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_body(func, _Vectorize().stmt(func.body, of_function(func)))


PASS = Pass(
    "vectorize_loops", _run, Level.THREAD, Level.THREAD,
    requires=(Property.LOOPS_FUSED, Property.ACCESSES_UNPREDICATED),
    establishes=(Property.VECTOR_LOOPS,),
)
