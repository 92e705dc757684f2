"""The accumulator of a gemm in a thread's registers.

Takes the gemm and the layout of C that its lowering requires; gives an `Accumulator`, which converts C to that layout
and back. Invariant: a C that already has the required layout and dtype is used in place.
"""

from __future__ import annotations

from collections.abc import Callable

from tilelang.dtypes import DType
from tilelang.ir.buffer import Region
from tilelang.ir.builder import as_body
from tilelang.ir.expr import Const, Expr, ExprLike, Load, Select, as_expr, cast, conjunction, const, unary
from tilelang.ir.scalar import UnaryOp
from tilelang.ir.stmt import If
from tilelang.layout.thread_values import Fragment
from tilelang.lowering.fragment_order import FragmentOrder
from tilelang.lowering.lowering import LoweringContext
from tilelang.lowering.registers import Emitter
from tilelang.ops.describe import matrix_axes
from tilelang.ops.gemm import Gemm


class Accumulator:
    """C in registers: in place where its values lie as wanted, else moved there and back."""

    def __init__(
        self,
        emit: Emitter,
        op: Gemm,
        context: LoweringContext,
        wanted: Fragment,
        dtype: DType,
        *,
        run: int,
        clean: bool = False,
    ) -> None:
        """Decides whether the sums must be moved.

        Args:
            emit: Where statements go.
            op: The gemm.
            context: Where it is done.
            wanted: The layout of C that the lowering requires.
            dtype: Of the sums.
            run: Neighboring values that must lie side by side.
            clean: Whether padding must hold numbers, since arithmetic reads it.
        """
        self._emit, self._op, self._wanted, self._dtype, self._run = emit, op, wanted, dtype, run
        self._axes = matrix_axes(op.c)
        order = FragmentOrder(context.fragments[op.c.buffer], wanted)
        self._held = context.registers[op.c.buffer]
        self._thread = context.thread if clean and not _fits(wanted) else None
        direct = op.c.dtype == dtype and order.keeps(run) and self._thread is None
        self._moved = None if direct else emit.registers(f"{op.c.buffer.name}_sums", wanted.values, dtype)
        self._order = order
        self._sums_order = order if direct else FragmentOrder(wanted, wanted)
        self._sums = self._held if self._moved is None else self._moved

    @property
    def moves(self) -> bool:
        """Whether the sums are elsewhere than C while they grow."""
        return self._moved is not None

    @property
    def array(self) -> Region:
        """All registers in which the sums grow."""
        return self._emit.part(self._sums, 0, self._wanted.values)

    def begin(self, *, zeroing: bool = True) -> None:
        """Fetches the sums, or clears them; if not `zeroing`, what is cleared is left for instructions to overwrite."""
        clear, build = self._op.clear_accum, self._emit.build
        if clear is None:
            self._fetch()
        elif isinstance(clear, Const):
            if not clear.value:
                self._fetch()
            elif zeroing:
                self._zero()
        elif not zeroing:
            with build.block() as kept:
                self._fetch()
            if kept:
                build.emit(If(unary(UnaryOp.NOT, clear), as_body(kept, build.loc)))
        else:
            with build.block() as cleared:
                self._zero()
            with build.block() as kept:
                self._fetch()
            build.emit(If(clear, as_body(cleared, build.loc), as_body(kept, build.loc) if kept else None))

    def _zero(self) -> None:
        zero = const(0, self._dtype)
        self._emit.loop("v", self._wanted.values, lambda v: self._emit.store(self._sums, v, zero))

    def _fetch(self) -> None:
        if self._moved is not None:
            emit, dtype = self._emit, self._dtype
            self._each(lambda v, at: emit.store(self._sums, v, self._inside(v, cast(emit.load(self._held, at), dtype))))

    def _inside(self, v: Expr, value: Expr) -> Expr:
        """The value, or zero in the place of padding where that must be clean."""
        if self._thread is None:
            return value
        coordinate = self._wanted.coordinates(self._thread, v)
        pairs = zip(coordinate, self._wanted.shape, self._wanted.cover, strict=True)
        inside = conjunction(as_expr(at) < extent for at, extent, cover in pairs if cover > extent)
        return Select(self._emit.short(inside), value, const(0, value.dtype), value.dtype)

    def end(self) -> None:
        """Brings the sums back to where C is held."""
        if self._moved is not None:
            emit, dtype = self._emit, self._op.c.dtype
            self._each(lambda v, at: emit.store(self._held, at, cast(emit.load(self._sums, v), dtype)))

    def _each(self, move: Callable[[Expr, Expr], None]) -> None:
        """For every value: its place among the sums, and where C holds it."""

        def value(v: Expr) -> None:
            move(v, self._emit.short(self._order.place(*self._wanted.coordinates(0, v))))

        self._emit.loop("v", self._wanted.values, value)

    def _place(self, row: ExprLike, column: ExprLike) -> Expr:
        """Where the sum is that the first thread holds at a row and column of C."""
        coordinate: list[ExprLike] = [0] * self._op.c.buffer.rank
        coordinate[self._axes[0]], coordinate[self._axes[1]] = row, column
        return self._emit.short(self._sums_order.place(*coordinate))

    def registers(self, row: ExprLike, column: ExprLike) -> Region:
        """The run of sums that begins at a row and column."""
        return self._emit.part(self._sums, self._place(row, column), self._run)

    def element(self, row: ExprLike, column: ExprLike) -> Load:
        """One sum."""
        return self._emit.load(self._sums, self._place(row, column))


def _fits(tile: Fragment) -> bool:
    return all(cover <= extent for cover, extent in zip(tile.cover, tile.shape, strict=True))
