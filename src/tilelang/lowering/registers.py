"""Emits register arrays and unrolled loops, for lowerings that keep tiles in registers.

Takes a builder, emits allocations and loops. Invariant: a loop emitted here is unrolled unless its body indexes no
register array by its variable, so that such arrays have constant indices and stay in registers.
"""

from __future__ import annotations

from collections.abc import Callable

from tilelang.arith.domain import Domain
from tilelang.arith.simplify import simplify
from tilelang.dtypes import INT32, DType, as_dtype
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.builder import Builder, as_body
from tilelang.ir.expr import Const, Expr, ExprLike, Load, Var, as_expr, const
from tilelang.ir.stmt import Alloc, Bind, For, ForKind, Store
from tilelang.lowering.lowering import LoweringContext
from tilelang.lowering.regions import ZERO


def vector(dtype: DType, lanes: int) -> DType:
    """The dtype of a vector of `lanes` elements."""
    return dtype if lanes == 1 else as_dtype(f"{dtype!s}x{lanes}")


class Emitter:
    """Emits into a builder, and tracks the ranges of the variables that it creates.

    Attributes:
        build: Takes the statements.
    """

    def __init__(self, build: Builder, domain: Domain) -> None:
        self.build = build
        self._domain = domain

    def short(self, value: ExprLike) -> Expr:
        """The value, simplified by the ranges of its variables."""
        return simplify(as_expr(value), self._domain)

    def bind(self, name: str, value: ExprLike, extent: int) -> Expr:
        """Binds an index in `[0, extent)` to a new variable; constants are returned as they are."""
        short = self.short(value)
        if isinstance(short, Const | Var):
            return short
        var = Var(name, INT32, index=True)
        self.build.emit(Bind(var, short))
        self._domain = self._domain.with_range(var, 0, extent - 1)
        return var

    def loop(
        self,
        name: str,
        extent: int,
        body: Callable[[Expr], None],
        kind: ForKind = ForKind.UNROLLED,
        *,
        start: int = 0,
    ) -> None:
        """`for name in range(start, extent)`, unrolled by default; `range(1)` is emitted without a loop.

        Single iterations with `start` above 0 keep their loop, since offsets are relative to iteration 0.
        """
        if extent <= start:
            return
        if extent == 1:
            body(ZERO)
            return
        var = Var(name, INT32, index=True)
        outside = self._domain
        self._domain = outside.with_loop(var, 0, extent)
        with self.build.block() as statements:
            body(var)
        self._domain = outside
        first, stop = const(start, INT32), const(extent, INT32)
        self.build.emit(For(var, first, stop, 1, kind, as_body(statements, self.build.loc)))

    def registers(self, name: str, count: int, dtype: DType) -> Buffer:
        """Allocates a register array of the executing thread, unless it is empty."""
        buffer = Buffer(name, (const(count, INT32),), dtype, Scope.LOCAL)
        if count:
            self.build.emit(Alloc(buffer))
        return buffer

    def store(self, buffer: Buffer, index: ExprLike, value: Expr) -> None:
        """Stores one element, or a vector, to a register array."""
        self.build.emit(Store(buffer, (self.short(index),), value))

    def load(self, buffer: Buffer, index: ExprLike) -> Load:
        """One element of a register array."""
        return Load(buffer, (self.short(index),), buffer.dtype)

    def part(self, buffer: Buffer, start: ExprLike, count: int) -> Region:
        """Consecutive elements of a register array, as a region."""
        return Region(buffer, (self.short(start),), (const(count, INT32),))


def emitter(build: Builder, context: LoweringContext, name: str) -> tuple[Emitter, Expr]:
    """An emitter for the lowering of this name, and the thread index, whose range it has."""
    thread = context.thread
    if thread is None:
        raise CompilerBug(f"{name}: lowered before there are threads")
    domain = Domain()
    if isinstance(thread, Var):
        domain = domain.with_range(thread, 0, context.threads - 1)
    return Emitter(build, domain), thread
