"""Converts float16 elements of vector loops in batches, by the processor's vector conversions.

Takes vector loops that read, write or round float16, gives loops over float32 in buffers on the stack, with calls
between them that each convert a batch of elements:

    for j in vectorized(512):                   for b in range(0, 512, 256):
        Y[j] = max(X[j] * X[j], 1)        =>        widen_halves(X_real, X[b:b + 256])
                                                    for j in vectorized(256): t[j] = X_real[j] * X_real[j]
                                                    round_halves(t)
                                                    for j in vectorized(256): Y_real[j] = max(t[j], 1)
                                                    narrow_halves(Y[b:b + 256], Y_real)

The iterations of a vector loop may run in any order, so the statements of a batch may be distributed over several
loops. Invariant: every float16 operation is rounded as before; predicated elements are not accessed early.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from tilelang.analysis.strides import stride_along
from tilelang.arith.exact import bind_exact, exact
from tilelang.dtypes import FLOAT32, INT32, SCALARS, DType
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.builder import as_body
from tilelang.ir.callee import Routine
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    Var,
    as_expr,
    binary,
    cast,
    const,
    int_const,
)
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.scalar import LOGICAL, BinaryOp
from tilelang.ir.stmt import Alloc, Bind, CallStmt, For, ForKind, Seq, Stmt, Store
from tilelang.ir.visit import Rewriter, expressions, loads_of, substitute, substitute_stmt, walk, walk_expr
from tilelang.isa.intrinsic import Intrinsic
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property
from tilelang.targets.cpu.isa.halves import NARROW_HALVES, ROUND_HALVES, WIDEN_HALVES

LANES = 256  # elements of a batch: long enough to vectorize sums, short enough for a dozen buffers in the L1 cache
_MIN_TRIPS = 16  # a vector of float32 in the widest registers
_EXACT = (BinaryOp.MIN, BinaryOp.MAX, BinaryOp.FMIN, BinaryOp.FMAX)  # return one of their operands
_FLOAT16 = SCALARS["float16"]
_ZERO, _ONE = const(0, INT32), const(1, INT32)


class _Unsupported(Exception):
    """The loop has a statement that batches do not support."""


class _BatchHalves(Rewriter):
    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, For) and node.kind is ForKind.VECTORIZED:
            return _batched(node) or node
        return self.rebuild_stmt(node)


def _batched(loop: For) -> Stmt | None:
    """The loop in batches; None if it converts nothing, or batches do not support it."""
    start, stop = int_const(loop.start), int_const(loop.stop)
    trips = None if start is None or stop is None else stop - start
    if loop.step != 1 or trips is not None and trips < _MIN_TRIPS or not _has_halves(loop):
        return None
    if trips is not None and trips <= 2 * LANES:
        return _batch(loop, loop.start, as_expr(trips), trips)
    first = Var(f"{loop.var.name}_0", loop.var.dtype, index=True)
    if trips is not None and trips % LANES == 0:
        count: Expr = as_expr(LANES)
        before: tuple[Stmt, ...] = ()
    else:
        short = bind_exact("count", binary(BinaryOp.MIN, exact(loop.stop) - first, LANES), loop.loc)
        count, before = short.var, (short,)
    body = _batch(loop, first, count, LANES)
    if body is None:
        return None
    inner = Seq((*before, body), loc=loop.loc) if before else body
    return For(first, loop.start, loop.stop, LANES, ForKind.SERIAL, inner, loc=loop.loc)


def _batch(loop: For, first: Expr, count: Expr, size: int) -> Stmt | None:
    batch = _Batch(loop, first, count, size)
    try:
        return batch.rewrite()
    except _Unsupported:
        return None


def _has_halves(loop: For) -> bool:
    """Whether the loop has float16 statements that batches may support."""
    if any(r.buffer.dtype == _FLOAT16 for r in loop.reductions):
        return False
    return any(e.dtype == _FLOAT16 for s in walk(loop.body) for root in expressions(s) for e in walk_expr(root))


class _Batch:
    """The statements of one batch of iterations, under construction.

    A *piece* is the body of one vector loop. Results of the calls after it are available to later pieces.

    Args:
        loop: The loop.
        first: The value of its variable in the first iteration of the batch.
        count: Iterations of the batch.
        size: Maximal iterations of a batch.
    """

    def __init__(self, loop: For, first: Expr, count: Expr, size: int) -> None:
        self._loop, self._first, self._count, self._shape = loop, first, count, (as_expr(size),)
        self._lane = Var(loop.var.name, loop.var.dtype, index=True)
        self._written = {s.buffer.storage for s in walk(loop.body) if isinstance(s, Store)}
        self._defined = {s.var for s in walk(loop.body) if isinstance(s, Bind)}
        self._buffers: list[Buffer] = []
        self._out: list[CallStmt | list[Stmt]] = []  # finished pieces, and calls
        self._piece: list[Stmt] = []
        self._after: list[CallStmt] = []  # the calls after the piece
        self._late: set[Buffer] = set()  # what these calls write
        self._stored: set[Buffer] = set()  # the storage that the piece and these calls write
        self._values: dict[Var, Expr] = {}  # of variables of the loop's body
        self._home: dict[Var, list[Stmt]] = {}  # the piece that binds a variable
        self._kept: dict[Var, Buffer] = {}  # where such a variable's values are, for other pieces
        self._widened: list[tuple[Load, Buffer]] = []

    def rewrite(self) -> Stmt | None:
        """The batch; None if no call converts anything in it.

        Raises:
            _Unsupported: There is a statement that batches do not cover.
        """
        self._add(self._loop.body)
        self._end_piece()
        if not any(isinstance(part, CallStmt) for part in self._out):
            return None
        allocs = [Alloc(buffer, loc=self._loop.loc) for buffer in self._buffers]
        parts = [part if isinstance(part, CallStmt) else self._over_lanes(part) for part in self._out]
        return Seq((*allocs, *parts), loc=self._loop.loc)

    def _over_lanes(self, piece: list[Stmt]) -> For:
        body = as_body(piece, self._loop.loc)
        named = {s.buffer for s in walk(body) if isinstance(s, Store)}
        return dataclasses.replace(
            self._loop,
            var=self._lane,
            start=_ZERO,
            stop=self._count,
            body=body,
            reductions=tuple(r for r in self._loop.reductions if r.buffer in named),
        )

    # -- statements -------------------------------------------------------------------------------------------
    def _add(self, stmt: Stmt) -> None:
        match stmt:
            case Seq(body=body):
                for child in body:
                    self._add(child)
            case Bind():
                self._bind(stmt)
            case Store():
                self._store(stmt)
            case _:
                raise _Unsupported

    def _bind(self, stmt: Bind) -> None:
        var = stmt.var
        value = self._value(stmt.value)
        if _is_half(var.dtype) and isinstance(value, Load) and value.buffer in self._buffers:
            self._values[var] = value
            return
        new = Var(var.name, _real(var.dtype), index=var.index)
        self._put(Bind(new, value, loc=stmt.loc))
        self._values[var] = new
        self._home[new] = self._piece

    def _store(self, stmt: Store) -> None:
        buffer, value = stmt.buffer, stmt.value
        if buffer.scope is Scope.VAR:
            self._put(dataclasses.replace(stmt, value=self._value(value)))
            return
        if not self._convert_in_place(stmt):
            if not _is_half(buffer.dtype) or isinstance(value, Load) and value.dtype == buffer.dtype:
                new = self._substituted(value) if _is_half(buffer.dtype) else self._value(value)
                self._put(dataclasses.replace(stmt, indices=self._indices(stmt.indices), value=new))
            elif self._is_contiguous(buffer, stmt.indices):
                self._narrow(stmt)
            else:
                new = Cast(self._unrounded(value)[0], _FLOAT16)
                self._put(dataclasses.replace(stmt, indices=self._indices(stmt.indices), value=new))
        self._stored.add(buffer.storage)
        self._widened = [pair for pair in self._widened if pair[0].buffer.storage is not buffer.storage]

    def _convert_in_place(self, stmt: Store) -> bool:
        """Converts directly between two tiles, if the statement does nothing else."""
        match stmt.value:
            case Cast(a=Load(buffer=source, indices=indices, dtype=narrow), dtype=wide):
                pass
            case _:
                return False
        if {narrow, wide} != {_FLOAT16, FLOAT32} or stmt.buffer.dtype != wide:
            return False
        if source.storage is stmt.buffer.storage or source.dtype != narrow:
            return False
        if not self._is_contiguous(stmt.buffer, stmt.indices) or not self._is_contiguous(source, indices):
            return False
        self._end_piece()
        routine = WIDEN_HALVES if wide == FLOAT32 else NARROW_HALVES
        self._out.append(self._call(routine, self._there(stmt.buffer, stmt.indices), self._there(source, indices)))
        return True

    def _narrow(self, stmt: Store) -> None:
        value = self._unrounded(stmt.value)[0]
        if isinstance(value, Load) and value.buffer in self._buffers:
            kept = value.buffer
            if kept in self._late:
                self._end_piece()
        else:
            kept = self._buffer(stmt.buffer.name)
            self._put(Store(kept, (self._lane,), value, loc=stmt.loc))
        self._after.append(self._call(NARROW_HALVES, self._there(stmt.buffer, stmt.indices), self._here(kept)))
        self._late.add(stmt.buffer.storage)

    def _put(self, stmt: Stmt) -> None:
        """Adds a statement to the piece, or to a new one if it accesses what the calls after this piece write."""
        nodes = [e for root in expressions(stmt) for e in walk_expr(root)]
        accessed = {e.buffer.storage for e in nodes if isinstance(e, Load)}
        if isinstance(stmt, Store):
            accessed.add(stmt.buffer.storage)
        if not accessed.isdisjoint(self._late):
            self._end_piece()
        elsewhere = {e for e in nodes if isinstance(e, Var) and self._home.get(e, self._piece) is not self._piece}
        if elsewhere:
            stmt = substitute_stmt(stmt, {var: self._across(var) for var in elsewhere})
        self._piece.append(stmt)

    def _across(self, var: Var) -> Expr:
        """The value of a variable that another piece binds."""
        kept = self._kept.get(var)
        if kept is None:
            if var.index:
                raise _Unsupported
            kept = self._kept[var] = self._buffer(var.name, var.dtype)
            self._home[var].append(Store(kept, (self._lane,), var, loc=self._loop.loc))
        return Load(kept, (self._lane,), var.dtype)

    def _end_piece(self) -> None:
        if self._piece:
            self._out.append(self._piece)
        self._out += self._after
        self._piece, self._after = [], []
        self._late.clear()
        self._stored.clear()

    # -- values -----------------------------------------------------------------------------------------------
    def _value(self, expr: Expr) -> Expr:
        """The value in each lane; float32 for float16 expressions."""
        if expr.is_index:
            return self._substituted(expr)
        if expr.dtype.lanes > 1:
            raise _Unsupported
        if not _is_half(expr.dtype):
            return self._of_other_dtype(expr)
        value, inexact = self._unrounded(expr)
        if not inexact:
            return value
        kept = self._buffer("rounded")
        self._put(Store(kept, (self._lane,), value, loc=self._loop.loc))
        self._after.append(self._call(ROUND_HALVES, self._here(kept)))
        self._late.add(kept)
        return Load(kept, (self._lane,), FLOAT32)

    def _unrounded(self, expr: Expr) -> tuple[Expr, bool]:
        """A float16 expression as float32, and whether it still has to be rounded."""
        match expr:
            case Const(value=value):
                return const(value, FLOAT32), False
            case Var() if expr in self._values:
                return self._values[expr], False
            case Load(buffer=buffer, indices=indices) if self._is_contiguous(buffer, indices):
                return self._widen(expr), False
            case Select():
                return self._choice(expr), False
            case Unary(op=op, a=a):
                return Unary(op, self._value(a), FLOAT32), False
            case Binary(op=op, a=a, b=b):
                return Binary(op, self._value(a), self._value(b), FLOAT32), op not in _EXACT
            case Cast(a=a) if a.dtype in ("float32", "bfloat16"):
                return cast(self._value(a), FLOAT32), True
            case Call(callee=Intrinsic() as callee, args=args):
                return Call(callee, tuple(self._value(a) for a in args), FLOAT32), True
        return Cast(self._substituted(expr), FLOAT32), False

    def _of_other_dtype(self, expr: Expr) -> Expr:
        match expr:
            case Var() if expr in self._values:
                return self._values[expr]
            case Select():
                return self._choice(expr)
            case Unary(op=op, a=a):
                return Unary(op, self._value(a), expr.dtype)
            case Binary(op=op, a=a, b=b) if op not in LOGICAL or not self._guards((b,)):
                return Binary(op, self._value(a), self._value(b), expr.dtype)
            case Cast(a=a, dtype=dtype):
                value = self._value(a)
                return value if dtype == value.dtype and not value.is_index else Cast(value, dtype)
            case Call(callee=Intrinsic() as callee, args=args):
                return Call(callee, tuple(self._value(a) for a in args), expr.dtype)
        return self._substituted(expr)

    def _choice(self, expr: Select) -> Expr:
        condition, dtype = self._value(expr.condition), _real(expr.dtype)
        if self._guards((expr.a, expr.b)):
            a, b = (cast(self._substituted(arm), dtype) for arm in (expr.a, expr.b))
            return Select(condition, a, b, dtype)
        return Select(condition, self._value(expr.a), self._value(expr.b), dtype)

    def _guards(self, exprs: Iterable[Expr]) -> bool:
        """Whether conditionally evaluated expressions read elements that are not read otherwise."""
        loads = [e for expr in exprs for e in loads_of(expr)]
        known = [load for load, _ in self._widened]
        return any(e.buffer.scope is not Scope.VAR and not any(same_expr(e, k) for k in known) for e in loads)

    def _widen(self, load: Load) -> Expr:
        kept = next((buffer for known, buffer in self._widened if same_expr(known, load)), None)
        if kept is None:
            if load.buffer.storage in self._stored:
                self._end_piece()
            kept = self._buffer(load.buffer.name)
            self._out.append(self._call(WIDEN_HALVES, self._here(kept), self._there(load.buffer, load.indices)))
            self._widened.append((load, kept))
        return Load(kept, (self._lane,), FLOAT32)

    def _substituted(self, expr: Expr) -> Expr:
        """The same expression with variables replaced."""
        lane = self._lane if int_const(self._first) == 0 else self._first + self._lane
        values = {v: cast(value, v.dtype) for v, value in self._values.items()}
        return substitute(expr, {self._loop.var: lane, **values})

    # -- memory -----------------------------------------------------------------------------------------------
    def _indices(self, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(self._substituted(index) for index in indices)

    def _is_contiguous(self, buffer: Buffer, indices: tuple[Expr, ...]) -> bool:
        """Whether the iterations access contiguous elements, starting at a loop-invariant one."""
        nodes = [e for index in indices for e in walk_expr(index)]
        if any(e in self._defined or isinstance(e, Load) and e.buffer.storage in self._written for e in nodes):
            return False
        return buffer.scope is not Scope.VAR and stride_along(buffer, indices, self._loop.var) == 1

    def _buffer(self, name: str, dtype: DType = FLOAT32) -> Buffer:
        """A new buffer with one value per lane."""
        buffer = Buffer(f"{name}_lanes", self._shape, dtype, Scope.LOCAL)
        self._buffers.append(buffer)
        return buffer

    def _here(self, buffer: Buffer) -> Region:
        return Region(buffer, (_ZERO,), (self._count,))

    def _there(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Region:
        start = tuple(substitute(index, {self._loop.var: self._first}) for index in indices)
        return Region(buffer, start, (*(_ONE for _ in indices[1:]), self._count))

    def _call(self, routine: Routine, to: Region, *source: Region) -> CallStmt:
        return CallStmt(routine, (to, *source, self._count), source or (to,), (to,), loc=self._loop.loc)


def _is_half(dtype: DType) -> bool:
    return bool(dtype == _FLOAT16)


def _real(dtype: DType) -> DType:
    """The dtype of lanes of a dtype."""
    return FLOAT32 if _is_half(dtype) else dtype


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_body(func, _BatchHalves().visit(func.body))


PASS = Pass(
    "batch_halves", _run, Level.THREAD, Level.THREAD,
    requires=(Property.VECTOR_LOOPS, Property.ACCESSES_IN_RANGE, Property.STORES_STREAMED),
)
