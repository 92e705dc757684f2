"""Register arrays and unrolled loops: the common shape of lowerings that keep tiles in registers.

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
    """The dtype of neighbors that move together."""
    return dtype if lanes == 1 else as_dtype(f"{dtype!s}x{lanes}")


class Emitter:
    """Emits into a builder, and tracks the ranges of the variables that it creates.

    Attributes:
        build: Where statements go.
    """

    def __init__(self, build: Builder, domain: Domain) -> None:
        self.build = build
        self._domain = domain

    def short(self, value: ExprLike) -> Expr:
        """The value, simplified by what is known of the variables in it."""
        return simplify(as_expr(value), self._domain)

    def bind(self, name: str, value: ExprLike, extent: int) -> Expr:
        """A name for an index in `[0, extent)`; a constant needs none."""
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
        """`for name in range(start, extent)`, unrolled unless told; the only iteration of `range(1)` needs no loop.

        Later ones keep theirs, since offsets are shortest as seen from iteration 0.
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
        """Allocates an array of the executing thread."""
        buffer = Buffer(name, (const(count, INT32),), dtype, Scope.LOCAL)
        self.build.emit(Alloc(buffer))
        return buffer

    def store(self, buffer: Buffer, index: ExprLike, value: Expr) -> None:
        """Writes one element, or as many neighbors as `value` has lanes, of a register array."""
        self.build.emit(Store(buffer, (self.short(index),), value))

    def load(self, buffer: Buffer, index: ExprLike) -> Load:
        """One element of a register array."""
        return Load(buffer, (self.short(index),), buffer.dtype)

    def part(self, buffer: Buffer, start: ExprLike, count: int) -> Region:
        """Neighboring elements of a register array."""
        return Region(buffer, (self.short(start),), (const(count, INT32),))


def emitter(build: Builder, context: LoweringContext, name: str) -> tuple[Emitter, Expr]:
    """What emits a thread's program for the lowering of this name, and the thread's index, whose range it knows."""
    thread = context.thread
    if thread is None:
        raise CompilerBug(f"{name}: lowered before there are threads")
    domain = Domain()
    if isinstance(thread, Var):
        domain = domain.with_range(thread, 0, context.threads - 1)
    return Emitter(build, domain), thread
