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
from tilelang.lowering.lowering import LoweringContext
from tilelang.lowering.registers import Emitter
from tilelang.lowering.value_permutation import ValuePermutation
from tilelang.ops.gemm import Gemm


class Accumulator:
    """C in registers: in place if its layout and dtype are those of the mma, else converted before and after."""

    def __init__(
        self,
        emit: Emitter,
        op: Gemm,
        context: LoweringContext,
        required: Fragment,
        dtype: DType,
        *,
        run: int,
        zero_padding: bool = False,
    ) -> None:
        """Decides whether C must be converted.

        Args:
            emit: Emits the statements.
            op: The gemm.
            context: The lowering context.
            required: The layout of C that the lowering requires.
            dtype: The accumulator dtype.
            run: Consecutive values that must be in consecutive registers.
            zero_padding: Whether padding must be zero, since the instructions read it.
        """
        self._emit, self._op, self._required, self._dtype, self._run = emit, op, required, dtype, run
        self._axes = op.axes_of_c
        order = ValuePermutation(context.fragments[op.c.buffer], required)
        self._c_registers = context.registers[op.c.buffer]
        self._thread = context.thread if zero_padding and not _fits(required) else None
        direct = op.c.dtype == dtype and order.keeps_runs(run) and self._thread is None
        self._converted = None if direct else emit.registers(f"{op.c.buffer.name}_sums", required.values, dtype)
        self._c_order = order
        self._required_order = order if direct else ValuePermutation(required, required)
        self._array = self._c_registers if self._converted is None else self._converted

    @property
    def is_converted(self) -> bool:
        """Whether the accumulator is an array of its own."""
        return self._converted is not None

    @property
    def array(self) -> Region:
        """All registers of the accumulator."""
        return self._emit.part(self._array, 0, self._required.values)

    def load(self, *, clears: bool = True) -> None:
        """Loads C, or clears the accumulator if the gemm does; without `clears`, its instructions overwrite it."""
        clear, build = self._op.clear_accum, self._emit.build
        if clear is None:
            self._load_c()
        elif isinstance(clear, Const):
            if not clear.value:
                self._load_c()
            elif clears:
                self._clear()
        elif not clears:
            with build.block() as loaded:
                self._load_c()
            if loaded:
                build.emit(If(unary(UnaryOp.NOT, clear), as_body(loaded, build.loc)))
        else:
            with build.block() as cleared:
                self._clear()
            with build.block() as loaded:
                self._load_c()
            build.emit(If(clear, as_body(cleared, build.loc), as_body(loaded, build.loc) if loaded else None))

    def _clear(self) -> None:
        zero = const(0, self._dtype)
        self._emit.loop("v", self._required.values, lambda v: self._emit.store(self._array, v, zero))

    def _load_c(self) -> None:
        if self._converted is None:
            return
        emit, dtype = self._emit, self._dtype

        def load(v: Expr, at: Expr) -> None:
            emit.store(self._array, v, self._zero_outside(v, cast(emit.load(self._c_registers, at), dtype)))

        self._for_each_value(load)

    def _zero_outside(self, v: Expr, value: Expr) -> Expr:
        """The value, or zero for padding if that is required."""
        if self._thread is None:
            return value
        coordinate = self._required.coordinates(self._thread, v)
        pairs = zip(coordinate, self._required.shape, self._required.cover, strict=True)
        inside = conjunction(as_expr(at) < extent for at, extent, cover in pairs if cover > extent)
        return Select(self._emit.short(inside), value, const(0, value.dtype), value.dtype)

    def store(self) -> None:
        """Converts the accumulator back to C."""
        if self._converted is None:
            return
        emit, dtype = self._emit, self._op.c.dtype

        def store(v: Expr, at: Expr) -> None:
            emit.store(self._c_registers, at, cast(emit.load(self._array, v), dtype))

        self._for_each_value(store)

    def _for_each_value(self, move: Callable[[Expr, Expr], None]) -> None:
        """Calls `move` with the register numbers of each value in the accumulator and in C."""

        def value(v: Expr) -> None:
            move(v, self._emit.short(self._c_order.index(*self._required.coordinates(0, v))))

        self._emit.loop("v", self._required.values, value)

    def _index(self, row: ExprLike, column: ExprLike) -> Expr:
        """The register number of the element that thread 0 holds at a row and column of C."""
        coordinate: list[ExprLike] = [0] * self._op.c.buffer.rank
        coordinate[self._axes[0]], coordinate[self._axes[1]] = row, column
        return self._emit.short(self._required_order.index(*coordinate))

    def registers(self, row: ExprLike, column: ExprLike) -> Region:
        """The registers of a run of values that starts at a row and column."""
        return self._emit.part(self._array, self._index(row, column), self._run)

    def element(self, row: ExprLike, column: ExprLike) -> Load:
        """One element of the accumulator."""
        return self._emit.load(self._array, self._index(row, column))


def _fits(tile: Fragment) -> bool:
    return all(cover <= extent for cover, extent in zip(tile.cover, tile.shape, strict=True))
