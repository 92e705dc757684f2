"""The statements that reduce tiles: `T.gemm` for sums of products, `T.reduce_sum` and the like for others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilelang.dtypes import DType
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import expr_key
from tilelang.ir.expr import Cast, Const, Expr, Load, Var, binary, cast, const, select
from tilelang.ir.scalar import BinaryOp
from tilelang.level1.block_text import BlockText
from tilelang.level1.contraction import Contraction, contraction, without_widening
from tilelang.level1.fused import FusedReduction
from tilelang.level1.graph import Array, Combiner, same_axes
from tilelang.level1.tile_values import read_tile
from tilelang.ops.gemm import can_accumulate

_REDUCE = {Combiner.SUM: "reduce_sum", Combiner.MAX: "reduce_max", Combiner.MIN: "reduce_min"}


class ReductionText(BlockText):
    """Writes reductions of tiles."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._best: dict[Buffer, Buffer] = {}  # by the tile of positions, the tile of the extrema there
        self._result_tiles: dict[Array, Buffer] = {}

    def _accumulator(self, reduction: FusedReduction, *, finite: bool) -> Buffer:
        """Allocates the accumulator of a reduction, and initializes it."""
        buffer = self._result_tile(reduction)
        if reduction.combiner.gives_index:
            dims = self._values.dims(reduction.axes)
            best = self._best[buffer] = self._fragment(f"{reduction.array.name}_best", dims, reduction.body.dtype)
            self._write_fill(best, initial_value(reduction, finite=False))
            self._write_fill(buffer, const(0, buffer.dtype))
        else:
            self._write_fill(buffer, initial_value(reduction, finite=finite))
        self._values.hold(reduction.result, buffer, self._values.dims(reduction.axes), loop_variant=True)
        return buffer

    # -- reductions of a tile ---------------------------------------------------------------------------------------
    def _ensure_computed(self, reduction: FusedReduction) -> None:
        """Computes a reduction that the body of another one reads, if no tile holds it."""
        if expr_key(reduction.result) in self._values.known:
            return
        if len(self._blocks) > 1 and not self._is_loop_variant(reduction.result):
            with self._before_loops():
                self._ensure_computed(reduction)
            return
        steps = [axis for axis in reduction.reduced if axis in self._placement.steps]
        if steps:
            buffer = self._accumulator(reduction, finite=False)
            with self._loop(reduction.reduced, []):
                self._combine(reduction, reduction.body, buffer, clear=False)
        else:
            buffer = self._result_tile(reduction)
            self._combine(reduction, reduction.body, buffer, clear=True)
            self._values.hold(reduction.result, buffer, self._values.dims(reduction.axes), loop_variant=True)

    def _result_tile(self, reduction: FusedReduction) -> Buffer:
        """Allocates the tile of the result of a reduction."""
        stored = any(output.array is reduction.array for output in self._kernel.outputs)
        name = f"{reduction.array.name}_local" if stored else reduction.array.name
        dtype = reduction.array.dtype if reduction.combiner.gives_index else reduction.body.dtype
        tile = self._fragment(name, self._values.dims(reduction.axes), dtype)
        self._result_tiles[reduction.array] = tile
        return tile

    def _combine(self, reduction: FusedReduction, body: Expr, tile: Buffer, *, clear: bool) -> None:
        """Combines the current tile of a body into the tile of the result."""
        for other in self._kernel.reads(body):
            self._ensure_computed(other)
        product = contraction(reduction, body)
        if product is not None and self._fits_gemm(reduction, product):
            self._gemm(reduction, product, tile, clear=clear)
            return
        self._materialize_shared_values(body)
        dims = self._values.dims(reduction.axes)
        reduced = self._values.dims(reduction.reduced)
        neutral = initial_value(reduction, finite=False)
        if not self._values.dims(reduction.reduced):
            held = self._materialize(body, reduction.array.name, dims, None)
            old = read_tile(tile, dims)
            self._assign(old, dims, held if clear else binary(reduction.combiner.operator, old, held))
            return
        order = _with_order_of(dims, self._memory_order(body, self._values.dims((*dims, *reduced))))
        source = self._materialize(body, f"{reduction.array.name}_tile", order, neutral)
        for axis in reduced[:-1]:
            position = list(map(id, order)).index(id(axis))
            order = [each for each in order if each is not axis]
            partial = self._fragment(f"{reduction.array.name}_part", order, reduction.body.dtype)
            self._reduce(reduction, source.buffer, partial, position, clear=True)
            source = read_tile(partial, order)
        position = list(map(id, order)).index(id(reduced[-1]))
        if reduction.combiner.gives_index:
            self._reduce_to_position(reduction, source, tile, position, clear=clear)
        else:
            self._reduce(reduction, source.buffer, tile, position, clear=clear)

    def _reduce(self, reduction: FusedReduction, source: Buffer, target: Buffer, dim: int, *, clear: bool) -> None:
        name, operands = _REDUCE.get(reduction.combiner), f"{self._names.name(source)}, {self._names.name(target)}"
        if name is not None:
            self._write(f"T.{name}({operands}, dim={dim}{'' if clear else ', clear=False'})")
        elif clear:
            self._write(f"T.reduce({operands}, lambda a, b: a * b, dim={dim})")
        else:
            dims = self._values.dims(reduction.axes)
            part = self._fragment(f"{reduction.array.name}_part", dims, target.dtype)
            self._reduce(reduction, source, part, dim, clear=True)
            old = read_tile(target, dims)
            self._assign(old, dims, old * read_tile(part, dims))

    def _reduce_to_position(
        self, reduction: FusedReduction, source: Load, tile: Buffer, dim: int, *, clear: bool
    ) -> None:
        """Finds the position of the extremum of a tile, and combines it with that of earlier tiles."""
        name, dims = reduction.array.name, self._values.dims(reduction.axes)
        function = f"T.arg{reduction.combiner.operator.value}({self._names.name(source.buffer)}"
        if clear:
            self._write(f"{function}, {self._names.name(tile)}, dim={dim})")
            return
        best = self._best[tile]
        place = self._fragment(f"{name}_place", dims, tile.dtype)
        found = self._fragment(f"{name}_found", dims, source.dtype)
        self._write(f"{function}, {self._names.name(place)}, dim={dim}, values={self._names.name(found)})")
        old, new, at = (read_tile(buffer, dims) for buffer in (best, found, place))
        better = new > old if reduction.combiner.operator is BinaryOp.MAX else new < old
        if source.dtype.is_float:
            better = binary(BinaryOp.OR, better, binary(BinaryOp.AND, new != new, old == old))
        (axis,) = reduction.reduced
        here = self._placement.places[axis].origin + at
        where = read_tile(tile, dims)
        self._assign(where, dims, select(better, here, where))
        self._assign(old, dims, select(better, new, old))

    # -- matrix products ------------------------------------------------------------------------------------------
    def _fits_gemm(self, reduction: FusedReduction, product: Contraction) -> bool:
        """Whether the tile of the result has one axis of rows and one of columns."""
        dims = self._values.dims(reduction.axes)
        return (
            len(dims) == 2
            and dims[0] in set(product.rows)
            and dims[1] in set(product.columns)
            and len(self._values.dims(reduction.reduced)) == 1
        )

    def _gemm(self, reduction: FusedReduction, product: Contraction, tile: Buffer, *, clear: bool) -> None:
        row, column = self._values.dims(reduction.axes)
        (k,) = self._values.dims(reduction.reduced)
        dtypes = [self._operand_dtype(operand) for operand in (product.a, product.b)]
        wide = [dtype for dtype in dtypes if dtype is not None]
        common = max(wide, key=lambda dtype: dtype.bits) if wide else reduction.body.dtype
        common = common if can_accumulate(common, tile.dtype) else tile.dtype
        a, a_order = self._operand(product.a, (row, k), common, fragment=True)
        b, b_order = self._operand(product.b, (k, column), common, fragment=False)
        options = ["transpose_A=True"] if a_order[0] is k else []
        options += ["transpose_B=True"] if b_order[0] is not k else []
        options += ["policy=T.GemmWarpPolicy.FullRow"] if self._reduces_rows(row) else []
        options += ["clear_accum=True"] if clear else []
        operands = [self._names.name(buffer) for buffer in (a, b, tile)]
        self._write(f"T.gemm({', '.join([*operands, *options])})")
        if product.scale is not None:
            assert clear, "scales are separated from products that are accumulated"
            old = read_tile(tile, (row, column))
            self._assign(old, (row, column), old * product.scale)

    def _reduces_rows(self, row: Var) -> bool:
        """Whether tiles are also reduced along rows, which is fastest where a warp holds whole rows."""
        others = (r for r in self._kernel.reductions if contraction(r) is None)
        return any(row in set(r.axes) for r in others)

    def _operand_dtype(self, operand: Expr) -> DType | None:
        """The dtype of an operand that is loaded or rounded; None for one that takes the dtype of the other operand."""
        inner = without_widening(operand)
        return inner.dtype if isinstance(inner, Cast) or self._plain_load(inner) is not None else None

    def _operand(
        self, operand: Expr, axes: tuple[Var, Var], dtype: DType, *, fragment: bool
    ) -> tuple[Buffer, Sequence[Var]]:
        """The tile of an operand, and its axes in order."""
        inner = without_widening(operand)
        held = self._values.tile_of(inner, operand)
        if held is not None and not dtype.is_float and held.buffer.dtype != dtype:
            held = None  # gemms round floats to the other operand's dtype, and no integers
        if held is not None and (held.buffer.scope is Scope.SHARED or fragment and same_axes(held.indices, axes)):
            return held.buffer, held.indices  # type: ignore[return-value]
        load = self._plain_load(inner)
        if load is not None and load.dtype == dtype and self._is_zero_padded(load):
            order = self._tile_axes(load)
            shared = self._shared(load.buffer.name, order, dtype)
            self._write_load(inner, f"T.copy({self._region(load)}, {self._names.name(shared)})")
            self._values.hold(inner, shared, order, loop_variant=self._is_loop_variant(inner), padding=0.0)
            return shared, order
        for other in self._kernel.reads(inner):
            self._ensure_computed(other)
        shared = self._shared("operand", axes, dtype)
        self._assign(read_tile(shared, axes), axes, cast(self._masked(inner, axes, Const(0.0, inner.dtype)), dtype))
        return shared, axes


def _with_order_of(dims: Sequence[Var], order: Sequence[Var]) -> list[Var]:
    """`order`, with those axes that are in `dims` in the order of `dims`: that of the result of a reduction."""
    kept = iter(dims)
    return [next(kept) if axis in set(dims) else axis for axis in order]


def initial_value(reduction: FusedReduction, *, finite: bool) -> Const:
    """The initial value of an accumulator: the neutral one, or a finite one in its place if `finite`."""
    dtype = reduction.body.dtype
    if finite and reduction.combiner is not Combiner.SUM:
        return const(dtype.limits[reduction.combiner is Combiner.MIN], dtype)
    return const(reduction.combiner.neutral(dtype), dtype)

